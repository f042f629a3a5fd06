//! The Jobs that maintain repositories, as they are in the cluster.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::metadata::name;
use velero_api::v1::BackupRepository;
use velero_cluster::{Error as ClusterError, list_all};
use velero_rules::repository_maintenance::{JobState, MaintenanceJob};

use crate::repository::job_template::CONTAINER;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};

/// What the text of a maintenance begins with that failed, in the end of its log.
pub(crate) const ERROR_MARK: &str = "Repo maintenance error: ";
/// The Deployment of the server.
const SERVER: &str = "velero";

fn api<K>(context: &Context) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(context.objects.cluster().client().clone(), context.objects.namespace())
}

/// The Deployment that the server runs in; `None` where it runs in none.
pub(super) async fn server_deployment(context: &Context) -> Result<Option<Deployment>> {
    let found = api::<Deployment>(context).get_opt(SERVER).await;
    Ok(found.map_err(|error| ClusterError::from_kube(format!("get deployment {SERVER}"), error))?)
}

/// The Jobs of a repository.
pub(super) async fn list(context: &Context, repository: &BackupRepository) -> Result<Vec<MaintenanceJob>> {
    let selector = format!("{}={}", labels::REPOSITORY_NAME, labels::valid_value(name(repository)));
    let found = list_all(&api::<Job>(context), &ListParams::default().labels(&selector)).await;
    let found = found.map_err(|error| ClusterError::from_kube("list maintenance jobs", error))?;
    Ok(found.items.iter().map(seen).collect())
}

fn seen(job: &Job) -> MaintenanceJob {
    let status = job.status.clone().unwrap_or_default();
    let ended = |kind: &str| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == kind && condition.status == "True")
    };
    let moment = |kind| ended(kind).and_then(|condition| Some(condition.last_transition_time.as_ref()?.0));
    let state = if status.succeeded.unwrap_or_default() > 0 || ended("Complete").is_some() {
        JobState::Succeeded(status.completion_time.as_ref().map(|time| time.0).or_else(|| moment("Complete")))
    } else if status.failed.unwrap_or_default() > 0 || ended("Failed").is_some() {
        JobState::Failed(moment("Failed"))
    } else {
        JobState::Running
    };
    let created = job.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    MaintenanceJob { name: name(job).to_owned(), created, state }
}

/// Begins a Job.
pub(super) async fn create(context: &Context, job: &Job) -> Result<(), ClusterError> {
    let made = api::<Job>(context).create(&PostParams::default(), job).await;
    made.map(|_| ()).map_err(|error| ClusterError::from_kube(format!("create job {}", name(job)), error))
}

/// Lets an old Job go, with its pods: its lifetime is over from now on. That asks for no right to delete Jobs.
pub(super) async fn let_go(context: &Context, job: &str) {
    patch(context, job, &json!({ "spec": { "ttlSecondsAfterFinished": 0 } })).await;
}

async fn patch(context: &Context, job: &str, change: &Value) {
    let patched = api::<Job>(context).patch(job, &PatchParams::default(), &Patch::Merge(change)).await;
    let patched = patched.map_err(|error| ClusterError::from_kube(format!("patch job {job}"), error));
    if let Err(error) = patched
        && !error.is_not_found()
    {
        tracing::warn!(job, error = describe(&error), "A maintenance Job could not be ended or removed");
    }
}

/// Why a Job failed, as its pod said in the end.
pub(super) async fn failure(context: &Context, job: &str) -> String {
    match pod_of(context, job).await {
        Ok(Some(pod)) => said(&pod).unwrap_or_else(|| not_known("its pod did not say why")),
        Ok(None) => not_known("its pod is gone"),
        Err(error) => not_known(&format!("its pod could not be asked: {error}")),
    }
}

async fn pod_of(context: &Context, job: &str) -> Result<Option<Pod>, kube::Error> {
    let parameters = ListParams::default().labels(&format!("job-name={job}")).limit(1);
    Ok(api::<Pod>(context).list(&parameters).await?.items.pop())
}

/// What keeps the pod of a Job from starting; nothing where it has started, or where nobody can tell.
pub(super) async fn obstacle(context: &Context, job: &str) -> Option<String> {
    match pod_of(context, job).await {
        Ok(Some(pod)) => waits(&pod),
        // One that others hold back has none because they want it so.
        Ok(None) => {
            let found = api::<Job>(context).get_opt(job).await.ok().flatten()?;
            let is_held = found.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
            (!is_held && seen(&found).state == JobState::Running).then(|| "it has no pod".to_owned())
        }
        Err(error) => {
            tracing::debug!(job, %error, "The pod of a maintenance Job cannot be asked");
            None
        }
    }
}

/// What a pod says that has not started.
fn waits(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Pending"))?;
    let unplaced =
        status.conditions.iter().flatten().find(|found| found.type_ == "PodScheduled" && found.status == "False");
    let unplaced = unplaced.map(|found| [found.reason.clone(), found.message.clone()]);
    let waiting = container(status).and_then(|container| container.state.as_ref()?.waiting.as_ref());
    let waiting = waiting.map(|waiting| [waiting.reason.clone(), waiting.message.clone()]);
    let words = unplaced.into_iter().chain(waiting).flatten().flatten().filter(|word| !word.is_empty());
    let said: Vec<String> = std::iter::once(format!("pod {} is Pending", name(pod))).chain(words).collect();
    Some(said.join(": "))
}

/// Ends a Job whose pod does not start: its time is over from now on. That asks for no right to delete Jobs.
pub(super) async fn end(context: &Context, job: &str) {
    patch(context, job, &json!({ "spec": { "activeDeadlineSeconds": 1 } })).await;
}

fn not_known(why: &str) -> String {
    format!("Repo maintenance failed but result is not retrieveable, err: {why}")
}

/// The container that maintains the repository. Others may have put theirs before it.
fn container(status: &PodStatus) -> Option<&ContainerStatus> {
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    containers.iter().find(|container| container.name == CONTAINER).or_else(|| containers.first())
}

/// What the container of a pod said in the end.
fn said(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let ended = container(status).and_then(|container| container.state.as_ref()?.terminated.as_ref());
    let message = ended.and_then(|ended| ended.message.as_deref()).unwrap_or_default();
    if let Some((_, text)) = message.split_once(ERROR_MARK) {
        return Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    }
    // It was ended by the system, or never ran.
    let words = [
        ended.and_then(|ended| ended.reason.clone()),
        status.reason.clone(),
        status.message.clone(),
        Some(message.trim().to_owned()),
    ];
    let words: Vec<String> = words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
    if words.is_empty() { None } else { Some(not_known(&words.join(": "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_job_is_that_of_its_pod() {
        let job = |status| {
            let metadata = json!({ "name": "j", "creationTimestamp": "2026-01-01T00:00:00Z" });
            seen(&serde_json::from_value::<Job>(json!({ "metadata": metadata, "status": status })).unwrap()).state
        };
        let at = |text: &str| Some(text.parse().unwrap());
        assert_eq!(job(json!({})), JobState::Running);
        assert_eq!(job(json!({ "active": 1 })), JobState::Running);
        let done = json!({ "succeeded": 1, "completionTime": "2026-01-01T00:01:00Z" });
        assert_eq!(job(done), JobState::Succeeded(at("2026-01-01T00:01:00Z")));
        assert_eq!(job(json!({ "failed": 1 })), JobState::Failed(None));
        let condition = json!({ "type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z" });
        assert_eq!(job(json!({ "conditions": [condition] })), JobState::Failed(at("2026-01-01T00:02:00Z")));
    }

    #[test]
    fn why_a_job_failed_is_what_its_pod_said_behind_the_mark() {
        let pod = |status| said(&serde_json::from_value::<Pod>(json!({ "status": status })).unwrap());
        let ended = |terminated| {
            json!({ "containerStatuses": [{
            "name": "c", "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
            "state": { "terminated": terminated } }] })
        };
        let text = "time=x level=info\nRepo maintenance error: no bucket";
        assert_eq!(pod(ended(json!({ "exitCode": 1, "message": text }))).unwrap(), "no bucket");
        let killed = pod(ended(json!({ "exitCode": 137, "reason": "OOMKilled" }))).unwrap();
        assert!(killed.contains("OOMKilled") && killed.starts_with("Repo maintenance failed"), "{killed}");
        assert!(pod(json!({ "reason": "DeadlineExceeded" })).unwrap().contains("DeadlineExceeded"));
        assert_eq!(pod(json!({})), None);
    }

    #[test]
    fn a_container_that_somebody_put_before_has_no_say() {
        let status = |name: &str, state: Value| {
            json!({ "name": name, "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
                "state": state })
        };
        let text = "Repo maintenance error: no bucket";
        let sidecar = status("istio-proxy", json!({ "terminated": { "exitCode": 0, "reason": "Completed" } }));
        let own = status(CONTAINER, json!({ "terminated": { "exitCode": 1, "message": text } }));
        let pod: Pod =
            serde_json::from_value(json!({ "status": { "phase": "Failed", "containerStatuses": [sidecar, own] } }))
                .unwrap();
        assert_eq!(said(&pod).unwrap(), "no bucket");
    }

    #[test]
    fn a_pod_that_has_not_started_says_what_it_waits_for() {
        let pod = |status: Value| {
            let pod = json!({ "metadata": { "name": "p" }, "status": status });
            waits(&serde_json::from_value::<Pod>(pod).unwrap())
        };
        let waiting = json!({ "reason": "ImagePullBackOff", "message": "no such image" });
        let container = json!([{ "name": CONTAINER, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": waiting } }]);
        let unplaced = json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits" }]);
        for (status, expected) in [
            (json!({ "phase": "Pending" }), Some("pod p is Pending")),
            (
                json!({ "phase": "Pending", "conditions": unplaced }),
                Some("pod p is Pending: Unschedulable: no node fits"),
            ),
            (
                json!({ "phase": "Pending", "containerStatuses": container }),
                Some("pod p is Pending: ImagePullBackOff: no such image"),
            ),
            (json!({ "phase": "Running" }), None),
            (json!({ "phase": "Failed" }), None),
            (json!({}), None),
        ] {
            assert_eq!(pod(status.clone()).as_deref(), expected, "{status}");
        }
    }
}

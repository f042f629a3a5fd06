//! Waiting for the server.

use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;
use kube::api::ListParams;
use tokio::time::{Instant, sleep};
use velero_api::metadata;

use crate::session::{Session, api_error};

/// How long the server may take to become ready.
const READY_WITHIN: Duration = Duration::from_secs(180);
/// How often it is looked at.
const POLL: Duration = Duration::from_millis(500);

/// Waits until the pod of the present Deployment, and no other, serves.
pub(super) async fn wait_for_server(session: &Session, name: &str) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let deployment = api.get(name).await.map_err(api_error)?;
        if is_ready(&deployment) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let namespace = session.namespace();
            bail!(
                "the server is not ready after {READY_WITHIN:?}: {}; see `kubectl logs deploy/{name} -n {namespace}` and \
                 `kubectl describe pods -n {namespace}`",
                state_of_pods(session, &deployment).await?
            );
        }
        sleep(POLL).await;
    }
}

fn is_ready(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let is_seen = status.observed_generation >= deployment.metadata.generation;
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    // A count of none is left out.
    let counts = [status.available_replicas, status.updated_replicas, status.replicas];
    is_seen && counts.iter().all(|count| count.unwrap_or(0) == wanted)
}

/// What keeps the pods from being ready.
async fn state_of_pods(session: &Session, deployment: &Deployment) -> Result<String> {
    let api: Api<Pod> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let pods = api.list(&ListParams::default().labels(&selector_of_pods(deployment))).await.map_err(api_error)?;
    let states: Vec<String> = pods.items.iter().map(state_of).collect();
    Ok(if states.is_empty() { "there is no pod".to_owned() } else { states.join("; ") })
}

/// How the pods of a Deployment are found: those of Velero's chart have other labels than ours.
fn selector_of_pods(deployment: &Deployment) -> String {
    let labels = deployment.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
    let labels = labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

fn state_of(pod: &Pod) -> String {
    let name = metadata::name(pod);
    let Some(status) = &pod.status else { return format!("pod {name} is new") };
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut problems: Vec<String> = containers.filter_map(problem_of).collect();
    let conditions = status.conditions.iter().flatten().filter(|condition| condition.status != "True");
    problems.extend(conditions.filter_map(|condition| condition.message.clone()));
    let phase = status.phase.as_deref().unwrap_or("Pending");
    format!("pod {name} is {phase}: {}", problems.join(", "))
}

fn problem_of(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let waiting = state.waiting.as_ref().map(|waiting| (waiting.reason.clone(), waiting.message.clone()));
    let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0);
    let ended = ended.map(|ended| (ended.reason.clone(), ended.message.clone()));
    let (reason, message) = waiting.or(ended)?;
    let texts: Vec<String> = [reason, message].into_iter().flatten().collect();
    Some(format!("container {} {}", container.name, texts.join(": ")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(status: &Value) -> Deployment {
        let object = json!({
            "metadata": {"generation": 2},
            "spec": {"replicas": 1, "selector": {}, "template": {}},
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn only_the_pod_of_the_present_deployment_counts() {
        let full = |generation: i64, replicas: i32| {
            json!({
                "observedGeneration": generation, "replicas": replicas, "updatedReplicas": 1, "availableReplicas": 1,
            })
        };
        for (status, expected) in [
            (full(2, 1), true),
            (full(1, 1), false),
            (full(2, 2), false),
            (json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1}), false),
            (json!({}), false),
        ] {
            assert_eq!(is_ready(&deployment(&status)), expected, "{status}");
        }
        let switched_off = |status: &Value| {
            let mut deployment = deployment(status);
            deployment.spec.as_mut().unwrap().replicas = Some(0);
            is_ready(&deployment)
        };
        assert!(switched_off(&json!({"observedGeneration": 2})), "one that is switched off is waited for by nobody");
        assert!(!switched_off(&full(2, 1)), "its pod is still there");
    }

    #[test]
    fn the_pods_are_those_that_the_deployment_selects() {
        let mut deployment = deployment(&json!({}));
        assert_eq!(selector_of_pods(&deployment), "");
        let labels = [("app.kubernetes.io/instance", "backup"), ("app.kubernetes.io/name", "velero")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        deployment.spec.as_mut().unwrap().selector.match_labels = Some(labels.into());
        let expected = "app.kubernetes.io/instance=backup,app.kubernetes.io/name=velero";
        assert_eq!(selector_of_pods(&deployment), expected);
    }
}

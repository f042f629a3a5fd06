//! The volume of a pod on this node, shown to the mover by the folder in which the kubelet has mounted it.

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim, Pod, Volume};
use kube::Api;
use serde_json::json;
use velero_api::metadata::uid;
use velero_cluster::types::PODS;

use super::{claims, host_path};
use crate::node_agent::agent::Agent;
use crate::node_agent::pod::rights::Access;
use crate::node_agent::pod::template::{Attachment, Mover, Placement};
use crate::node_agent::resources;
use crate::node_agent::transfer::{Made, Owner};
use crate::runtime::error::{Error, Result};

/// A volume of a pod, and what is done with it.
pub(crate) struct PodVolume<'a> {
    pub(crate) owner: &'a Owner,
    pub(crate) label: &'static str,
    pub(crate) access: Access,
    pub(crate) pod: &'a ObjectReference,
    pub(crate) volume: &'a str,
    /// The size of what is restored; nothing where it is not known.
    pub(crate) snapshot_size: i64,
}

/// The pod that a reference means; an error where it is gone or another one has its name.
pub(crate) async fn referred_pod(agent: &Agent, reference: &ObjectReference) -> Result<Option<Pod>> {
    let namespace = reference.namespace.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(agent.client(), namespace);
    let pod = resources::get(&pods, reference.name.as_deref().unwrap_or_default()).await?;
    let wanted = reference.uid.as_deref().filter(|uid| !uid.is_empty());
    Ok(pod.filter(|pod| wanted.is_none() || wanted == pod.metadata.uid.as_deref()))
}

impl PodVolume<'_> {
    /// Makes the mover.
    pub(crate) async fn expose(&self, agent: &Agent) -> Result<Made> {
        let pod = self.pod_on_this_node(agent).await?;
        let folder = host_path::find(agent, &pod, self.volume).await?;
        let host_pods = agent.inherited().await?.host_pods.clone();
        let folder = std::path::Path::new(&host_pods).join(folder);
        let cache_claim = match self.access {
            Access::Read => None,
            Access::Write => claims::cache(agent, self.owner, self.snapshot_size, Some(agent.node())).await?,
        };
        let mover = Mover {
            owner: self.owner,
            label: self.label,
            command: ["pod-volume", if self.access == Access::Read { "backup" } else { "restore" }],
            flag: if self.access == Access::Read { "pod-volume-backup" } else { "pod-volume-restore" },
            access: self.access,
            volume: json!({ "hostPath": { "path": folder, "type": "Directory" } }),
            attachment: Attachment::HostFolder,
            tells_mode: false,
            cache_claim,
            is_privileged: agent.config.privileged_fs_backup,
            leaves_labels: false,
            resource_timeout: agent.settings.patience.resource_timeout,
            placement: Placement::Node(agent.node().to_owned()),
        };
        mover.create(agent).await?;
        Ok(Made::Done)
    }

    /// Removes the mover and its cache.
    pub(crate) async fn clean_up(&self, agent: &Agent) -> Result<Made> {
        let cluster = agent.objects.cluster();
        let item = PODS.item(Some(&self.owner.namespace), &self.owner.name);
        let pod_is_gone = resources::delete_owned(cluster, item, &self.owner.uid).await?;
        let cache_is_gone = claims::remove(agent, self.owner, &claims::cache_name(self.owner)).await?;
        Ok(if pod_is_gone && cache_is_gone { Made::Done } else { Made::NotYet(claims::LOOK_AGAIN) })
    }

    /// An error where the volume goes with its pod, and that is over: what was removed before it was read is missed by
    /// nobody.
    pub(crate) async fn check_still_there(&self, agent: &Agent) -> Result<()> {
        let pod = referred_pod(agent, self.pod).await?;
        if !is_taken_away(pod.as_ref(), self.volume) {
            return Ok(());
        }
        let problem = format!(
            "it ended while its volume {:?} was read, and the volume is removed with it, file by file: the copy may \
             lack files. Back it up again while the pod runs, or keep what is to outlive the pod in a claim",
            self.volume
        );
        Err(Error::unmet("Pod", &self.title(), problem))
    }

    /// An error where the claim that the volume is made of is gone, or another one has its name: its storage may have been
    /// removed while it was read.
    pub(crate) async fn check_claim_still_there(&self, agent: &Agent, claim: &str, claim_uid: &str) -> Result<()> {
        let namespace = self.pod.namespace.as_deref().unwrap_or_default();
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(agent.client(), namespace);
        let found = resources::get(&claims, claim).await?;
        if found.is_some_and(|found| claim_uid.is_empty() || uid(&found) == claim_uid) {
            return Ok(());
        }
        let problem = format!(
            "it was deleted while volume {:?} of pod {} was read, and its storage may go with it, file by file: the copy may \
             lack files. Back it up again while the claim is there",
            self.volume,
            self.title()
        );
        Err(Error::unmet("PersistentVolumeClaim", &format!("{namespace}/{claim}"), problem))
    }

    /// The pod, for messages.
    fn title(&self) -> String {
        let name = |field: &Option<String>| field.clone().unwrap_or_default();
        format!("{}/{}", name(&self.pod.namespace), name(&self.pod.name))
    }

    async fn pod_on_this_node(&self, agent: &Agent) -> Result<Pod> {
        let pod = referred_pod(agent, self.pod).await?;
        let pod = pod.ok_or_else(|| Error::unmet("Pod", &self.title(), "it is gone, or another pod has its name"))?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        if node != agent.node() {
            let problem = format!("it is on node {node:?}, not on {:?}; its volumes are mounted there", agent.node());
            return Err(host_path::failed(&pod, problem));
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        if self.access == Access::Read && phase != "Running" {
            let problem = format!("it is {phase}; only volumes of running pods can be copied");
            return Err(host_path::failed(&pod, problem));
        }
        Ok(pod)
    }
}

/// Whether the kubelet has removed a volume that is made of no claim, or does so now: it empties an emptyDir as soon as
/// the containers of its pod have ended, long before the pod is gone, and a driver what it made for the pod.
fn is_taken_away(pod: Option<&Pod>, volume: &str) -> bool {
    let Some(pod) = pod else { return true };
    let volumes = pod.spec.iter().filter_map(|spec| spec.volumes.as_ref()).flatten();
    let goes_with_pod = |found: &Volume| found.empty_dir.is_some() || found.csi.is_some();
    volumes.into_iter().any(|found| found.name == volume && goes_with_pod(found)) && is_over(pod)
}

/// Whether no container of a pod runs any more, nor will again.
fn is_over(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let has_ended = matches!(status.and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"));
    let containers = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let mut states = containers.filter_map(|container| container.state.as_ref());
    has_ended || pod.metadata.deletion_timestamp.is_some() && !states.any(|state| state.running.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_was_made_for_a_pod_is_taken_away_when_its_containers_have_ended() {
        let running = json!({ "running": {} });
        let ended = json!({ "terminated": { "exitCode": 0 } });
        let deleted = json!("2026-01-01T00:00:00Z");
        let pod = |volume: &Value, deleted: &Value, phase: &str, state: &Value| -> Pod {
            let container = json!({
                "name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
            });
            let pod = json!({
                "metadata": { "deletionTimestamp": deleted },
                "spec": { "containers": [], "volumes": [volume] },
                "status": { "phase": phase, "containerStatuses": [container] },
            });
            serde_json::from_value(pod).unwrap()
        };
        let (folder, claim) = (
            json!({ "name": "data", "emptyDir": {} }),
            json!({ "name": "data", "persistentVolumeClaim": { "claimName": "c" } }),
        );
        let of_driver = json!({ "name": "data", "csi": { "driver": "disk.example.com" } });
        for (volume, deleted, phase, state, expected) in [
            (&folder, &Value::Null, "Running", &running, false),
            (&folder, &Value::Null, "Running", &ended, false),
            (&folder, &Value::Null, "Succeeded", &ended, true),
            (&folder, &Value::Null, "Failed", &ended, true),
            (&folder, &deleted, "Running", &running, false),
            (&folder, &deleted, "Running", &ended, true),
            (&claim, &deleted, "Running", &ended, false),
            (&claim, &Value::Null, "Succeeded", &ended, false),
            (&of_driver, &deleted, "Running", &running, false),
            (&of_driver, &deleted, "Running", &ended, true),
        ] {
            let found = is_taken_away(Some(&pod(volume, deleted, phase, state)), "data");
            assert_eq!(found, expected, "{volume} {deleted} {phase} {state}");
        }
        assert!(is_taken_away(None, "data"), "nobody can tell any more what it was");
    }
}

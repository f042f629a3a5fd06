//! What it takes to fill the volumes of pods from copies, also when the last object of the restore is made.

use serde_json::Value;
use tokio::time::Instant;
use velero_api::labels;
use velero_api::metadata::{name, namespace, uid};
use velero_api::v1::{PodVolumeRestore, Restore};
use velero_cluster::{Cluster, types};
use velero_plugin::item::{elements, text};
use velero_rules::pod_volumes::is_wait_container;

use super::super::followed::Followed;
use super::super::means::CopyMeans;
use super::super::restore_context::RestoreContext;
use super::agents::{Agents, FIRST_START};
use super::repositories::Repositories;
use crate::Journal;

/// What it takes to fill the volumes of pods.
pub(super) struct Filler {
    pub cluster: Cluster,
    pub journal: Journal,
    pub restore: Restore,
    /// The location of the backup.
    pub location: String,
    pub means: CopyMeans,
    pub agents: Agents,
    pub repositories: Repositories,
    pub transfers: Followed<PodVolumeRestore>,
    pub pods: Followed<SeenPod>,
    pub deadline: Instant,
}

/// What is seen of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SeenPod {
    pub node: String,
    /// Whether it has ended, or is going away, and its volumes were not filled before: then nobody can fill them.
    pub is_over: bool,
    /// Whether its init container says that it waits for the volumes.
    pub waits: bool,
    /// Why that container does not start, where it is tried in vain.
    pub stuck: Option<String>,
}

impl SeenPod {
    fn read(pod: &Value) -> Self {
        let containers = || elements(pod, "/status/initContainerStatuses").filter(|it| is_wait_container(it));
        // It goes on once all volumes are filled, and may have ended before the agents have said so.
        let has_gone_on = containers().any(|it| it["state"]["terminated"]["exitCode"] == 0);
        let has_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
            || !text(pod, "/metadata/deletionTimestamp").is_empty();
        Self {
            node: text(pod, "/spec/nodeName").to_owned(),
            is_over: has_ended && !has_gone_on,
            waits: containers().any(|it| it["state"]["running"].is_object()),
            stuck: containers().find_map(why_it_does_not_start),
        }
    }
}

/// What the kubelet says of a container that it has tried to start.
fn why_it_does_not_start(container: &Value) -> Option<String> {
    let waiting = &container["state"]["waiting"];
    let (reason, message) = (text(waiting, "/reason"), text(waiting, "/message"));
    let was_tried = !matches!(reason, "" | "PodInitializing" | "ContainerCreating");
    was_tried.then(|| format!("{reason}: {message}").trim_end_matches([' ', ':']).to_owned())
}

impl Filler {
    /// That of a restore, from now on.
    pub(super) fn new(restore: &RestoreContext<'_>, started: Instant) -> Self {
        let (cluster, own) = (restore.cluster, namespace(restore.restore));
        let of_restore = format!("{}={}", labels::RESTORE_UID, uid(restore.restore));
        let mut makers = restore.earlier.labels();
        makers.push(labels::valid_value(name(restore.restore)));
        let restored = format!("{} in ({})", labels::RESTORE_NAME, makers.join(","));
        let timeout = restore.copy_means.timeout_of(&restore.restore.metadata, restore.journal);
        Self {
            cluster: cluster.clone(),
            journal: restore.journal.clone(),
            restore: restore.restore.clone(),
            location: restore.location.to_owned(),
            means: restore.copy_means.clone(),
            agents: Agents::new(cluster, own, FIRST_START),
            repositories: Repositories::default(),
            transfers: Followed::new(cluster, &types::POD_VOLUME_RESTORES, Some(own), of_restore, read),
            pods: Followed::new(cluster, &types::PODS, None, restored, SeenPod::read),
            deadline: started + timeout,
        }
    }
}

fn read(filling: &Value) -> PodVolumeRestore {
    serde_json::from_value(filling.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_has_ended_or_goes_away_cannot_be_filled() {
        for (pod, node, is_over) in [
            (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}), "n", false),
            (json!({"spec": {}, "status": {"phase": "Pending"}}), "", false),
            (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}), "n", true),
            (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}), "", true),
        ] {
            let expected = SeenPod { node: node.to_owned(), is_over, ..SeenPod::default() };
            assert_eq!(SeenPod::read(&pod), expected, "{pod}");
        }
    }

    #[test]
    fn a_pod_that_has_ended_after_it_went_on_was_filled() {
        for (name, exit_code, phase, is_over) in [
            ("restore-wait", 0, "Succeeded", false),
            ("restore-wait", 0, "Failed", false),
            ("restore-wait", 1, "Failed", true),
            ("own", 0, "Failed", true),
        ] {
            let waited = json!({"name": name, "state": {"terminated": {"exitCode": exit_code}}});
            let pod = json!({"status": {"phase": phase, "initContainerStatuses": [waited]}});
            assert_eq!(SeenPod::read(&pod).is_over, is_over, "{pod}");
        }
    }

    #[test]
    fn an_init_container_that_is_started_in_vain_says_why() {
        for (name, waiting, expected) in [
            ("restore-wait", json!({"reason": "PodInitializing"}), None),
            ("restore-wait", json!({"reason": "ContainerCreating"}), None),
            ("restore-wait", json!(null), None),
            ("own", json!({"reason": "ImagePullBackOff"}), None),
            ("restore-wait", json!({"reason": "ErrImagePull", "message": "no tag"}), Some("ErrImagePull: no tag")),
            ("restore-wait", json!({"reason": "CreateContainerConfigError"}), Some("CreateContainerConfigError")),
        ] {
            let pod = json!({"status": {"initContainerStatuses": [{"name": name, "state": {"waiting": waiting}}]}});
            assert_eq!(SeenPod::read(&pod).stuck.as_deref(), expected, "{pod}");
        }
    }

    #[test]
    fn a_pod_waits_while_its_init_container_runs() {
        for (name, state, waits) in [
            ("restore-wait", json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}), true),
            ("restic-wait", json!({"running": {}}), true),
            ("restore-wait", json!({"terminated": {"exitCode": 0}}), false),
            ("restore-wait", json!({"waiting": {"reason": "PodInitializing"}}), false),
            ("own", json!({"running": {}}), false),
        ] {
            let pod = json!({"status": {"initContainerStatuses": [{"name": name, "state": state}]}});
            assert_eq!(SeenPod::read(&pod).waits, waits, "{pod}");
        }
    }
}

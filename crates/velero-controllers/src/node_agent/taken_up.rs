//! What the agent before this one left at work. It counts before this one begins anything: looked at one after the other,
//! a transfer that waits for a slot could come before the one that has it.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use velero_api::DataMovePhase;
use velero_api::labels::EXPOSE_ON_GOING;
use velero_api::metadata::{annotation, uid};
use velero_cluster::{Error as ClusterError, list_all_metadata};

use crate::node_agent::agent::Agent;
use crate::node_agent::reconcile::MOVER_RESULT;
use crate::node_agent::resources;
use crate::node_agent::transfer::Transfer;
use crate::runtime::error::{Result, describe};

/// Counts the transfers of one kind whose data moves on this node, and those that this agent has accepted.
pub(crate) async fn count<K: Transfer>(agent: &Agent) -> Result<()> {
    // Only what has a pod here is read: there may be thousands that ended long ago.
    let pods: Api<Pod> = Api::namespaced(agent.client(), agent.objects.namespace());
    let here = ListParams::default().labels(K::POD_LABEL).fields(&format!("spec.nodeName={}", agent.node()));
    let found = list_all_metadata(&pods, &here).await;
    let found = found.map_err(|error| ClusterError::from_kube("list pods", error))?;
    for pod in found.items {
        let object = match agent.objects.get::<K>(&pod.name_any()).await {
            Err(error) if !resources::may_pass(&error) => {
                let (kind, name, error) = (K::KIND, pod.name_any(), describe(&error));
                tracing::warn!(kind, name, error, "The object of a mover cannot be read, and is not counted");
                continue;
            }
            object => object?,
        };
        if let Some(object) = object.filter(|object| resources::is_owned_by(&pod.metadata, uid(object)))
            && is_moving(&object, agent.node())
        {
            agent.slots.hold(uid(&object));
        }
    }
    for object in agent.objects.list::<K>(&format!("{EXPOSE_ON_GOING}=true")).await? {
        if is_prepared(&object, agent.node()) {
            agent.preparing.add(uid(&object));
        }
    }
    Ok(())
}

/// Whether the data of a transfer moves, and is followed by the agent of that node.
fn is_moving<K: Transfer>(object: &K, node: &str) -> bool {
    let known = object.known();
    let moves = matches!(known.phase, DataMovePhase::InProgress | DataMovePhase::Canceling);
    // One that has left its result has given its slot back.
    moves && known.mover == node && object.is_built_in() && annotation(object, MOVER_RESULT).is_empty()
}

/// Whether a transfer was accepted by the agent of that node, and does not move data yet.
fn is_prepared<K: Transfer>(object: &K, node: &str) -> bool {
    let known = object.known();
    let is_ahead = matches!(known.phase, DataMovePhase::Accepted | DataMovePhase::Prepared);
    is_ahead && known.acceptor == node && object.is_built_in()
}

#[cfg(test)]
mod tests {
    use velero_api::v1::PodVolumeBackup;
    use velero_api::v2alpha1::{DataDownload, DataUpload};

    use super::*;

    #[test]
    fn only_what_moves_on_the_node_has_a_slot_and_only_what_it_has_accepted_a_place() {
        use DataMovePhase::{Accepted, Canceling, Completed, InProgress, New, Prepared};
        let mut copy = PodVolumeBackup::new("velero", "b-1", Default::default());
        copy.spec.node = "n1".to_owned();
        for (phase, moves, is_ahead) in [
            (New, false, false),
            (Accepted, false, true),
            (Prepared, false, true),
            (InProgress, true, false),
            (Canceling, true, false),
            (Completed, false, false),
        ] {
            copy.status.phase = Some(phase.clone());
            assert_eq!((is_moving(&copy, "n1"), is_prepared(&copy, "n1")), (moves, is_ahead), "{phase}");
            assert_eq!((is_moving(&copy, "n2"), is_prepared(&copy, "n2")), (false, false), "{phase} of another node");
        }
        let mut upload = DataUpload::new("velero", "u-1", Default::default());
        (upload.status.accepted_by_node, upload.status.node) = ("n1".to_owned(), "n2".to_owned());
        upload.status.phase = Some(Prepared);
        assert!(is_prepared(&upload, "n1") && !is_prepared(&upload, "n2"), "it has its place where it was accepted");
        upload.status.phase = Some(InProgress);
        assert!(is_moving(&upload, "n2") && !is_moving(&upload, "n1"), "and its slot where its pod is");
        upload.spec.data_mover = "tape".to_owned();
        assert!(!is_moving(&upload, "n2"), "that of a vendor");
    }

    #[test]
    fn a_download_that_has_left_its_result_has_no_slot() {
        let mut download = DataDownload::new("velero", "d-1", Default::default());
        download.status.node = "n1".to_owned();
        download.status.phase = Some(DataMovePhase::InProgress);
        assert!(is_moving(&download, "n1"));
        download.metadata.annotations = Some([(MOVER_RESULT.to_owned(), "{}".to_owned())].into());
        assert!(!is_moving(&download, "n1"));
    }
}

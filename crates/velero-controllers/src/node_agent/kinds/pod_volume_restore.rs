//! PodVolumeRestore: the volume of a pod that waits for it is filled by the agent of its node.

use k8s_openapi::api::core::v1::Pod;
use velero_api::metadata::name;
use velero_api::v1::PodVolumeRestore;
use velero_api::{finalizers, labels};

use crate::node_agent::agent::Agent;
use crate::node_agent::expose::pod_volume::{PodVolume, referred_pod};
use crate::node_agent::pod::rights::Access;
use crate::node_agent::transfer::{Fields, Known, Made, Owner, Transfer, Wanted, take_restore_result};
use crate::runtime::controller::Controller;
use crate::runtime::error::Result;

/// The container in which a restored pod waits for its data.
const WAIT_CONTAINER: &str = "restore-wait";

impl Transfer for PodVolumeRestore {
    type Due = ();

    const CONTROLLER: Controller = Controller::PodVolumeRestore;
    const POD_LABEL: &'static str = labels::POD_VOLUME_RESTORE;
    const FINALIZER: &'static str = finalizers::POD_VOLUME;

    fn subject(&self) -> String {
        super::subject_of_pod(&self.spec.pod, &self.spec.volume)
    }

    fn known(&self) -> Known<'_> {
        Known {
            phase: self.status.phase(),
            is_cancelled: self.spec.cancel,
            accepted: self.status.accepted_timestamp.as_ref(),
            started: self.status.start_timestamp.as_ref(),
            completed: self.status.completion_timestamp.as_ref(),
            progress: &self.status.progress,
            acceptor: &self.status.node,
            mover: &self.status.node,
        }
    }

    fn fields(&mut self) -> Fields<'_> {
        let status = &mut self.status;
        Fields {
            phase: &mut status.phase,
            message: &mut status.message,
            started: &mut status.start_timestamp,
            completed: &mut status.completion_timestamp,
            accepted: &mut status.accepted_timestamp,
            progress: &mut status.progress,
        }
    }

    fn cancel(&mut self) {
        self.spec.cancel = true;
    }

    fn accepted_by(&mut self, node: &str) {
        node.clone_into(&mut self.status.node);
    }

    fn prepared_by(&mut self, node: &str) {
        node.clone_into(&mut self.status.node);
    }

    fn take_result(&mut self, message: &str) -> Result<(), serde_json::Error> {
        take_restore_result(message, &mut self.status.progress)
    }

    async fn is_wanted(&self, agent: &Agent) -> Result<Wanted> {
        let reference = &self.spec.pod;
        let (namespace, pod_name) =
            (reference.namespace.as_deref().unwrap_or_default(), reference.name.as_deref().unwrap_or_default());
        // Before the pod is read, so that no change of it is missed.
        agent.awaited_pods.wait(namespace, pod_name, name(self));
        let pod = referred_pod(agent, reference).await?;
        let is_here = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(agent.node());
        let Some(pod) = pod.filter(is_here) else { return Ok(Wanted::No) };
        match self.spec.uploader_type.as_str() {
            "kopia" if !waits(&pod) => return Ok(Wanted::No),
            "kopia" => {}
            other => return Ok(Wanted::Never(super::unknown_uploader(other))),
        }
        Ok(Wanted::Yes)
    }

    fn forget(agent: &Agent, name: &str) {
        agent.awaited_pods.stop_waiting(name);
    }

    async fn due(&self, _agent: &Agent) -> Result<Option<()>> {
        Ok(Some(()))
    }

    async fn expose(&self, agent: &Agent, (): ()) -> Result<Made> {
        volume(self, &Owner::of(self)).expose(agent).await
    }

    async fn clean_up(&self, agent: &Agent) -> Result<Made> {
        volume(self, &Owner::of(self)).clean_up(agent).await
    }
}

fn volume<'a>(restore: &'a PodVolumeRestore, owner: &'a Owner) -> PodVolume<'a> {
    PodVolume {
        owner,
        label: PodVolumeRestore::POD_LABEL,
        access: Access::Write,
        pod: &restore.spec.pod,
        volume: &restore.spec.volume,
        snapshot_size: restore.spec.snapshot_size,
    }
}

/// Whether a pod waits for its data: its volumes are mounted, and nothing else uses them.
fn waits(pod: &Pod) -> bool {
    let statuses = pod.status.iter().filter_map(|status| status.init_container_statuses.as_ref()).flatten();
    let mut statuses = statuses.into_iter().filter(|status| status.name == WAIT_CONTAINER);
    statuses.any(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_waits_while_its_wait_container_runs() {
        let pod = |name: &str, state: serde_json::Value| -> Pod {
            let status =
                json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
            serde_json::from_value(json!({ "status": { "initContainerStatuses": [status] } })).unwrap()
        };
        assert!(waits(&pod(WAIT_CONTAINER, json!({ "running": {} }))));
        assert!(!waits(&pod(WAIT_CONTAINER, json!({ "waiting": {} }))));
        assert!(!waits(&pod(WAIT_CONTAINER, json!({ "terminated": { "exitCode": 0 } }))));
        assert!(!waits(&pod("other", json!({ "running": {} }))));
        assert!(!waits(&Pod::default()));
    }
}

//! PodVolumeBackup: the volume of a pod is saved by the agent of its node.

use velero_api::DataMovePhase;
use velero_api::metadata::{annotation, label, name};
use velero_api::v1::PodVolumeBackup;
use velero_api::{annotations, finalizers, labels};

use crate::node_agent::agent::Agent;
use crate::node_agent::expose::pod_volume::PodVolume;
use crate::node_agent::metrics::NodeCounter;
use crate::node_agent::pod::rights::Access;
use crate::node_agent::transfer::{Fields, Known, Made, Owner, Transfer, Wanted, all_done, backup_result};
use crate::runtime::controller::Controller;
use crate::runtime::error::Result;

impl Transfer for PodVolumeBackup {
    type Due = ();

    const CONTROLLER: Controller = Controller::PodVolumeBackup;
    const POD_LABEL: &'static str = labels::POD_VOLUME_BACKUP;
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
            acceptor: &self.spec.node,
            mover: &self.spec.node,
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

    // Which node it is for is in its spec.
    fn accepted_by(&mut self, _node: &str) {}

    fn prepared_by(&mut self, _node: &str) {}

    fn take_result(&mut self, message: &str) -> Result<(), serde_json::Error> {
        let result = backup_result(message)?;
        let status = &mut self.status;
        status.path = result.source.by_path;
        status.snapshot_id = result.snapshot_id;
        status.incremental_bytes = result.incremental_bytes;
        all_done(&mut status.progress, result.total_bytes);
        if result.empty_snapshot {
            "volume was empty so no snapshot was taken".clone_into(&mut status.message);
        }
        Ok(())
    }

    async fn is_wanted(&self, agent: &Agent) -> Result<Wanted> {
        Ok(match self.spec.uploader_type.as_str() {
            _ if self.spec.node != agent.node() => Wanted::No,
            "kopia" => Wanted::Yes,
            other => Wanted::Never(super::unknown_uploader(other)),
        })
    }

    async fn due(&self, _agent: &Agent) -> Result<Option<()>> {
        Ok(Some(()))
    }

    async fn expose(&self, agent: &Agent, (): ()) -> Result<Made> {
        volume(self, &Owner::of(self)).expose(agent).await
    }

    async fn finish(&self, agent: &Agent) -> Result<Made> {
        let owner = Owner::of(self);
        let read = volume(self, &owner);
        match annotation(self, annotations::PVC_NAME) {
            "" => read.check_still_there(agent).await?,
            // What is made of a claim stays when its pod ends.
            claim => read.check_claim_still_there(agent, claim, label(self, labels::PVC_UID)).await?,
        }
        Ok(Made::Done)
    }

    async fn clean_up(&self, agent: &Agent) -> Result<Made> {
        volume(self, &Owner::of(self)).clean_up(agent).await
    }

    fn gone(agent: &Agent, name: &str) {
        agent.metrics.end(name);
    }

    fn count_begin(&self, agent: &Agent) {
        agent.metrics.count(NodeCounter::BackupEnqueue);
    }

    fn count_end(&self, agent: &Agent) {
        let status = &self.status;
        agent.metrics.count(NodeCounter::BackupDequeue);
        if let (DataMovePhase::Completed, Some(begun), Some(ended)) =
            (status.phase(), &status.start_timestamp, &status.completion_timestamp)
        {
            let seconds = ended.0.duration_since(begun.0).as_secs_f64();
            agent.metrics.took(label(self, labels::BACKUP_NAME), name(self), seconds);
        }
    }
}

fn volume<'a>(backup: &'a PodVolumeBackup, owner: &'a Owner) -> PodVolume<'a> {
    PodVolume {
        owner,
        label: PodVolumeBackup::POD_LABEL,
        access: Access::Read,
        pod: &backup.spec.pod,
        volume: &backup.spec.volume,
        snapshot_size: 0,
    }
}

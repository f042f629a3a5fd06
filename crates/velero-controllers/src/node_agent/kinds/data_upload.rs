//! DataUpload: the snapshot of a claim is saved by the agent of the node its mover runs on.

use velero_api::DataMovePhase;
use velero_api::v2alpha1::{DataUpload, NodeOs, SNAPSHOT_TYPE_CSI};
use velero_api::{finalizers, labels};

use crate::node_agent::agent::Agent;
use crate::node_agent::expose::csi_snapshot;
use crate::node_agent::metrics::NodeCounter;
use crate::node_agent::transfer::{Fields, Known, Made, Transfer, Wanted, all_done, backup_result};
use crate::runtime::controller::Controller;
use crate::runtime::error::Result;

impl Transfer for DataUpload {
    type Due = ();

    const CONTROLLER: Controller = Controller::DataUpload;
    const POD_LABEL: &'static str = labels::DATA_UPLOAD;
    const FINALIZER: &'static str = finalizers::DATA_UPLOAD_DOWNLOAD;

    fn is_built_in(&self) -> bool {
        super::is_built_in(&self.spec.data_mover)
    }

    fn subject(&self) -> String {
        format!("claim {}/{}", self.spec.source_namespace, self.spec.source_pvc)
    }

    fn known(&self) -> Known<'_> {
        Known {
            phase: self.status.phase(),
            is_cancelled: self.spec.cancel,
            accepted: self.status.accepted_timestamp.as_ref(),
            started: self.status.start_timestamp.as_ref(),
            completed: self.status.completion_timestamp.as_ref(),
            progress: &self.status.progress,
            acceptor: &self.status.accepted_by_node,
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
        node.clone_into(&mut self.status.accepted_by_node);
    }

    fn prepared_by(&mut self, node: &str) {
        node.clone_into(&mut self.status.node);
        self.status.node_os = Some(NodeOs::Linux);
    }

    fn take_result(&mut self, message: &str) -> Result<(), serde_json::Error> {
        let result = backup_result(message)?;
        let status = &mut self.status;
        status.path = result.source.by_path;
        status.snapshot_id = result.snapshot_id;
        status.incremental_bytes = result.incremental_bytes;
        all_done(&mut status.progress, result.total_bytes);
        if result.empty_snapshot {
            "volume was empty so no data was upload".clone_into(&mut status.message);
        }
        Ok(())
    }

    async fn is_wanted(&self, _agent: &Agent) -> Result<Wanted> {
        let snapshot = self.spec.csi_snapshot.as_ref().filter(|snapshot| !snapshot.volume_snapshot.is_empty());
        Ok(match self.spec.snapshot_type.as_str() {
            SNAPSHOT_TYPE_CSI if snapshot.is_some() => Wanted::Yes,
            SNAPSHOT_TYPE_CSI => {
                Wanted::Never("spec.csiSnapshot.volumeSnapshot is missing; name the VolumeSnapshot".to_owned())
            }
            other => Wanted::Never(format!("spec.snapshotType {other:?} is not supported, only CSI is")),
        })
    }

    async fn due(&self, _agent: &Agent) -> Result<Option<()>> {
        Ok(Some(()))
    }

    async fn expose(&self, agent: &Agent, (): ()) -> Result<Made> {
        csi_snapshot::expose(agent, self).await
    }

    async fn awaited(&self, agent: &Agent) -> Option<String> {
        csi_snapshot::awaited(agent, self).await
    }

    async fn clean_up(&self, agent: &Agent) -> Result<Made> {
        csi_snapshot::clean_up(agent, self).await
    }

    fn count_end(&self, agent: &Agent) {
        agent.metrics.count(match self.status.phase() {
            DataMovePhase::Completed => NodeCounter::UploadSuccess,
            DataMovePhase::Canceled => NodeCounter::UploadCancel,
            _ => NodeCounter::UploadFailure,
        });
    }
}

//! DataDownload: a volume is filled, and given to the claim it is for, by the agent of the node its mover runs on.

use velero_api::DataMovePhase;
use velero_api::v2alpha1::DataDownload;
use velero_api::{finalizers, labels};

use crate::node_agent::agent::Agent;
use crate::node_agent::expose::generic_restore::{self, Target};
use crate::node_agent::expose::rebind;
use crate::node_agent::metrics::NodeCounter;
use crate::node_agent::transfer::{Fields, Known, Made, Transfer, Wanted, take_restore_result};
use crate::runtime::controller::Controller;
use crate::runtime::error::Result;

impl Transfer for DataDownload {
    type Due = Target;

    const CONTROLLER: Controller = Controller::DataDownload;
    const POD_LABEL: &'static str = labels::DATA_DOWNLOAD;
    const FINALIZER: &'static str = finalizers::DATA_UPLOAD_DOWNLOAD;
    const FINISHES: bool = true;

    fn is_built_in(&self) -> bool {
        super::is_built_in(&self.spec.data_mover)
    }

    fn subject(&self) -> String {
        format!("claim {}/{}", self.spec.target_volume.namespace, self.spec.target_volume.pvc)
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
    }

    fn take_result(&mut self, message: &str) -> Result<(), serde_json::Error> {
        take_restore_result(message, &mut self.status.progress)
    }

    async fn is_wanted(&self, _agent: &Agent) -> Result<Wanted> {
        Ok(Wanted::Yes)
    }

    async fn due(&self, agent: &Agent) -> Result<Option<Target>> {
        generic_restore::due(agent, self).await
    }

    async fn expose(&self, agent: &Agent, due: Target) -> Result<Made> {
        generic_restore::expose(agent, self, &due).await
    }

    async fn awaited(&self, agent: &Agent) -> Option<String> {
        generic_restore::awaited(agent, self).await
    }

    async fn finish(&self, agent: &Agent) -> Result<Made> {
        rebind::rebind(agent, self).await
    }

    async fn clean_up(&self, agent: &Agent) -> Result<Made> {
        generic_restore::clean_up(agent, self).await
    }

    fn count_end(&self, agent: &Agent) {
        agent.metrics.count(match self.status.phase() {
            DataMovePhase::Completed => NodeCounter::DownloadSuccess,
            DataMovePhase::Canceled => NodeCounter::DownloadCancel,
            _ => NodeCounter::DownloadFailure,
        });
    }
}

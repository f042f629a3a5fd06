//! Transfers of one kind, DataUploads or DataDownloads: made once, asked about and cancelled by the operation that is their
//! label.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Value, json};
use velero_api::v2alpha1::{DOWNLOAD_OPERATION, UPLOAD_OPERATION};
use velero_api::{DataMovePhase, labels};
use velero_cluster::{Cluster, ResourceType, types};
use velero_plugin::item::{filled, name, text};
use velero_plugin::{Error, OperationProgress, Result};

use super::agents::{Missing, Moment, NodeAgents};
use super::is_built_in;
use crate::objects::list;

/// The transfers of one kind.
pub(crate) struct Transfers {
    cluster: Cluster,
    resource_type: ResourceType,
    /// What the operations of such transfers begin with.
    prefix: &'static str,
    agents: Arc<NodeAgents>,
}

impl Transfers {
    pub(crate) fn uploads(cluster: &Cluster, agents: &Arc<NodeAgents>) -> Self {
        Self::of(cluster, agents, types::DATA_UPLOADS.clone(), UPLOAD_OPERATION)
    }

    pub(crate) fn downloads(cluster: &Cluster, agents: &Arc<NodeAgents>) -> Self {
        Self::of(cluster, agents, types::DATA_DOWNLOADS.clone(), DOWNLOAD_OPERATION)
    }

    fn of(cluster: &Cluster, agents: &Arc<NodeAgents>, resource_type: ResourceType, prefix: &'static str) -> Self {
        Self { cluster: cluster.clone(), resource_type, prefix, agents: Arc::clone(agents) }
    }

    /// Whether an operation is one of such a transfer.
    pub(crate) fn know(&self, operation_id: &str) -> bool {
        operation_id.starts_with(self.prefix)
    }

    /// Makes the transfer of an operation. Where no answer comes at last it is looked up, so that there is never a second one.
    pub(crate) async fn create(&self, transfer: &Value, operation_id: &str) -> Result<Value> {
        let namespace = text(transfer, "/metadata/namespace");
        match self.cluster.create_once(&self.resource_type, Some(namespace), transfer).await {
            Err(error) if error.is_unanswered() => {
                let made = self.find(namespace, operation_id).await?.pop();
                made.ok_or_else(|| error.into())
            }
            made => Ok(made?),
        }
    }

    /// How far the transfer of an operation is. One that is gone has failed, and so has one that nobody is going to take or to
    /// end: its error lets whoever asks cancel it.
    pub(crate) async fn progress(&self, namespace: &str, operation_id: &str) -> Result<OperationProgress> {
        let kind = &self.resource_type.kind;
        match self.find(namespace, operation_id).await?.as_slice() {
            [] => {
                let error = format!("the {kind} of operation {operation_id} was deleted before its data was moved");
                Ok(OperationProgress { completed: true, error, ..OperationProgress::default() })
            }
            [transfer] => {
                let mut progress = progress_of(kind, transfer);
                if let Some(part) = part_of_agents(transfer)
                    && let Some(missing) = self.agents.missing(&self.cluster, namespace).await
                {
                    if part.is_left_undone(transfer, &missing) {
                        return Err(Error::Item(given_up(kind, transfer, part, &missing)));
                    }
                    progress.description = format!("{}: {}", progress.description, missing.why);
                }
                Ok(progress)
            }
            several => {
                let names: Vec<&str> = several.iter().map(name).collect();
                Err(Error::Item(format!(
                    "operation {operation_id} has more than one {kind}: {}; delete all but one",
                    names.join(", ")
                )))
            }
        }
    }

    /// Asks for the end of the transfer of an operation. One that has ended, or is gone, is no error.
    pub(crate) async fn cancel(&self, namespace: &str, operation_id: &str) -> Result<()> {
        for transfer in self.find(namespace, operation_id).await? {
            if phase_of(&transfer).is_terminal() || transfer.pointer("/spec/cancel") == Some(&json!(true)) {
                continue;
            }
            let item = self.resource_type.item(Some(namespace), name(&transfer));
            match self.cluster.merge_patch(item, &json!({"spec": {"cancel": true}})).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn find(&self, namespace: &str, operation_id: &str) -> Result<Vec<Value>> {
        let selector = format!("{}={operation_id}", labels::ASYNC_OPERATION_ID);
        list(&self.cluster, &self.resource_type, Some(namespace), Some(&selector)).await
    }
}

fn phase_of(transfer: &Value) -> DataMovePhase {
    filled(transfer, "/status/phase").map_or(DataMovePhase::New, DataMovePhase::from)
}

/// What a transfer says of itself.
fn progress_of(kind: &str, transfer: &Value) -> OperationProgress {
    let phase = phase_of(transfer);
    if phase == DataMovePhase::New {
        return OperationProgress { description: waits_for(kind, transfer), ..OperationProgress::default() };
    }
    let number = |pointer: &str| transfer.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let time = |pointer: &str| text(transfer, pointer).parse::<Timestamp>().ok();
    OperationProgress {
        completed: phase.is_terminal(),
        error: match phase {
            DataMovePhase::Failed => failure(kind, transfer),
            DataMovePhase::Canceled => format!("{kind} is canceled{}", reason(transfer)),
            _ => String::new(),
        },
        n_completed: number("/status/progress/bytesDone"),
        n_total: number("/status/progress/totalBytes"),
        operation_units: "Bytes".to_owned(),
        description: phase.as_str().to_owned(),
        started: time("/status/startTimestamp"),
        updated: time("/status/completionTimestamp"),
    }
}

/// What node agents have to do with a transfer next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentPart {
    /// One has to take it.
    Take,
    /// One has taken it, and has to say how it ended.
    End,
}

impl AgentPart {
    /// Whether nobody is going to do that.
    fn is_left_undone(self, transfer: &Value, missing: &Missing) -> bool {
        match self {
            Self::Take => missing.is_for_good(made(transfer), Moment::now()),
            Self::End => missing.is_for_good_to_taken(Instant::now()),
        }
    }
}

/// What node agents have to do with a transfer; nothing where it is for others, has ended, or was cancelled: that one has
/// nobody left who waits for it.
fn part_of_agents(transfer: &Value) -> Option<AgentPart> {
    let is_cancelled = transfer.pointer("/spec/cancel") == Some(&json!(true));
    if is_cancelled || !is_built_in(text(transfer, "/spec/datamover")) {
        return None;
    }
    match phase_of(transfer) {
        DataMovePhase::New => Some(AgentPart::Take),
        DataMovePhase::Accepted | DataMovePhase::Prepared | DataMovePhase::InProgress => Some(AgentPart::End),
        _ => None,
    }
}

fn made(transfer: &Value) -> Option<Timestamp> {
    text(transfer, "/metadata/creationTimestamp").parse().ok()
}

/// What is said of one that nobody is going to take, or to end.
fn given_up(kind: &str, transfer: &Value, part: AgentPart, missing: &Missing) -> String {
    let claim = match filled(transfer, "/spec/sourcePVC") {
        Some(claim) => format!("{}/{claim}", text(transfer, "/spec/sourceNamespace")),
        None => {
            format!("{}/{}", text(transfer, "/spec/targetVolume/namespace"), text(transfer, "/spec/targetVolume/pvc"))
        }
    };
    let undone = match part {
        AgentPart::Take => "takes",
        AgentPart::End => "is left to end",
    };
    format!("the data of claim {claim} is not moved: nobody {undone} {kind} {}, {}", name(transfer), missing.why)
}

/// Nobody has taken it yet; who should is worth a word.
fn waits_for(kind: &str, transfer: &Value) -> String {
    let name = name(transfer);
    match text(transfer, "/spec/datamover") {
        mover if is_built_in(mover) => format!("Waiting for a node agent to take {kind} {name}"),
        mover => format!("Waiting for data mover {mover} to take {kind} {name}"),
    }
}

/// Why a transfer failed. One that does not say so has failed all the same.
fn failure(kind: &str, transfer: &Value) -> String {
    match filled(transfer, "/status/message") {
        Some(message) => message.to_owned(),
        None => format!("{kind} {} failed and does not say why", name(transfer)),
    }
}

fn reason(transfer: &Value) -> String {
    filled(transfer, "/status/message").map(|message| format!(": {message}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn transfer(status: &Value) -> Value {
        json!({"metadata": {"name": "b-1"}, "spec": {"datamover": ""}, "status": status})
    }

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("csi-transfers", follow)]
    }

    fn follow(bytes: &[u8]) {
        let Ok(transfer) = serde_json::from_slice::<Value>(bytes) else { return };
        let progress = progress_of("DataUpload", &transfer);
        assert!(!progress.description.is_empty() && (progress.completed || progress.error.is_empty()));
    }

    strike_all!(parsers);

    #[test]
    fn an_operation_is_as_far_as_its_transfer_says() {
        let started = "2026-01-01T00:00:00Z";
        for (status, completed, error, description) in [
            (json!({}), false, "", "Waiting for a node agent to take DataUpload b-1"),
            (json!({"phase": ""}), false, "", "Waiting for a node agent to take DataUpload b-1"),
            (json!({"phase": "New"}), false, "", "Waiting for a node agent to take DataUpload b-1"),
            (json!({"phase": "Accepted"}), false, "", "Accepted"),
            (json!({"phase": "Prepared"}), false, "", "Prepared"),
            (json!({"phase": "InProgress", "message": "slow"}), false, "", "InProgress"),
            (json!({"phase": "Canceling"}), false, "", "Canceling"),
            (json!({"phase": "Resting"}), false, "", "Resting"),
            (json!({"phase": "Completed", "message": "volume was empty"}), true, "", "Completed"),
            (json!({"phase": "Failed", "message": "no space"}), true, "no space", "Failed"),
            (json!({"phase": "Failed"}), true, "DataUpload b-1 failed and does not say why", "Failed"),
            (json!({"phase": "Canceled"}), true, "DataUpload is canceled", "Canceled"),
            (json!({"phase": "Canceled", "message": "late"}), true, "DataUpload is canceled: late", "Canceled"),
        ] {
            let progress = progress_of("DataUpload", &transfer(&status));
            let said = (progress.completed, progress.error.as_str(), progress.description.as_str());
            assert_eq!(said, (completed, error, description), "{status}");
        }
        let progress = progress_of(
            "DataUpload",
            &transfer(&json!({"phase": "InProgress", "startTimestamp": started,
                "progress": {"bytesDone": 3, "totalBytes": 9}})),
        );
        assert_eq!((progress.n_completed, progress.n_total, progress.operation_units.as_str()), (3, 9, "Bytes"));
        assert_eq!((progress.started, progress.updated), (started.parse().ok(), None));
    }

    #[test]
    fn what_is_wanted_and_has_not_ended_is_up_to_node_agents() {
        for (spec, phase, expected) in [
            (json!({}), "", Some(AgentPart::Take)),
            (json!({"datamover": "velero"}), "New", Some(AgentPart::Take)),
            (json!({"datamover": "fast"}), "New", None),
            (json!({"cancel": true}), "New", None),
            (json!({}), "Accepted", Some(AgentPart::End)),
            (json!({}), "Prepared", Some(AgentPart::End)),
            (json!({"datamover": "velero"}), "InProgress", Some(AgentPart::End)),
            (json!({"datamover": "fast"}), "InProgress", None),
            (json!({"cancel": true}), "InProgress", None),
            (json!({}), "Canceled", None),
            (json!({}), "Completed", None),
            (json!({}), "Resting", None),
        ] {
            let transfer = json!({"spec": spec, "status": {"phase": phase}});
            assert_eq!(part_of_agents(&transfer), expected, "{transfer}");
        }
    }

    #[test]
    fn who_has_to_take_a_transfer_is_named() {
        let of_vendor = json!({"metadata": {"name": "b-1"}, "spec": {"datamover": "fast"}});
        assert_eq!(waits_for("DataDownload", &of_vendor), "Waiting for data mover fast to take DataDownload b-1");
    }
}

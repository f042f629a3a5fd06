//! What the four kinds that move volume data have in common, and what differs.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use velero_api::metadata::{name, namespace, uid};
use velero_api::records::{BackupResult, RestoreResult};
use velero_api::resource::VeleroResource;
use velero_api::{DataMoveOperationProgress, DataMovePhase};

use crate::node_agent::agent::Agent;
use crate::runtime::controller::Controller;
use crate::runtime::error::Result;

/// An object that has the data of a volume moved.
pub(crate) trait Transfer: VeleroResource {
    /// What is known of its volume once others have done what they have to do first.
    type Due: Send;

    /// The controller of the kind.
    const CONTROLLER: Controller;
    /// The label of its pods.
    const POD_LABEL: &'static str;
    /// What keeps the object until it is cleaned up.
    const FINALIZER: &'static str;
    /// Whether something is left to do when all data was moved. The result is written down then, for the pod goes first.
    const FINISHES: bool = false;

    /// Whether this is for Velero's own agents at all.
    fn is_built_in(&self) -> bool {
        true
    }

    /// The volume it is about, for messages.
    fn subject(&self) -> String;
    /// What its status says.
    fn known(&self) -> Known<'_>;
    /// The fields of its status that all kinds have.
    fn fields(&mut self) -> Fields<'_>;
    /// Asks for a cancel.
    fn cancel(&mut self);
    /// Writes down which agent prepares it.
    fn accepted_by(&mut self, node: &str);
    /// Writes down which agent moves its data.
    fn prepared_by(&mut self, node: &str);
    /// Takes over the result its mover left.
    fn take_result(&mut self, message: &str) -> Result<(), serde_json::Error>;

    /// Whether this agent is the one to take it.
    fn is_wanted(&self, agent: &Agent) -> impl Future<Output = Result<Wanted>> + Send;
    /// Looks whether others have done what they have to do first; none until then. It takes no place among those that are
    /// prepared meanwhile.
    fn due(&self, agent: &Agent) -> impl Future<Output = Result<Option<Self::Due>>> + Send;
    /// Makes its data reachable for a pod, as far as that goes without waiting. It is called until the pod is there.
    fn expose(&self, agent: &Agent, due: Self::Due) -> impl Future<Output = Result<Made>> + Send;
    /// What keeps a pod from being made for it, in words; nothing where nothing does, or nobody can tell.
    fn awaited(&self, _agent: &Agent) -> impl Future<Output = Option<String>> + Send {
        async { None }
    }
    /// Does what is left when all data was moved, as far as that goes without waiting.
    fn finish(&self, _agent: &Agent) -> impl Future<Output = Result<Made>> + Send {
        async { Ok(Made::Done) }
    }
    /// Removes what was made for it, as far as that goes without waiting.
    fn clean_up(&self, agent: &Agent) -> impl Future<Output = Result<Made>> + Send;
    /// One of this name is no longer new.
    fn forget(_agent: &Agent, _name: &str) {}
    /// One of this name does not exist any more.
    fn gone(_agent: &Agent, _name: &str) {}
    /// Counts a beginning.
    fn count_begin(&self, _agent: &Agent) {}
    /// Counts an end.
    fn count_end(&self, _agent: &Agent) {}
}

/// Whether an agent takes a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Yes,
    /// It is for another agent, or not yet time.
    No,
    /// Nobody can carry it out, for this reason.
    Never(String),
}

/// How far something is that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Done,
    /// It is under way; look again after this long.
    NotYet(Duration),
}

/// What a status says.
pub(crate) struct Known<'a> {
    pub(crate) phase: &'a DataMovePhase,
    pub(crate) is_cancelled: bool,
    pub(crate) accepted: Option<&'a Time>,
    pub(crate) started: Option<&'a Time>,
    pub(crate) completed: Option<&'a Time>,
    pub(crate) progress: &'a DataMoveOperationProgress,
    /// The node whose agent prepares it; empty where none does.
    pub(crate) acceptor: &'a str,
    /// The node whose agent moves its data; empty where none does.
    pub(crate) mover: &'a str,
}

/// The fields of a status that all kinds have.
pub(crate) struct Fields<'a> {
    pub(crate) phase: &'a mut Option<DataMovePhase>,
    pub(crate) message: &'a mut String,
    pub(crate) started: &'a mut Option<Time>,
    pub(crate) completed: &'a mut Option<Time>,
    pub(crate) accepted: &'a mut Option<Time>,
    pub(crate) progress: &'a mut DataMoveOperationProgress,
}

/// The object something belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Owner {
    pub(crate) fn of<K: Transfer>(object: &K) -> Self {
        Self {
            api_version: K::api_version_text(),
            kind: K::KIND,
            namespace: namespace(object).to_owned(),
            name: name(object).to_owned(),
            uid: uid(object).to_owned(),
        }
    }

    /// The reference by which what belongs to the object is removed with it.
    pub(crate) fn reference(&self) -> serde_json::Value {
        let Self { api_version, kind, name, uid, .. } = self;
        serde_json::json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true })
    }
}

/// Reads the result of a mover that backed up. One that names no snapshot, and does not say that the volume was empty, is none: a
/// restore would take the volume for an empty one.
pub(crate) fn backup_result(message: &str) -> Result<BackupResult, serde_json::Error> {
    let result: BackupResult = serde_json::from_str(message)?;
    if result.snapshot_id.is_empty() && !result.empty_snapshot {
        return Err(serde::de::Error::custom("it names no snapshot, and does not say that the volume was empty"));
    }
    Ok(result)
}

/// Takes over the result of a mover that restored.
pub(crate) fn take_restore_result(
    message: &str,
    progress: &mut DataMoveOperationProgress,
) -> Result<(), serde_json::Error> {
    let result: RestoreResult = serde_json::from_str(message)?;
    all_done(progress, result.total_bytes);
    Ok(())
}

/// All bytes were moved.
pub(crate) fn all_done(progress: &mut DataMoveOperationProgress, bytes: i64) {
    (progress.total_bytes, progress.bytes_done) = (bytes, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_without_a_snapshot_is_that_of_an_empty_volume_or_none() {
        for (message, is_result) in [
            (r#"{"snapshotID":"k1","totalBytes":7}"#, true),
            (r#"{"snapshotID":"","emptySnapshot":true}"#, true),
            (r#"{"snapshotID":"","totalBytes":7}"#, false),
            ("{}", false),
            ("", false),
        ] {
            assert_eq!(backup_result(message).is_ok(), is_result, "{message}");
        }
    }
}

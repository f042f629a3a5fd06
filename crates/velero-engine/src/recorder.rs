//! What a backup or restore sets going beside the objects it reads and writes: operations of actions, and snapshots.
//!
//! Whoever asks for the run keeps a clone. So it is known what was set going also of one that never came to its end, and it
//! can be stored while the run goes on.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::watch;
use velero_api::metadata;
use velero_api::records::{BackupOperation, BackupOperationSpec, OperationPhase, OperationStatus, Snapshot};
use velero_api::v1::Backup;

use crate::lock;

/// A list that grows while a backup or restore runs. Clones share it.
#[derive(Clone, Debug)]
pub struct Recorded<T> {
    all: watch::Sender<Vec<T>>,
}

impl<T> Default for Recorded<T> {
    fn default() -> Self {
        Self { all: watch::Sender::new(Vec::new()) }
    }
}

impl<T: Clone> Recorded<T> {
    /// All that was recorded so far.
    pub fn all(&self) -> Vec<T> {
        self.all.borrow().clone()
    }

    /// Tells whoever waits for it that there is more.
    pub fn subscribe(&self) -> watch::Receiver<Vec<T>> {
        self.all.subscribe()
    }

    pub(crate) fn add(&self, one: T) {
        self.all.send_modify(|all| all.push(one));
    }

    pub(crate) fn any(&self, is_it: impl FnMut(&T) -> bool) -> bool {
        self.all.borrow().iter().any(is_it)
    }
}

/// What a backup sets going. Clones share the record.
#[derive(Clone, Debug, Default)]
pub struct BackupRecorder {
    /// Operations that actions and snapshotters have started.
    pub operations: Recorded<BackupOperation>,
    /// Native snapshots that were tried, those that failed included.
    pub snapshots: Recorded<Snapshot>,
    /// Operations that a backup does not wait for, by action and ID: their action keeps its item out.
    disregarded: Arc<Mutex<HashSet<(String, String)>>>,
}

impl BackupRecorder {
    /// Records an operation of a backup that goes on.
    pub(crate) fn add_operation(&self, backup: &Backup, spec: BackupOperationSpec) {
        self.operations.add(BackupOperation {
            spec: BackupOperationSpec {
                backup_name: metadata::name(backup).to_owned(),
                backup_uid: metadata::uid(backup).to_owned(),
                ..spec
            },
            status: started(),
        });
    }

    /// Nobody waits for an operation, or looks at how it ends; one of a backup that fails is cancelled all the same.
    pub(crate) fn disregard(&self, action: &str, operation_id: &str) {
        lock(&self.disregarded).insert((action.to_owned(), operation_id.to_owned()));
    }

    /// The operations that the backup waits for.
    pub(crate) fn awaited(&self) -> Vec<BackupOperation> {
        let disregarded = lock(&self.disregarded);
        let mut operations = self.operations.all();
        operations.retain(|BackupOperation { spec, .. }| {
            !disregarded.contains(&(spec.backup_item_action.clone(), spec.operation_id.clone()))
        });
        operations
    }
}

/// The status of an operation that was started just now.
pub(crate) fn started() -> OperationStatus {
    OperationStatus {
        phase: Some(OperationPhase::New),
        created: Some(Time(Timestamp::now())),
        ..OperationStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_keeps_a_clone_hears_of_what_was_set_going() {
        let recorder = BackupRecorder::default();
        let kept = recorder.clone();
        let news = kept.operations.subscribe();
        let mut backup = Backup::new("velero", "daily", Default::default());
        backup.metadata.uid = Some("u".to_owned());
        let spec = BackupOperationSpec { operation_id: "1".to_owned(), ..BackupOperationSpec::default() };
        recorder.add_operation(&backup, spec);
        assert!(news.has_changed().unwrap());
        let [operation] = &kept.operations.all()[..] else { panic!("one operation") };
        assert_eq!((operation.spec.backup_name.as_str(), operation.spec.backup_uid.as_str()), ("daily", "u"));
        assert_eq!(operation.status.phase, Some(OperationPhase::New));
        assert!(kept.snapshots.all().is_empty());
    }

    #[test]
    fn an_operation_that_nobody_waits_for_is_known_to_whoever_cancels() {
        let (recorder, backup) = (BackupRecorder::default(), Backup::new("velero", "daily", Default::default()));
        for operation_id in ["1", "2"] {
            let (action, operation_id) = ("example.io/copy".to_owned(), operation_id.to_owned());
            let spec = BackupOperationSpec { backup_item_action: action, operation_id, ..Default::default() };
            recorder.add_operation(&backup, spec);
        }
        recorder.disregard("example.io/copy", "1");
        recorder.disregard("example.io/other", "2");
        let ids = |operations: Vec<BackupOperation>| operations.into_iter().map(|one| one.spec.operation_id).collect();
        let (awaited, all): (Vec<String>, Vec<String>) = (ids(recorder.awaited()), ids(recorder.operations.all()));
        assert_eq!((awaited.join(" "), all.join(" ")), ("2".to_owned(), "1 2".to_owned()));
    }
}

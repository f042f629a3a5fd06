//! What a backup or restore sets going beside the objects it reads and writes: operations of actions, and snapshots.
//!
//! Whoever asks for the run keeps a clone. So it is known what was set going also of one that never came to its end, and it
//! can be stored while the run goes on. Calls of a backup that may set something going run on tasks of their own, which
//! record it: a backup that is given up does not break off a call whose answer alone says what there is to clean up.

use std::collections::HashSet;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;
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
    /// Calls under way that may set something going, and who makes them.
    under_way: TaskTracker,
    /// Cancelled when nobody waits for them any more.
    broken_off: CancellationToken,
}

impl BackupRecorder {
    /// Waits until nobody makes calls any more and all that were made are answered, so that everything they set going is
    /// recorded. Those that are not answered when `patience` ends are broken off; tells whether all were.
    pub async fn settle(&self, patience: impl Future<Output = ()>) -> bool {
        self.under_way.close();
        tokio::select! {
            biased;
            () = self.under_way.wait() => true,
            () = patience => {
                self.broken_off.cancel();
                false
            }
        }
    }

    /// Makes a call that may set something going and records it, on a task of its own.
    pub(crate) async fn call<T: Send + 'static>(&self, call: impl Future<Output = T> + Send + 'static) -> T {
        let call = self.broken_off.clone().run_until_cancelled_owned(call);
        let task = self.under_way.spawn(call.in_current_span());
        match task.await.map_err(JoinError::try_into_panic) {
            Ok(Some(done)) => done,
            Err(Ok(panic)) => resume_unwind(panic),
            // It is broken off, or the runtime ends: so does whoever waits here.
            Ok(None) | Err(Err(_)) => pending().await,
        }
    }

    /// Held by whoever makes calls, so that it is known when there are no more to come.
    pub(crate) fn caller(&self) -> TaskTrackerToken {
        self.under_way.token()
    }

    /// Breaks off the calls under way when it is dropped, for one whose calls nobody waits for.
    pub(crate) fn breaks_off_when_dropped(&self) -> DropGuard {
        self.broken_off.clone().drop_guard()
    }

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
    use std::future::ready;

    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    use super::*;

    /// A run that makes a call which sets something going and is answered when the sender says so.
    async fn begin(recorder: &BackupRecorder) -> (JoinHandle<()>, oneshot::Sender<()>) {
        let (answer, answered) = oneshot::channel();
        let (recorder, kept) = (recorder.clone(), recorder.clone());
        let tracker = recorder.under_way.clone();
        let running = tokio::spawn(async move {
            let _caller = recorder.caller();
            let call = async move {
                let _ = answered.await;
                kept.snapshots.add(Snapshot::default());
            };
            recorder.call(call).await;
        });
        while tracker.len() < 2 {
            tokio::task::yield_now().await;
        }
        (running, answer)
    }

    #[tokio::test]
    async fn what_a_call_has_set_going_is_recorded_although_its_run_was_given_up() {
        let recorder = BackupRecorder::default();
        let (running, answer) = begin(&recorder).await;
        running.abort();
        let (is_settled, sent) = tokio::join!(recorder.settle(pending()), async { answer.send(()) });
        assert!(is_settled && sent.is_ok());
        assert_eq!(recorder.snapshots.all().len(), 1);
    }

    #[tokio::test]
    async fn a_call_that_is_not_answered_in_time_is_broken_off() {
        let recorder = BackupRecorder::default();
        let (running, answer) = begin(&recorder).await;
        running.abort();
        assert!(!recorder.settle(ready(())).await);
        recorder.under_way.wait().await;
        assert!(answer.is_closed() && recorder.snapshots.all().is_empty());
    }

    #[tokio::test]
    async fn a_run_that_may_still_make_calls_is_waited_for() {
        let recorder = BackupRecorder::default();
        let caller = recorder.caller();
        assert!(!recorder.settle(ready(())).await);
        drop(caller);
        assert!(recorder.settle(pending()).await);
    }

    #[tokio::test]
    #[should_panic(expected = "of the call")]
    async fn a_panic_in_a_call_is_one_of_who_makes_it() {
        BackupRecorder::default().call(async { "x".parse::<i32>().expect("of the call") }).await;
    }

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

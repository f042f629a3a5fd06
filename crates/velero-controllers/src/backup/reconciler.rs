//! The one watcher of Backups: hands each to the module that its phase belongs to.
//!
//! So every backup has one hand that writes its status, whatever phase it is in.

use std::time::Duration;

use jiff::Timestamp;
use velero_api::v1::{Backup, BackupPhase, Stage};

use crate::backup::queue::Queue;
use crate::backup::{again, cancellation, debts, finalizer, garbage_collection, run};
use crate::lifecycle::cancel::cancel_owned;
use crate::lifecycle::cancellation::requested;
use crate::lifecycle::debts::owes;
use crate::lifecycle::follow::follow;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::refusal::write_refusal;
use crate::runtime::clock;
use crate::runtime::context::SharedContext;
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::Result;
use crate::runtime::holder::is_signed;

/// How often a backup that waits is looked at, should nothing else happen.
const WHILE_QUEUED: Duration = Duration::from_secs(60);

/// Watches Backups.
pub(crate) struct BackupsReconciler {
    context: SharedContext,
    queue: Queue,
}

impl Reconciler for BackupsReconciler {
    type Kind = Backup;
    const CONTROLLER: Controller = Controller::Backup;
    const CONCURRENCY: u16 = 0;
    // Nearly all backups there are have ended and wait for their time to run out.
    const KNOWS_REST: bool = true;

    async fn reconcile(&self, backup: Backup) -> Result<Next> {
        let context = &self.context;
        let settings = &context.settings;
        if backup.status.phase().stage() == Stage::Pending
            && let Some(reason) = requested(&backup)
        {
            return cancellation::never_begin(context, &self.queue, &backup, &reason).await;
        }
        if again::owes_retry(&backup) {
            // That changes the backup, which brings it here again.
            return again::take_again(context, &backup).await.map(|()| Next::Change);
        }
        match backup.status.phase() {
            BackupPhase::New if settings.is_enabled(Controller::BackupQueue) => {
                self.queue.advance(context).await?;
                // It has changed backups, which brings them here again; one that it could not change is tried again.
                return Ok(Next::After(WHILE_QUEUED));
            }
            BackupPhase::Queued if settings.is_enabled(Controller::BackupQueue) => return self.wait().await,
            BackupPhase::ReadyToStart if settings.is_enabled(Controller::Backup) => {
                return run::run(context, &self.queue, backup).await;
            }
            // Who runs a backup does not let go of it before its end is written, and no other server runs one while this
            // one leads.
            BackupPhase::InProgress if is_signed(&backup) => {
                return run::give_up(context, &self.queue, &backup).await;
            }
            phase if Backup::is_waiting(phase) && settings.is_enabled(Controller::BackupOperations) => {
                return follow(context, &backup).await;
            }
            phase if Backup::is_finalizing(phase) && settings.is_enabled(Controller::BackupFinalizer) => {
                return finalizer::finish(context, &backup).await;
            }
            BackupPhase::Failed | BackupPhase::Completed | BackupPhase::PartiallyFailed if owes(&backup) => {
                // The next server goes on with it.
                let paying = debts::pay(context, &backup);
                return context.unless_stopped(paying).await.unwrap_or(Ok(Next::Change));
            }
            BackupPhase::New | BackupPhase::Queued | BackupPhase::ReadyToStart | BackupPhase::InProgress => {}
            BackupPhase::WaitingForPluginOperations | BackupPhase::WaitingForPluginOperationsPartiallyFailed => {}
            BackupPhase::Finalizing | BackupPhase::FinalizingPartiallyFailed => {}
            BackupPhase::FailedValidation | BackupPhase::Completed | BackupPhase::PartiallyFailed => {}
            BackupPhase::Failed | BackupPhase::Deleting | BackupPhase::Unknown(_) => {}
        }
        match settings.is_enabled(Controller::GarbageCollection) {
            true => garbage_collection::collect(context, &backup).await,
            false => Ok(Next::Change),
        }
    }

    fn rest(&self, backup: &Backup) -> Option<Next> {
        at_rest(backup, self.context.settings.is_enabled(Controller::GarbageCollection), clock::now())
    }

    fn forget(&self, name: &str) {
        self.queue.left(name);
        self.context.metrics.end_backup(name);
        self.context.to_count.notify_one();
        // Without the object nobody waits for its operations.
        let (context, backup) = (self.context.clone(), name.to_owned());
        tokio::spawn(async move {
            let gone = Backup::new(context.objects.namespace(), &backup, Default::default());
            cancel_owned(&context, &gone, None).await;
        });
    }

    async fn refuse(&self, backup: &str, problem: &str) {
        let patch = serde_json::json!({"status": {
            "phase": BackupPhase::FailedValidation,
            "validationErrors": [format!("the backup cannot be read: {problem}")],
        }});
        write_refusal::<Backup>(&self.context, backup, &patch).await;
    }
}

impl BackupsReconciler {
    pub(crate) fn new(context: SharedContext) -> Self {
        Self { context, queue: Queue::default() }
    }

    async fn wait(&self) -> Result<Next> {
        if !self.queue.is_full(&self.context) {
            self.queue.advance(&self.context).await?;
        }
        Ok(Next::After(WHILE_QUEUED))
    }
}

/// When to look at a backup for which there is nothing to do: it has ended, owes nothing, and its time has not run out.
fn at_rest(backup: &Backup, is_collected: bool, now: Timestamp) -> Option<Next> {
    let has_ended = backup.status.phase().ending().is_some();
    if !has_ended || owes(backup) || again::owes_retry(backup) {
        return None;
    }
    if is_collected { garbage_collection::rest(backup, now) } else { Some(Next::Change) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use velero_api::annotations::RETRY_OWED;

    use super::*;
    use crate::lifecycle::debts::owe;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn backup(phase: BackupPhase, expiration: Option<i64>) -> Backup {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.status.phase = Some(phase);
        backup.status.expiration = expiration.map(|second| Time(at(second)));
        backup
    }

    #[test]
    fn a_backup_rests_from_its_end_until_its_time_has_run_out() {
        use BackupPhase::{
            Completed, Deleting, Failed, FailedValidation, Finalizing, InProgress, New, PartiallyFailed,
        };
        let later = Some(Next::After(Duration::from_secs(60)));
        for phase in [Completed, PartiallyFailed, Failed, FailedValidation] {
            assert_eq!(at_rest(&backup(phase.clone(), Some(160)), true, at(100)), later, "{phase:?}");
            assert_eq!(at_rest(&backup(phase.clone(), None), true, at(100)), Some(Next::Change), "{phase:?}");
            assert_eq!(at_rest(&backup(phase.clone(), Some(100)), true, at(100)), None, "{phase:?} is to be deleted");
            assert_eq!(at_rest(&backup(phase, Some(100)), false, at(100)), Some(Next::Change));
        }
        for phase in [New, InProgress, Finalizing, Deleting] {
            assert_eq!(at_rest(&backup(phase.clone(), Some(160)), true, at(100)), None, "{phase:?}");
        }
    }

    #[test]
    fn a_backup_that_owes_something_does_not_rest() {
        let mut owing = backup(BackupPhase::Failed, None);
        owe(&mut owing, "files");
        assert_eq!(at_rest(&owing, true, at(100)), None);
        let mut retried = backup(BackupPhase::Failed, None);
        retried.metadata.annotations = Some([(RETRY_OWED.to_owned(), "1".to_owned())].into());
        assert_eq!(at_rest(&retried, true, at(100)), None);
    }
}

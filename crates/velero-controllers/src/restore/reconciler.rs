//! The one watcher of Restores: hands each to the module that its phase belongs to.
//!
//! So every restore has one hand that writes its status, whatever phase it is in.

use std::time::Duration;

use tokio::sync::Semaphore;
use velero_api::dry_run;
use velero_api::v1::{Restore, RestorePhase};

use crate::lifecycle::cancellation::requested;
use crate::lifecycle::debts::owes;
use crate::lifecycle::follow::follow;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::refusal::write_refusal;
use crate::restore::kept_files::{keep_files, keeps_files};
use crate::restore::{cancellation, debts, deletion, dry_run as dry_runs, finalizer, run};
use crate::runtime::context::SharedContext;
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::Result;
use crate::runtime::holder::is_signed;

/// How many restores run at the same time: each holds a part of the compressed archive of its backup in memory, and what it knows
/// of each item.
const RUNNING: usize = 4;
/// How many dry runs are answered at the same time, for the same reason.
const LOOKING: usize = 2;
/// How soon a restore that has to wait is looked at again.
const WHILE_WAITING: Duration = Duration::from_secs(1);

/// Watches Restores.
pub(crate) struct RestoresReconciler {
    context: SharedContext,
    slots: Semaphore,
    looks: Semaphore,
}

impl RestoresReconciler {
    pub(crate) fn new(context: SharedContext) -> Self {
        Self { context, slots: Semaphore::new(RUNNING), looks: Semaphore::new(LOOKING) }
    }
}

impl Reconciler for RestoresReconciler {
    type Kind = Restore;
    const CONTROLLER: Controller = Controller::Restore;
    const CONCURRENCY: u16 = 0;

    async fn reconcile(&self, restore: Restore) -> Result<Next> {
        let context = &self.context;
        if restore.metadata.deletion_timestamp.is_some() {
            // The next server goes on with it.
            let releasing = deletion::release(context, &restore);
            return context.unless_stopped(releasing).await.unwrap_or(Ok(Next::Change));
        }
        if dry_run::is_asked(&restore) {
            return dry_runs::answer(context, restore, &self.looks).await;
        }
        if !keeps_files(&restore) {
            let mut keeping = restore.clone();
            keep_files(&mut keeping);
            context.objects.patch(&restore, &keeping).await?;
            return Ok(Next::Change);
        }
        if *restore.status.phase() == RestorePhase::New
            && let Some(reason) = requested(&restore)
        {
            return cancellation::never_begin(context, &restore, &reason).await;
        }
        match restore.status.phase() {
            RestorePhase::New => {
                let Ok(place) = self.slots.try_acquire() else { return Ok(Next::After(WHILE_WAITING)) };
                return run::run(context, restore, place).await;
            }
            // Who runs a restore does not let go of it before its end is written, and no other server runs one while this
            // one leads.
            RestorePhase::InProgress if is_signed(&restore) => return run::give_up(context, &restore).await,
            phase if Restore::is_waiting(phase) && context.settings.is_enabled(Controller::RestoreOperations) => {
                return follow(context, &restore).await;
            }
            RestorePhase::Failed | RestorePhase::PartiallyFailed if owes(&restore) => {
                let paying = debts::pay(context, &restore);
                return context.unless_stopped(paying).await.unwrap_or(Ok(Next::Change));
            }
            // Who finishes a restore does not let go of it before its end: this one was left behind.
            phase if Restore::is_finalizing(phase) && context.settings.is_enabled(Controller::RestoreFinalizer) => {
                return finalizer::finish_abandoned(context, &restore).await;
            }
            RestorePhase::InProgress => {}
            RestorePhase::WaitingForPluginOperations | RestorePhase::WaitingForPluginOperationsPartiallyFailed => {}
            RestorePhase::Finalizing | RestorePhase::FinalizingPartiallyFailed => {}
            RestorePhase::FailedValidation | RestorePhase::Completed | RestorePhase::PartiallyFailed => {}
            RestorePhase::Failed | RestorePhase::Unknown(_) => {}
        }
        Ok(Next::Change)
    }

    async fn refuse(&self, restore: &str, problem: &str) {
        let patch = serde_json::json!({"status": {
            "phase": RestorePhase::FailedValidation,
            "validationErrors": [format!("the restore cannot be read: {problem}")],
        }});
        write_refusal::<Restore>(&self.context, restore, &patch).await;
    }
}

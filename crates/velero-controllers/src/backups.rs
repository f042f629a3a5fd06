//! The one watcher of Backups: hands each to the module that its phase belongs to.
//!
//! So every backup has one hand that writes its status, whatever phase it is in.

use std::time::Duration;

use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, BackupPhase};

use crate::context::{Context, SharedContext};
use crate::driver::{Next, Reconciler};
use crate::error::{Result, describe};
use crate::objects::label;
use crate::{backup, backup_finalizer, backup_operations, backup_queue, debts, garbage_collection};

/// How often a backup that waits is looked at, should nothing else happen.
const WHILE_QUEUED: Duration = Duration::from_secs(60);

/// Watches Backups.
pub(crate) struct BackupsReconciler {
    pub(crate) context: SharedContext,
}

impl Reconciler for BackupsReconciler {
    type Kind = Backup;
    const NAME: &'static str = "backup";
    const CONCURRENCY: u16 = 0;

    async fn reconcile(&self, backup: Backup) -> Result<Next> {
        let context = &self.context;
        let settings = &context.settings;
        match backup.status.phase() {
            BackupPhase::New if settings.is_enabled("backup-queue") => backup_queue::advance(context).await?,
            BackupPhase::Queued if settings.is_enabled("backup-queue") => return self.wait().await,
            BackupPhase::ReadyToStart if settings.is_enabled("backup") => return backup::run(context, backup).await,
            // Who runs a backup does not let go of it before its end is written.
            BackupPhase::InProgress if context.holder.has(&backup) => return backup::give_up(context, &backup).await,
            phase if backup_operations::is_waiting(phase) && settings.is_enabled("backup-operations") => {
                return backup_operations::follow(context, &backup).await;
            }
            phase if backup_finalizer::is_finalizing(phase) && settings.is_enabled("backup-finalizer") => {
                return backup_finalizer::finish(context, &backup).await;
            }
            BackupPhase::Failed if debts::owes(&backup) => return debts::pay_for_backup(context, &backup).await,
            _ if settings.is_enabled("gc") => return garbage_collection::collect(context, &backup).await,
            _ => {}
        }
        // Whoever acted has changed the backup, which brings it here again.
        Ok(Next::Change)
    }

    fn forget(&self, name: &str) {
        self.context.running.remove(name);
        // Without the object nobody waits for its operations.
        let (context, backup) = (self.context.clone(), name.to_owned());
        tokio::spawn(async move {
            let gone = Backup::new(context.objects.namespace(), &backup, Default::default());
            backup_operations::cancel(&context, &gone, None).await;
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
    async fn wait(&self) -> Result<Next> {
        let limit = usize::try_from(self.context.settings.concurrent_backups).unwrap_or(usize::MAX);
        if self.context.running.count() < limit {
            backup_queue::advance(&self.context).await?;
        }
        Ok(Next::After(WHILE_QUEUED))
    }
}

/// Marks an object that cannot be read as refused, once.
pub(crate) async fn write_refusal<K: VeleroResource>(context: &Context, object: &str, patch: &serde_json::Value) {
    use kube::api::{Patch, PatchParams};
    let written =
        context.objects.api::<K>().patch_metadata(object, &PatchParams::default(), &Patch::Merge(patch)).await;
    if let Err(error) = written {
        tracing::warn!(
            kind = K::KIND,
            name = object,
            error = describe(&error),
            "A malformed object could not be marked"
        );
    }
}

/// Keeps the figures up to date that only a look at all objects gives.
pub(crate) async fn count_all(context: SharedContext) {
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(60)) => {}
        }
        if let Err(error) = count_once(&context).await {
            tracing::warn!(error = describe(&error), "The backups could not be counted");
        }
    }
}

/// Reads these figures; the server begins with it, so that nobody sees others than those of the objects.
pub(crate) async fn count_once(context: &Context) -> Result<()> {
    let mut count = 0;
    let mut latest = std::collections::BTreeMap::new();
    let visitor = |backup: Backup| {
        count += 1;
        context.metrics.backup_seen(&backup);
        if let (BackupPhase::Completed, Some(ended)) = (backup.status.phase(), &backup.status.completion_timestamp) {
            let schedule = label(&backup, velero_api::labels::SCHEDULE_NAME).to_owned();
            let seconds = ended.0.as_second();
            latest.entry(schedule).and_modify(|known: &mut i64| *known = seconds.max(*known)).or_insert(seconds);
        }
    };
    context.objects.visit("", visitor).await?;
    context.metrics.backups_exist(count);
    for (schedule, seconds) in latest {
        context.metrics.last_successful(&schedule, seconds);
    }
    let mut restores = 0;
    context.objects.visit("", |_: velero_api::v1::Restore| restores += 1).await?;
    context.metrics.restores_exist(restores);
    Ok(())
}

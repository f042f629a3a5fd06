//! The last step of a restore, and what becomes of one whose server was stopped before it.

use velero_api::v1::{Backup, BackupStorageLocation, Restore, RestorePhase};
use velero_engine::Journal;
use velero_engine::journal::Counts;
use velero_store::BackupStore;

use crate::clock;
use crate::context::Context;
use crate::error::Result;
use crate::objects::name;
use crate::operations::Files;
use crate::ownership::End;
use crate::restore::{Awaited, note_unfinished};
use crate::restore_phase::move_to;

/// Ends a restore that an earlier server left unfinished.
pub(crate) async fn finish_abandoned(context: &Context, restore: Restore) -> Result<()> {
    let (format, level) = context.settings.journal_form();
    let journal = Journal::for_restore(context.objects.namespace(), name(&restore), format, level);
    // Where nothing is noted, hooks are all that could have been left.
    let awaited = Awaited::noted(&restore).unwrap_or(Awaited { hooks: true, volumes: false });
    note_unfinished(&journal, "The server was stopped", awaited);
    let known = Counts { warnings: restore.status.warnings, errors: restore.status.errors };
    let counts = match store_of(context, &restore).await? {
        Some(store) => Files::of_restore(&store, name(&restore)).amend(&journal, known, true).await?,
        None => {
            let said = journal.counts();
            Counts { warnings: known.warnings + said.warnings, errors: known.errors + said.errors }
        }
    };
    let mut ended = restore.clone();
    move_to(&mut ended, end_phase(restore.status.phase(), counts.errors > 0))?;
    (ended.status.warnings, ended.status.errors) = (counts.warnings, counts.errors);
    ended.status.completion_timestamp = Some(clock::now_time());
    Awaited::default().note(&mut ended);
    if let End::Written(ended) = context.write_end(&restore, &ended).await? {
        report(context, &ended);
    }
    Ok(())
}

/// The store of a restore's files; none when the backup or the location is gone.
pub(crate) async fn store_of(context: &Context, restore: &Restore) -> Result<Option<BackupStore>> {
    let Some(backup) = context.objects.get::<Backup>(&restore.spec.backup_name).await? else { return Ok(None) };
    let location = context.objects.get::<BackupStorageLocation>(&backup.spec.storage_location).await?;
    let Some(location) = location else { return Ok(None) };
    context.locations.open(&location).await.map(Some)
}

/// The phase a restore ends in that only has to be finished.
pub(crate) fn end_phase(phase: &RestorePhase, has_errors: bool) -> RestorePhase {
    match phase {
        RestorePhase::Finalizing if !has_errors => RestorePhase::Completed,
        _ => RestorePhase::PartiallyFailed,
    }
}

/// Tells how a restore ended; the figures of the metrics come from the status alone.
pub(crate) fn report(context: &Context, restore: &Restore) {
    let status = &restore.status;
    context.metrics.restore_ended(&restore.spec.schedule_name, status);
    let (restore, phase) = (name(restore), status.phase().as_str());
    if status.failure_reason.is_empty() {
        tracing::info!(restore, phase, errors = status.errors, warnings = status.warnings, "Restore ended");
    } else {
        tracing::error!(restore, phase, reason = status.failure_reason, "Restore failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restore_completes_only_if_nothing_went_wrong_on_the_way() {
        use RestorePhase::{Completed, Finalizing, FinalizingPartiallyFailed, PartiallyFailed};
        for (phase, has_errors, expected) in [
            (Finalizing, false, Completed),
            (Finalizing, true, PartiallyFailed),
            (FinalizingPartiallyFailed, false, PartiallyFailed),
            (FinalizingPartiallyFailed, true, PartiallyFailed),
        ] {
            assert_eq!(end_phase(&phase, has_errors), expected, "{phase} {has_errors}");
        }
    }
}

//! The last step of a backup: what is stored gets its metadata, and with it becomes a backup.
//!
//! A backup whose asynchronous operations have ended comes here with all its other files stored. The metadata say how
//! it ended and are written once; only then does the object say so too. A server that was stopped in between takes the
//! step again.

use velero_api::labels;
use velero_api::v1::{Backup, BackupPhase};
use velero_store::{BackupStore, Error as StoreError};

use crate::backup_phase::move_to;
use crate::clock;
use crate::context::Context;
use crate::error::{Error, Result, describe};
use crate::objects::{label, name, uid};

/// Ends a backup whose files are stored.
pub(crate) async fn finish(context: &Context, backup: Backup) -> Result<()> {
    let location = context.locations.get(&backup.spec.storage_location).await?;
    let store = context.locations.open(&location).await?;
    let ended = ended(&backup)?;
    match store.put_metadata(&ended).await {
        Err(StoreError::AlreadyExists { .. }) if is_ours(&store, &ended).await? => {}
        outcome => outcome?,
    }
    context.objects.force(&backup, &ended).await?;
    report(context, &ended);
    Ok(())
}

fn ended(backup: &Backup) -> Result<Backup> {
    let mut ended = backup.clone();
    move_to(&mut ended, end_phase(backup.status.phase()))?;
    ended.status.completion_timestamp = Some(clock::now_time());
    Ok(ended)
}

/// The phase a backup ends in that only has to be finished.
pub(crate) fn end_phase(phase: &BackupPhase) -> BackupPhase {
    match phase {
        BackupPhase::FinalizingPartiallyFailed => BackupPhase::PartiallyFailed,
        _ => BackupPhase::Completed,
    }
}

/// Whether metadata that exist are those of this very backup, written before the server was stopped.
async fn is_ours(store: &BackupStore, backup: &Backup) -> Result<bool> {
    let stored = store.get_metadata(name(backup)).await?;
    if uid(&stored) == uid(backup) {
        return Ok(true);
    }
    let problem = "another backup of this name has appeared in its location; choose another name";
    Err(Error::invalid("Backup", name(backup), problem))
}

/// Tells how a backup ended; the figures of the metrics come from the status alone.
pub(crate) fn report(context: &Context, backup: &Backup) {
    let schedule = label(backup, labels::SCHEDULE_NAME);
    context.metrics.backup_ended(schedule, &backup.status);
    let status = &backup.status;
    let (backup, phase) = (name(backup), status.phase().as_str());
    if status.failure_reason.is_empty() {
        tracing::info!(backup, phase, errors = status.errors, warnings = status.warnings, "Backup ended");
    } else {
        tracing::error!(backup, phase, reason = status.failure_reason, "Backup failed");
    }
}

/// Removes what a failed backup has stored, so that its name is free and nothing half-written is left.
pub(crate) async fn clean_up(store: &BackupStore, backup: &str) {
    if let Err(error) = store.delete_backup(backup).await {
        tracing::warn!(backup, error = describe(&error), "Files of a failed backup are left in its location");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_ends_as_its_run_did() {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.status.phase = Some(BackupPhase::Finalizing);
        let completed = ended(&backup).unwrap();
        assert_eq!(*completed.status.phase(), BackupPhase::Completed);
        assert!(completed.status.completion_timestamp.is_some());
        backup.status.phase = Some(BackupPhase::FinalizingPartiallyFailed);
        assert_eq!(*ended(&backup).unwrap().status.phase(), BackupPhase::PartiallyFailed);
        backup.status.phase = Some(BackupPhase::InProgress);
        assert!(ended(&backup).is_err());
    }
}

//! The end of a backup: its metadata, its object, and what is told about it.

use velero_api::labels;
use velero_api::metadata::{label, name, uid};
use velero_api::v1::Backup;
use velero_archive::BackupFile;
use velero_engine::journal::Counts;
use velero_store::{BackupStore, Error as StoreError};

use crate::backup::reservation::{RESERVATION_LEFT, owns_files};
use crate::backup::volumes;
use crate::lifecycle::debts::owe;
use crate::lifecycle::ending::partially_failed;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::trace;
use crate::runtime::context::Context;
use crate::runtime::controller::Controller;
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::events;
use crate::runtime::ownership::End;

/// Writes how a backup ended; its files say so already.
pub(super) async fn close(context: &Context, backup: &Backup, ended: &Backup) -> Result<()> {
    context.backups.operations.forget(name(backup));
    context.rest_plugins().await;
    if let End::Written(ended) = context.write_end(backup, ended).await? {
        report(context, &ended);
    }
    Ok(())
}

/// Ends a backup that cannot be finished as it should, and says why. Without a store only the object says so.
pub(super) async fn end_partially_failed(
    context: &Context,
    backup: &Backup,
    store: Option<&BackupStore>,
    problem: &str,
) -> Result<()> {
    let journal = backup.journal(context);
    let reason = format!("the backup cannot be finished: {problem}");
    journal.error().error(&problem).message("The backup cannot be finished");
    let known = backup.counts();
    let counts = match store {
        Some(store) => backup.files(store).amend(&journal, known, true).await?,
        None => Counts { errors: known.errors + 1, ..known },
    };
    let mut ended = partially_failed(backup, reason)?;
    ended.put_counts(counts);
    if let Some(store) = store {
        let saved = volumes::settle(store, name(backup), &[], Vec::new()).await?;
        ended.status.volume_snapshots_completed = saved.native_snapshots().1;
        put_metadata(store, &mut ended).await?;
        volumes::release(context, backup, &saved).await?;
    }
    close(context, backup, &ended).await
}

/// Stores the metadata of a backup at its end, in place of those that Velero stores before. A name that could not be given
/// back is noted as owed.
pub(super) async fn put_metadata(store: &BackupStore, ended: &mut Backup) -> Result<()> {
    match stored(store, ended).await? {
        Stored::Nothing => {}
        Stored::Own(_) => {
            let key = store.keys().backup_file(name(ended), BackupFile::Metadata).map_err(StoreError::from)?;
            store.object_store().delete_object(&key).await?;
        }
        // The next look ends it for that.
        Stored::OfAnother => return Err(Error::unmet("Backup", name(ended), OF_ANOTHER)),
    }
    if !store.put_metadata(ended).await? {
        owe(ended, RESERVATION_LEFT);
    }
    Ok(())
}

/// Takes back the metadata of a backup, so that its other files make none; those of another are left alone.
pub(super) async fn take_back_metadata(store: &BackupStore, backup: &Backup) -> Result<()> {
    if !owns_files(store, backup).await? {
        return Ok(());
    }
    let key = store.keys().backup_file(name(backup), BackupFile::Metadata).map_err(StoreError::from)?;
    Ok(store.object_store().delete_object(&key).await?)
}

/// Why a backup cannot be finished whose name in its location has another now.
pub(super) const OF_ANOTHER: &str =
    "another backup of this name has appeared in its location, whose files are left alone; choose another name";

/// The metadata that are stored under the name of a backup.
pub(super) enum Stored {
    /// None.
    Nothing,
    /// Its own.
    Own(Box<Backup>),
    /// Those of another backup. Whoever wrote them takes no notice of reservations, as Velero does.
    OfAnother,
}

/// What is stored already of the metadata of a backup.
pub(super) async fn stored(store: &BackupStore, backup: &Backup) -> Result<Stored> {
    if !store.backup_exists(name(backup)).await? {
        return Ok(Stored::Nothing);
    }
    let stored = store.get_metadata(name(backup)).await?;
    Ok(if uid(&stored) == uid(backup) { Stored::Own(Box::new(stored)) } else { Stored::OfAnother })
}

/// Tells how a backup ended; the figures of the metrics come from the status alone.
pub(crate) fn report(context: &Context, backup: &Backup) {
    let schedule = label(backup, labels::SCHEDULE_NAME);
    trace::tell_whole(backup, backup.status.start_timestamp.as_ref());
    context.metrics.backup_ended(backup);
    context.to_count.notify_one();
    if let Some(told) = backup.told() {
        events::tell(context, backup, Controller::Backup, told);
    }
    if backup.status.csi_volume_snapshots_attempted > 0 {
        context.metrics.csi_snapshots(schedule, name(backup), &backup.status);
    }
    let status = &backup.status;
    let (backup, phase) = (name(backup), status.phase().as_str());
    if status.failure_reason.is_empty() {
        tracing::info!(backup, phase, errors = status.errors, warnings = status.warnings, "Backup ended");
    } else {
        tracing::error!(backup, phase, reason = status.failure_reason, "Backup failed");
    }
}

/// What became of the files of a failed backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CleanUp {
    /// They are gone.
    Done,
    /// They could not be removed.
    Left,
    /// What lies there is of another backup.
    Foreign,
}

/// Removes what a failed backup has stored, so that nothing half-written is left. Its reservation stays while something is
/// still to be said about it. What another has written over it is left alone: Velero takes no notice of a reservation.
pub(super) async fn clean_up(store: &BackupStore, backup: &Backup) -> CleanUp {
    try_to_clean_up(store, backup).await.unwrap_or_else(|error| {
        let (backup, error) = (name(backup), describe(&error));
        tracing::warn!(backup, error, "Files of a failed backup are left in its location");
        CleanUp::Left
    })
}

async fn try_to_clean_up(store: &BackupStore, backup: &Backup) -> Result<CleanUp> {
    if !owns_files(store, backup).await? {
        tracing::warn!(backup = name(backup), "The files of this name are those of another backup and stay");
        return Ok(CleanUp::Foreign);
    }
    match store.clear(name(backup), uid(backup)).await {
        Err(StoreError::Foreign { .. }) => Ok(CleanUp::Foreign),
        cleared => Ok(cleared.map(|()| CleanUp::Done)?),
    }
}

#[cfg(test)]
mod tests {
    use velero_store::{BackupReservation, StoreConfig};

    use super::*;

    #[tokio::test]
    async fn a_failed_backup_leaves_what_another_has_written_over_it() {
        let directory = tempfile::tempdir().unwrap();
        let config = StoreConfig::new("fs", directory.path().display().to_string());
        let store = BackupStore::new(config.open().await.unwrap(), "");
        let backup = |uid: &str, reason: &str| {
            let mut backup = Backup::new("velero", "b", Default::default());
            backup.metadata.uid = Some(uid.to_owned());
            backup.status.failure_reason = reason.to_owned();
            backup
        };
        let own = backup("1", "no space");
        let metadata = directory.path().join("backups/b/velero-backup.json");
        for (stored, expected) in [(backup("2", ""), CleanUp::Foreign), (own.clone(), CleanUp::Done)] {
            let reservation = BackupReservation { uid: "1".to_owned(), ..BackupReservation::default() };
            assert_eq!(store.reserve("b", &reservation).await.unwrap(), None);
            std::fs::write(&metadata, serde_json::to_vec(&stored).unwrap()).unwrap();
            assert_eq!(clean_up(&store, &own).await, expected);
            assert_eq!(metadata.exists(), expected == CleanUp::Foreign);
        }
    }
}

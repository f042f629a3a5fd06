//! Pays what an interrupted backup owes, and one whose name could not be given back at its end: see [`crate::lifecycle::debts`].

use std::time::Duration;

use velero_api::metadata::{name, uid};
use velero_api::v1::{Backup, BackupPhase, BackupStorageLocation};
use velero_engine::volumes::SavedVolumes;

use crate::backup::again::{forget_retry, owe_retry};
use crate::backup::failure::STOPPED;
use crate::backup::garbage_collection;
use crate::backup::reservation::owns_files;
use crate::backup::volumes::{self, Why};
use crate::lifecycle::cancel::try_cancel_owned;
use crate::lifecycle::cancellation::requested;
use crate::lifecycle::debts::{owes, settle, write};
use crate::lifecycle::movers;
use crate::lifecycle::phase::drop_notes;
use crate::runtime::context::Context;
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, WHILE_HELD};
use crate::runtime::error::{Error, Result, describe};

/// How soon is tried again to remove what could not be removed.
const PAUSE: Duration = Duration::from_secs(600);

/// What an interrupted backup may have left behind.
pub(crate) const LEFT_BEHIND: &str = "operations, snapshots and files of the interrupted run";

/// How things stand with what an interrupted backup left behind.
enum Remains {
    /// It had ended: this is what is stored.
    Ended(Box<Backup>),
    /// Nothing is left.
    Removed,
    /// Something could not be removed, in words.
    Left(String),
}

/// The metadata of an interrupted backup, should it have got that far. Its name is given back then: who was killed right after
/// the metadata were stored could not.
pub(crate) async fn stored_end(context: &Context, backup: &Backup) -> Result<Option<Backup>> {
    let place = &backup.spec.storage_location;
    let Some(location) = context.objects.get::<BackupStorageLocation>(place).await? else { return Ok(None) };
    let store = context.locations.open_briefly(&location).await?;
    if !store.backup_exists(name(backup)).await? || !owns_files(&store, backup).await? {
        return Ok(None);
    }
    let stored = store.get_metadata(name(backup)).await?;
    if !location.is_read_only() {
        store.release(name(backup), uid(backup)).await?;
    }
    Ok(Some(stored))
}

/// A backup with the end that its stored metadata tell, which its server could not write any more. One that was cut off because
/// its server was told to end is taken again: that note is not in the metadata.
pub(crate) fn with_stored_end(backup: &Backup, stored: Backup) -> Backup {
    let mut ended = Backup { status: stored.status, ..backup.clone() };
    drop_notes(&mut ended);
    if *ended.status.phase() == BackupPhase::Failed && ended.status.failure_reason.ends_with(STOPPED) {
        owe_retry(&mut ended, backup);
    }
    ended
}

/// Cancels and removes what an interrupted backup left, unless it had ended. It can be done again at any point.
async fn remove_remains(context: &Context, backup: &Backup) -> Result<Remains> {
    let told = movers::try_cancel_of_backup(context, backup, &backup.status.failure_reason).await;
    // One that does not let itself be told to stop keeps nothing else from being removed.
    match (remove_saved(context, backup).await?, told) {
        (Remains::Left(problem), _) => Ok(Remains::Left(problem)),
        (remains, Ok(())) => Ok(remains),
        (_, Err(Error::Cluster(error))) if !error.is_unanswered() => {
            Ok(Remains::Left(format!("a data mover could not be told to stop: {}", describe(&error))))
        }
        (_, Err(error)) => Err(error),
    }
}

/// Removes what an interrupted backup has saved, unless it had ended.
async fn remove_saved(context: &Context, backup: &Backup) -> Result<Remains> {
    // Only the store tells whether the snapshots are those of a whole backup.
    // Velero stores them before the end; those say nothing of one that was cancelled since.
    let is_end = |stored: &Backup| requested(backup).is_none() || stored.status.phase().is_terminal();
    if let Some(stored) = stored_end(context, backup).await?.filter(is_end) {
        if *stored.status.phase() == BackupPhase::Failed {
            // They explain the failure; what could not be removed then is not in them.
            discard_volumes(context, backup).await?;
        }
        return Ok(Remains::Ended(Box::new(stored)));
    }
    discard_volumes(context, backup).await?;
    let place = &backup.spec.storage_location;
    let Some(location) = context.objects.get::<BackupStorageLocation>(place).await? else {
        return Ok(Remains::Left(format!("its backup storage location {place:?} does not exist")));
    };
    if location.is_read_only() {
        return Ok(Remains::Left(format!("its backup storage location {place:?} is in read-only mode")));
    }
    let store = context.locations.open_briefly(&location).await?;
    if !owns_files(&store, backup).await? {
        // With it the files of another would pass for its own.
        store.release(name(backup), uid(backup)).await?;
        return Ok(Remains::Removed);
    }
    try_cancel_owned(context, backup, Some(&store)).await?;
    let left = volumes::remove(context, backup, &store, Why::Failed).await;
    if !left.is_empty() {
        // The files say what is still to be removed.
        return Ok(Remains::Left(left.join("; ")));
    }
    store.clear(name(backup), uid(backup)).await?;
    store.release(name(backup), uid(backup)).await?;
    Ok(Remains::Removed)
}

/// Removes what is in the cluster of what an interrupted backup has saved of volumes, whatever became of its location.
async fn discard_volumes(context: &Context, backup: &Backup) -> Result<()> {
    let questions = context.plugins.for_questions()?;
    let left = volumes::discard(context, backup, &questions.actions, &mut SavedVolumes::default()).await;
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::unmet("Backup", name(backup), left.join("; ")))
}

/// Pays what a backup owes that has ended.
pub(crate) async fn pay(context: &Context, backup: &Backup) -> Result<Next> {
    let Some(_hold) = context.backups.busy.enter(name(backup)) else { return Ok(Next::After(WHILE_HELD)) };
    // Somebody may have had it until now.
    let Some(backup) = context.objects.get::<Backup>(name(backup)).await?.filter(owes) else {
        return Ok(Next::Change);
    };
    let mut paid = backup.clone();
    settle(&mut paid);
    match remove_remains(context, &backup).await? {
        Remains::Left(problem) => {
            tracing::warn!(backup = name(&backup), problem, "What the interrupted backup left is still there");
            // Its time may be over all the same.
            if context.settings.is_enabled(Controller::GarbageCollection) {
                garbage_collection::collect(context, &backup).await?;
            }
            return Ok(Next::After(PAUSE));
        }
        Remains::Removed => tracing::info!(backup = name(&backup), "What the interrupted backup left is removed"),
        Remains::Ended(stored) => {
            tracing::info!(backup = name(&backup), "The backup had ended, and its name in the bucket is given back");
            paid.status = stored.status;
            forget_retry(&mut paid);
        }
    }
    write(context, &backup, &paid).await
}

#[cfg(test)]
mod tests {
    use velero_api::annotations::{ASKED_FIELDS, HOLDER_IDENTITY, RETRY_INTERRUPTED, RETRY_OWED};
    use velero_api::metadata::annotation;

    use super::*;

    #[test]
    fn a_backup_whose_end_only_its_files_tell_keeps_no_note_of_its_run() {
        let mut ran = Backup::new("velero", "b", Default::default());
        let notes = [(HOLDER_IDENTITY, "gone_1"), (ASKED_FIELDS, "{}"), (RETRY_INTERRUPTED, "true"), ("team", "a")];
        ran.metadata.annotations = Some(notes.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        ran.status.phase = Some(BackupPhase::InProgress);
        let stopped = format!("backup execution failed: {STOPPED}");
        for (phase, reason, is_owed) in [
            (BackupPhase::Completed, "", false),
            (BackupPhase::Failed, "backup execution failed: no space", false),
            (BackupPhase::Failed, stopped.as_str(), true),
        ] {
            let mut stored = ran.clone();
            stored.status.phase = Some(phase.clone());
            stored.status.failure_reason = reason.to_owned();
            let ended = with_stored_end(&ran, stored);
            assert_eq!(*ended.status.phase(), phase);
            assert_eq!((annotation(&ended, HOLDER_IDENTITY), annotation(&ended, "team")), ("", "a"), "{reason}");
            let expected = if is_owed { ("b-retry-1", "{}") } else { ("", "") };
            assert_eq!((annotation(&ended, RETRY_OWED), annotation(&ended, ASKED_FIELDS)), expected, "{reason}");
        }
    }
}

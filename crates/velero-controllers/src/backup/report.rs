//! What a backup says about itself: journal, status, and what is left of a failure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use velero_api::metadata::{name, uid};
use velero_api::records::Snapshot;
use velero_api::v1::Backup;
use velero_archive::BackupFile;
use velero_engine::Journal;
use velero_engine::backup::BackupOutcome;
use velero_engine::volumes::SavedVolumes;
use velero_plugin::Actions;
use velero_rules::operations::Tally;
use velero_rules::phases::backup_phase_after_run;
use velero_store::BackupStore;

use crate::backup::again::owe_retry;
use crate::backup::debts::LEFT_BEHIND;
use crate::backup::ending::{CleanUp, clean_up, take_back_metadata};
use crate::backup::failure::{Cause, Failure};
use crate::backup::volumes;
use crate::lifecycle::debts::owe;
use crate::lifecycle::ending;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::phase::move_to;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};

/// How long the files of a failed backup may take to be removed and explained.
const EXPLANATION: Duration = Duration::from_secs(60);

/// The same where waiting helps little: the server is told to end, or the store has failed for long already.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Ends the journal of a backup that ran through.
pub(super) fn note_end(journal: &Journal, outcome: &BackupOutcome) {
    let items = outcome.progress.items_backed_up.to_string();
    journal.info().field("progress", items).message("Backup completed its work, storing its files");
}

/// The backup after its run, counted from the journal: at its end, or in the phase in which its operations go on or
/// what they changed is stored again.
pub(super) fn after_run(
    backup: &Backup,
    journal: &Journal,
    outcome: &BackupOutcome,
    tally: Tally,
    now: Timestamp,
) -> Result<Backup> {
    let mut ended = backup.clone();
    let counts = journal.counts();
    move_to(&mut ended, backup_phase_after_run(tally.running() > 0, counts.errors > 0))?;
    // What was taken of a claim that failed is in the cluster still, and the last step removes it.
    if tally.attempted == 0 && !outcome.saved.infos.iter().any(|info| info.csi_snapshot_info.is_some()) {
        let phase = ending::end_phase::<Backup>(ended.status.phase(), counts.errors > 0);
        move_to(&mut ended, phase)?;
        ended.status.completion_timestamp = Some(Time(now));
    }
    ended.put_counts(counts);
    ended.put_tally(tally);
    let status = &mut ended.status;
    status.progress = Some(outcome.progress.clone());
    status.hook_status = Some(outcome.hook_status.clone());
    (status.volume_snapshots_attempted, status.volume_snapshots_completed) = outcome.saved.native_snapshots();
    status.csi_volume_snapshots_attempted = outcome.saved.csi_snapshots();
    Ok(ended)
}

/// Removes what a backup that failed has saved of volumes, and tells what is left; gives the snapshots among that, and whether
/// there is any.
pub(super) async fn discard_volumes(
    context: &Context,
    backup: &Backup,
    journal: &Journal,
    snapshots: Vec<Snapshot>,
    actions: &Actions,
) -> (Vec<Snapshot>, bool) {
    let mut saved = SavedVolumes { snapshots, ..SavedVolumes::default() };
    let left = volumes::discard(context, backup, actions, &mut saved).await;
    for problem in &left {
        journal.error().error(problem).message("A snapshot of the failed backup is left");
    }
    (saved.snapshots, !left.is_empty())
}

/// How long the store may take to hear of a failure.
pub(super) fn patience(context: &Context, failure: &Failure) -> Duration {
    if failure.is_of_store || context.stop.is_cancelled() { LAST_WORDS } else { EXPLANATION }
}

/// Takes back the metadata of a backup that failed while they were being stored. Where that cannot be done they may be
/// there, and make it a whole backup as soon as its store answers: it needs what it has saved then. So nothing more is
/// removed, and whoever pays what it owes looks first.
pub(super) async fn is_taken_back(backup: &Backup, failure: &mut Failure, patience: Duration) -> bool {
    let Some(store) = &failure.touched else { return true };
    if let Ok(Ok(())) = tokio::time::timeout(patience, take_back_metadata(store, backup)).await {
        return true;
    }
    tracing::warn!(
        backup = name(backup),
        "The metadata of the failed backup may be stored, so what it has saved stays until its location answers"
    );
    (failure.touched, failure.is_owed) = (None, true);
    false
}

/// The failed backup; what it left in the store is removed but for what explains the failure.
pub(super) async fn failed(context: &Context, backup: &Backup, journal: &Journal, failure: Failure) -> Result<Backup> {
    journal.error().error(&failure.reason).message("Backup failed");
    let mut failed = ending::failed(backup, failure.told())?;
    failed.put_counts(journal.counts());
    // Who has deleted or ended it says what there is to say.
    let is_wanted = context.still_has(backup).await.unwrap_or(true);
    let mut is_left = failure.may_be_reserved || failure.is_owed;
    if let Some(store) = &failure.touched {
        let words = async {
            if is_wanted {
                return leave_explanation(store, &failed, journal, &failure).await;
            }
            leave_nothing(store, &failed).await;
            false
        };
        is_left |= tokio::time::timeout(patience(context, &failure), words).await.unwrap_or_else(|_| {
            tracing::warn!(backup = name(backup), "The store does not answer; files of a failed backup may be left");
            true
        });
    }
    if is_left {
        owe(&mut failed, LEFT_BEHIND);
    }
    // After the files, which other clusters read too: only this one takes it again.
    if failure.cause == Cause::ServerStopped {
        owe_retry(&mut failed, backup);
    }
    Ok(failed)
}

/// Removes the files of a failed backup and stores its log. The metadata are stored too if the store is sound: then the
/// failed backup can be listed, read about and deleted like any other. Tells whether something is left to be removed later.
async fn leave_explanation(store: &BackupStore, failed: &Backup, journal: &Journal, failure: &Failure) -> bool {
    let backup = name(failed);
    match clean_up(store, failed).await {
        // With its reservation the files of another would pass for its own.
        CleanUp::Foreign => return store.release(backup, uid(failed)).await.is_err(),
        // Who removes them later has to find whose they are, and no metadata that would make a backup of them.
        CleanUp::Left => return true,
        CleanUp::Done => {}
    }
    let mut stored = failed.files(store).put_journal(journal).await;
    if stored.is_ok() && !failure.snapshots_left.is_empty() {
        stored = store.put_json(backup, BackupFile::VolumeSnapshots, &failure.snapshots_left).await;
    }
    if stored.is_ok() && !failure.is_of_store {
        stored = store.put_metadata(failed).await.map(drop);
    }
    let released = store.release(backup, uid(failed)).await;
    let is_reserved = released.is_err();
    if let Err(error) = stored.and(released) {
        tracing::warn!(backup, error = describe(&error), "The log of a failed backup could not be stored");
    }
    is_reserved
}

async fn leave_nothing(store: &BackupStore, failed: &Backup) {
    clean_up(store, failed).await;
    if let Err(error) = store.release(name(failed), uid(failed)).await {
        tracing::warn!(backup = name(failed), error = describe(&error), "The reservation of a backup is left");
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{BackupPhase, BackupProgress};
    use velero_api::{WriteGuard, WriteRefused};
    use velero_engine::journal::{Level, LogFormat};
    use velero_store::StoreConfig;

    use super::*;

    #[tokio::test]
    async fn a_backup_whose_metadata_cannot_be_taken_back_keeps_what_it_has_saved() {
        let directory = tempfile::tempdir().unwrap();
        let bucket = directory.path().display().to_string();
        let away = || WriteRefused("the store is away".to_owned());
        let shut = WriteGuard::new(|| false, move || Box::pin(async move { Err::<(), _>(away()) }));
        let mut own = Backup::new("velero", "b", Default::default());
        own.metadata.uid = Some("1".to_owned());
        let mut of_another = own.clone();
        of_another.metadata.uid = Some("2".to_owned());
        of_another.status.failure_reason = "of another".to_owned();
        let metadata = directory.path().join("backups/b/velero-backup.json");
        for (stored, write_guard, is_back, stays) in
            [(&own, Some(shut), false, true), (&own, None, true, false), (&of_another, None, true, true)]
        {
            std::fs::create_dir_all(metadata.parent().unwrap()).unwrap();
            std::fs::write(&metadata, serde_json::to_vec(stored).unwrap()).unwrap();
            let config = StoreConfig { write_guard, ..StoreConfig::new("fs", &bucket) };
            let store = BackupStore::new(config.open().await.unwrap(), "");
            let mut failure = Failure::after_start("no answer".to_owned(), &store, true);
            assert_eq!(is_taken_back(&own, &mut failure, EXPLANATION).await, is_back);
            assert_eq!((failure.is_owed, failure.touched.is_none()), (!is_back, !is_back));
            assert_eq!(metadata.exists(), stays, "{}", stored.status.failure_reason);
        }
    }

    fn running() -> (Backup, Journal, BackupOutcome) {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.status.phase = Some(BackupPhase::InProgress);
        let journal = Journal::for_backup("velero", "b", LogFormat::Text, Level::Info);
        let progress = BackupProgress { total_items: 3, items_backed_up: 3, ..Default::default() };
        (backup, journal, BackupOutcome { progress, ..Default::default() })
    }

    #[test]
    fn the_end_of_a_backup_is_counted_from_its_journal() {
        let (backup, journal, outcome) = running();
        let now = Timestamp::UNIX_EPOCH;
        let none = Tally::default();
        let good = after_run(&backup, &journal, &outcome, none, now).unwrap();
        assert_eq!(*good.status.phase(), BackupPhase::Completed);
        assert_eq!(good.status.progress.as_ref().unwrap().items_backed_up, 3);
        journal.warning().message("odd");
        journal.error().message("bad");
        journal.error().message("worse");
        let bad = after_run(&backup, &journal, &outcome, none, now).unwrap();
        assert_eq!(*bad.status.phase(), BackupPhase::PartiallyFailed);
        assert_eq!((bad.status.warnings, bad.status.errors), (1, 2));
        assert_eq!(bad.status.completion_timestamp, Some(Time(now)));
    }

    #[test]
    fn a_backup_with_operations_has_not_ended_with_its_run() {
        use BackupPhase::*;
        let (backup, journal, outcome) = running();
        let (going, over) =
            (Tally { attempted: 2, completed: 1, failed: 0 }, Tally { attempted: 2, completed: 1, failed: 1 });
        let after = |tally| after_run(&backup, &journal, &outcome, tally, Timestamp::UNIX_EPOCH).unwrap().status;
        assert_eq!(*after(going).phase(), WaitingForPluginOperations);
        assert_eq!(after(going).completion_timestamp, None);
        journal.error().message("no space, plugin: a.io/b");
        assert_eq!(*after(going).phase(), WaitingForPluginOperationsPartiallyFailed);
        let status = after(over);
        assert_eq!(*status.phase(), FinalizingPartiallyFailed);
        assert_eq!(status.backup_item_operations_failed, 1);
    }
}

//! Moves a restore out of its store: the archive into the engine, then the files that say what happened back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use velero_api::metadata::name;
use velero_api::records::{BackupVolumeInfo, RestoreOperation};
use velero_api::v1::{PodVolumeBackup, Restore, RestoreProgress};
use velero_archive::{BackupFile, RestoreFile};
use velero_engine::Journal;
use velero_engine::recorder::Recorded;
use velero_engine::restore::{self, Preview, RestoreError, RestoreOutcome, RestoreRequest, RunningHooks};
use velero_rules::volume_records::with_pod_volume_backups;
use velero_store::{BackupStore, ByteStream, Error as StoreError, blocking_reader};

use crate::lifecycle::kind::Kind;
use crate::lifecycle::started::keep_stored;
use crate::restore::prepare::PreparedRestore;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};
use crate::runtime::plugins::Tools;
use crate::runtime::progress;
use crate::runtime::store_message::explain;

/// How long it is at least from one report of progress to the next. With the time a report takes, watchers hear of a
/// running restore at least once a second.
const PAUSE: Duration = Duration::from_millis(800);

/// Puts together what the engine needs to restore, or to look: the same for both.
pub(super) async fn request(
    context: &Context,
    prepared: PreparedRestore,
    store: &BackupStore,
    (tools, started): (&Tools, &Recorded<RestoreOperation>),
) -> Result<(RestoreRequest, ByteStream), String> {
    let restore = prepared.restore.clone();
    let backup = &restore.spec.backup_name;
    let volumes = volumes(store, backup).await;
    let volumes = volumes.map_err(|error| format!("error fetching volume information: {}", explain(&error)))?;
    let snapshots = store.get_json(backup, BackupFile::VolumeSnapshots).await;
    let snapshots =
        snapshots.map_err(|error| format!("error fetching volume snapshots metadata: {}", explain(&error)))?;
    let archive = store.get_contents(backup).await;
    let archive = archive.map_err(|error| format!("error downloading backup: {}", explain(&error)))?;
    let (actions, discovery) = (tools.actions.clone(), Arc::clone(&tools.discovery));
    let cluster = context.objects.cluster();
    let request = prepared.request_with(cluster, &context.settings, volumes, (actions, discovery)).await;
    let request = request.map_err(|error| describe(&error))?;
    let request = RestoreRequest { snapshots, operations: started.clone(), ..request };
    Ok((request, archive))
}

/// Restores what is in the archive of the backup, and writes the progress meanwhile.
pub(super) async fn contents(
    context: &Context,
    prepared: PreparedRestore,
    journal: &Journal,
    store: &BackupStore,
    (tools, started): (&Tools, &Recorded<RestoreOperation>),
) -> Result<(RestoreOutcome, RunningHooks), String> {
    let restore = prepared.restore.clone();
    let (request, archive) = request(context, prepared, store, (tools, started)).await?;
    journal.info().message("starting restore");

    let (sender, receiver) = watch::channel(RestoreProgress::default());
    let done = CancellationToken::new();
    let work = async {
        let (archive, journal) = (blocking_reader(archive), journal.clone());
        let restored = on_a_thread(async move || restore::run(request, archive, &journal, sender).await).await;
        done.cancel();
        restored
    };
    let report = progress::write(context, &restore, PAUSE, receiver, done.clone(), put_progress);
    let files = restore.files(store);
    let put = || async { files.put_operations(&started.all()).await };
    let record = keep_stored("Operations that were started", started.subscribe(), &done, put);
    let (restored, (), ()) = tokio::join!(work, report, record);
    restored
}

/// What is known of the volumes of a backup, from all files that tell of them.
async fn volumes(store: &BackupStore, backup: &str) -> Result<Vec<BackupVolumeInfo>, StoreError> {
    let infos = store.get_json(backup, BackupFile::VolumeInfos).await?;
    let copies: Vec<PodVolumeBackup> = store.get_json(backup, BackupFile::PodVolumeBackups).await?;
    Ok(with_pod_volume_backups(infos, &copies))
}

/// Takes over progress that is never less than what was said before.
fn put_progress(restore: &mut Restore, next: &RestoreProgress) {
    let known = restore.status.progress.get_or_insert_default();
    known.total_items = known.total_items.max(next.total_items);
    known.items_restored = known.items_restored.max(next.items_restored);
}

/// Says what restoring the archive of the backup would do, and does nothing.
pub(super) async fn look(
    context: &Context,
    prepared: PreparedRestore,
    journal: &Journal,
    store: &BackupStore,
    (tools, started): (&Tools, &Recorded<RestoreOperation>),
) -> Result<Preview, String> {
    let (request, archive) = request(context, prepared, store, (tools, started)).await?;
    let (archive, journal) = (blocking_reader(archive), journal.clone());
    on_a_thread(async move || restore::preview(request, archive, &journal).await).await
}

/// Works on a thread of its own, so that a large restore takes no turn from the controllers. Dropping the future gives
/// the work up.
async fn on_a_thread<T, W>(work: W) -> Result<T, String>
where
    T: Send + 'static,
    W: AsyncFnOnce() -> Result<T, RestoreError> + Send + 'static,
{
    let wanted = CancellationToken::new();
    let dropped = wanted.clone();
    let _guard = wanted.drop_guard();
    let runtime = tokio::runtime::Handle::current();
    let working = tokio::task::spawn_blocking(move || {
        let restored = runtime.block_on(dropped.run_until_cancelled(work()));
        restored.ok_or("the restore was given up")?.map_err(|error| describe(&error))
    });
    working.await.map_err(|error| error.to_string())?
}

/// Stores all files of a restore. What cannot be stored is told; the results and the log come last.
pub(super) async fn files(
    store: &BackupStore,
    restore: &Restore,
    journal: &Journal,
    outcome: &RestoreOutcome,
) -> Result<(), StoreError> {
    let (files, restore) = (restore.files(store), name(restore));
    tokio::try_join!(
        store.put_restore_json(restore, RestoreFile::ResourceList, &outcome.resource_list),
        store.put_restore_json(restore, RestoreFile::ItemOperations, &outcome.operations),
        store.put_restore_json(restore, RestoreFile::VolumeInfo, &outcome.volumes),
    )?;
    files.put_journal(journal).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_never_goes_back() {
        let mut restore = Restore::new("velero", "r", Default::default());
        let progress =
            |total_items, items_restored| RestoreProgress { total_items, items_restored, ..Default::default() };
        for (next, expected) in [((10, 0), (10, 0)), ((12, 7), (12, 7)), ((11, 6), (12, 7)), ((12, 12), (12, 12))] {
            put_progress(&mut restore, &progress(next.0, next.1));
            assert_eq!(restore.status.progress, Some(progress(expected.0, expected.1)));
        }
    }
}

//! Moves a restore out of its store: the archive into the engine, then the files that say what happened back.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use velero_api::metadata::name;
use velero_api::records::{BackupVolumeInfo, RestoreOperation};
use velero_api::v1::{PodVolumeBackup, Restore, RestoreProgress};
use velero_archive::{BackupFile, RestoreFile};
use velero_engine::Journal;
use velero_engine::recorder::Recorded;
use velero_engine::restore::{self, Preview, RestoreError, RestoreOutcome, RestoreRequest, RunningHooks};
use velero_rules::resource_modifiers::ModifierSource;
use velero_rules::volume_records::with_pod_volume_backups;
use velero_store::{BackupStore, ByteStream, Error as StoreError, blocking_reader};

use crate::lifecycle::copy_means::copy_means;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::started::keep_stored;
use crate::restore::error::RunError;
use crate::restore::prepare::PreparedRestore;
use crate::runtime::context::Context;
use crate::runtime::error::Result;
use crate::runtime::plugins::Tools;
use crate::runtime::progress;

/// How long it is at least from one report of progress to the next. With the time a report takes, watchers hear of a
/// running restore at least once a second.
const PAUSE: Duration = Duration::from_millis(800);

/// What a restore works with: plugins, and the record of the operations they start.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub(super) tools: &'a Tools,
    pub(super) started: &'a Recorded<RestoreOperation>,
    /// Cancelled when no further item is to be begun.
    pub(super) halt: &'a CancellationToken,
}

/// What came of the work of the engine.
pub(super) struct Restored {
    pub(super) outcome: RestoreOutcome,
    /// What still goes on.
    pub(super) hooks: RunningHooks,
}

/// Puts together what the engine needs to restore, or to look: the same for both.
pub(super) async fn request(
    context: &Context,
    prepared: PreparedRestore,
    store: &BackupStore,
    means: Means<'_>,
) -> Result<(RestoreRequest, ByteStream), RunError> {
    let restore = prepared.restore.clone();
    let backup = &restore.spec.backup_name;
    let failed = |doing| move |source| RunError::File { doing, source };
    let volumes = volumes(store, backup).await.map_err(failed("fetching volume information"))?;
    let snapshots = store.get_json(backup, BackupFile::VolumeSnapshots).await;
    let snapshots = snapshots.map_err(failed("fetching volume snapshots metadata"))?;
    let archive = store.get_contents(backup).await.map_err(failed("downloading backup"))?;
    let (actions, discovery) = (means.tools.actions.clone(), Arc::clone(&means.tools.discovery));
    let cluster = context.objects.cluster();
    let request = prepared.request_with(cluster, &context.settings, volumes, actions, discovery).await;
    let request = request.map_err(RunError::Needs)?;
    let (operations, copy_means, halt) = (means.started.clone(), copy_means(context), means.halt.clone());
    let request = RestoreRequest { snapshots, operations, copy_means, halt, ..request };
    Ok((request, archive))
}

/// Restores what is in the archive of the backup, and writes the progress meanwhile.
pub(super) async fn contents(
    context: &Context,
    prepared: PreparedRestore,
    journal: &Journal,
    store: &BackupStore,
    means: Means<'_>,
) -> Result<Restored, RunError> {
    let restore = prepared.restore.clone();
    let (request, archive) = request(context, prepared, store, means).await?;
    let read = context.metrics.restored_bytes(&restore.spec.schedule_name);
    let archive: ByteStream = archive.inspect_ok(move |bytes| read.inc_by(bytes.len() as f64)).boxed();
    journal.info().message("starting restore");
    tell_default_modifiers(context, &restore, journal);

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
    let put = || async { files.put_operations(&means.started.all()).await };
    let record = keep_stored("Operations that were started", means.started.subscribe(), &done, put, || false);
    let (restored, (), ()) = tokio::join!(work, report, record);
    restored.map(|(outcome, hooks)| Restored { outcome, hooks })
}

/// Says that the server changes objects where the restore asks for nothing of the kind: who reads the log looks for the reason.
fn tell_default_modifiers(context: &Context, restore: &Restore, journal: &Journal) {
    let default = &context.settings.default_resource_modifier_configmap;
    if let ModifierSource::Server(config_map) = ModifierSource::of(&restore.spec, default) {
        journal.info().message(&format!(
            "Objects are changed by the modifiers that the server has for all restores (configmap {config_map})"
        ));
    }
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
    means: Means<'_>,
) -> Result<Preview, RunError> {
    let (request, archive) = request(context, prepared, store, means).await?;
    let (archive, journal) = (blocking_reader(archive), journal.clone());
    on_a_thread(async move || restore::preview(request, archive, &journal).await).await
}

/// Works on a thread of its own, so that a large restore takes no turn from the controllers. Dropping the future gives
/// the work up.
async fn on_a_thread<T, W>(work: W) -> Result<T, RunError>
where
    T: Send + 'static,
    W: AsyncFnOnce() -> Result<T, RestoreError> + Send + 'static,
{
    let wanted = CancellationToken::new();
    let dropped = wanted.clone();
    let _guard = wanted.drop_guard();
    let runtime = tokio::runtime::Handle::current();
    let span = tracing::Span::current();
    let working = tokio::task::spawn_blocking(move || {
        let work = dropped.run_until_cancelled(work().instrument(span));
        let restored = runtime.block_on(work);
        restored.ok_or(RunError::GivenUp)?.map_err(RunError::Engine)
    });
    working.await?
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

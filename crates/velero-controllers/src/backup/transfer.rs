//! Moves a backup into its store: the archive while it is made, then the files beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use velero_api::metadata::name;
use velero_api::v1::{Backup, BackupProgress};
use velero_archive::BackupFile;
use velero_engine::Journal;
use velero_engine::backup::{self, BackupError, BackupOutcome, BackupRequest, OwedHooks};
use velero_engine::recorder::BackupRecorder;
use velero_engine::stage;
use velero_engine::stage::try_within;
use velero_plugin::Actions;
use velero_rules::resource_policies::ResourcePolicies;
use velero_store::{BackupStore, Error as StoreError, PipeWriter, pipe};

use crate::backup::failure::Failure;
use crate::lifecycle::copy_means::copy_means;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::started::keep_stored;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};
use crate::runtime::plugins::Tools;
use crate::runtime::progress;
use crate::runtime::store_message::explain;

/// How many pieces of 256 KiB may wait between the archive and the upload.
pub(super) const WAITING_PIECES: usize = 4;

/// How long it is at least from one report of progress to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// Makes the archive and uploads it at the same time; gives the size of what was stored.
pub(super) async fn contents(
    context: &Context,
    backup: &Backup,
    request: BackupRequest,
    journal: &Journal,
    store: &BackupStore,
) -> Result<(BackupOutcome, u64), Failure> {
    let failed = |reason: String, is_of_store| Failure::after_start(reason, store, is_of_store);
    let (writer, stream) = pipe(WAITING_PIECES);
    let size = Arc::new(AtomicU64::new(0));
    let counter = size.clone();
    let stream = stream.inspect_ok(move |piece| {
        counter.fetch_add(piece.len() as u64, Ordering::Relaxed);
    });
    let (sender, receiver) = watch::channel(BackupProgress::default());
    let recorder = request.recorder.clone();
    let done = CancellationToken::new();

    let make = async {
        let made = make(context, request, writer, journal.clone(), sender).await;
        done.cancel();
        made
    };
    let is_away = AtomicBool::new(false);
    let upload = async {
        let stage = stage!("upload", velero.bytes = Empty);
        let uploaded = try_within(stage.clone(), store.put_contents(name(backup), Box::pin(stream))).await;
        stage.record("velero.bytes", size.load(Ordering::Relaxed));
        // Hooks that are owed are run as soon as all this ends.
        is_away.store(!matches!(uploaded, Ok(()) | Err(StoreError::Content { .. })), Ordering::Relaxed);
        uploaded
    };
    let put = |backup: &mut Backup, progress: &BackupProgress| backup.status.progress = Some(progress.clone());
    let report = progress::write(context, backup, PAUSE, receiver, done.clone(), put);
    let record = keep_recorded(backup, store, &recorder, &done, || is_away.load(Ordering::Relaxed));
    let (made, uploaded, (), ()) = tokio::join!(make, upload, report, record);
    match (made, uploaded) {
        (Ok(outcome), Ok(())) => Ok((outcome, size.load(Ordering::Relaxed))),
        // The upload only passes on that the archive was not finished; why is known better here.
        (Err(error), Ok(()) | Err(StoreError::Content { .. })) => Err(failed(error.to_string(), false)),
        (_, Err(error)) => Err(failed(explain(&error), true)),
    }
}

/// Stores what a backup sets going as it grows, until `done`.
async fn keep_recorded(
    backup: &Backup,
    store: &BackupStore,
    recorder: &BackupRecorder,
    done: &CancellationToken,
    is_away: impl Fn() -> bool,
) {
    let BackupRecorder { operations, snapshots, .. } = recorder;
    let files = backup.files(store);
    let put_operations = || async { files.put_operations(&operations.all()).await };
    let put_snapshots = || async { store.put_json(name(backup), BackupFile::VolumeSnapshots, &snapshots.all()).await };
    tokio::join!(
        keep_stored("Operations that were started", operations.subscribe(), done, put_operations, &is_away),
        keep_stored("Snapshots that were taken", snapshots.subscribe(), done, put_snapshots, &is_away),
    );
}

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
enum NotMade {
    /// The engine could not make it.
    #[error("{}", describe(.0))]
    Engine(#[source] BackupError),
    /// The thread that made it is gone.
    #[error(transparent)]
    Lost(#[from] tokio::task::JoinError),
    /// Its end could not be written.
    #[error(transparent)]
    End(#[from] std::io::Error),
}

/// Makes the archive on a thread of its own. Dropping the future gives the backup up.
async fn make(
    context: &Context,
    request: BackupRequest,
    sink: PipeWriter,
    journal: Journal,
    progress: watch::Sender<BackupProgress>,
) -> Result<BackupOutcome, NotMade> {
    let work = context.backup_threads.run(async move {
        let (outcome, sink) = backup::run(request, sink, &journal, progress).await.map_err(NotMade::Engine)?;
        tokio::task::spawn_blocking(move || sink.finish()).await??;
        Ok(outcome)
    });
    work.await?
}

/// What the engine backs up.
pub(super) fn request(
    context: &Context,
    backup: &Backup,
    policies: Option<ResourcePolicies>,
    actions: Actions,
    tools: &Tools,
) -> BackupRequest {
    let settings = &context.settings;
    BackupRequest {
        backup: backup.clone(),
        asked: backup.spec.clone(),
        actions,
        cluster: context.objects.cluster().clone(),
        discovery: Arc::clone(&tools.discovery),
        policies,
        features: settings.features.clone(),
        page_size: settings.client_page_size,
        item_block_workers: usize::try_from(settings.item_block_worker_count).unwrap_or(1).max(1),
        recorder: BackupRecorder::default(),
        limits: settings.archive_limits(),
        owed_hooks: OwedHooks::default(),
        copy_means: copy_means(context),
    }
}

/// Stores all files of a backup but its archive and its metadata.
pub(super) async fn side_files(
    store: &BackupStore,
    backup: &Backup,
    journal: &Journal,
    outcome: &BackupOutcome,
) -> Result<(), StoreError> {
    let (files, backup) = (backup.files(store), name(backup));
    tokio::try_join!(
        store.put_json(backup, BackupFile::ResourceList, &outcome.resource_list),
        store.put_json(backup, BackupFile::ItemOperations, &outcome.operations),
        store.put_json(backup, BackupFile::PodVolumeBackups, &outcome.saved.copies),
        store.put_json(backup, BackupFile::VolumeSnapshots, &outcome.saved.snapshots),
        store.put_json(backup, BackupFile::VolumeInfos, &outcome.saved.infos),
        files.put_journal(journal),
    )?;
    Ok(())
}

//! The work itself: data that moves between a volume and a repository, on threads that may block, and how far it is.

use std::fs::{File, metadata};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;
use velero_api::records::{BackupResult, DataPathEndpoint, DataPathProgress, RestoreResult};
use velero_repo::restore::{self, RestoreOptions, restore_into_folder, restore_onto_device};
use velero_repo::upload::{self, SnapshotRequest, UploadOptions, estimate_folder, upload_device, upload_folder};
use velero_repo::{Error, Repository, Result};

use crate::mover::done_file;
use crate::mover::plan::Work;
use crate::mover::settings::{Settings, VolumeMode};

/// A transfer under way.
pub(super) struct Transfer {
    gauge: Arc<Gauge>,
    cancel: CancellationToken,
    task: JoinHandle<Result<String>>,
}

/// How far a transfer is at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    total: u64,
    done: u64,
    /// Files, links and folders that were gone through: many have no bytes.
    entries: u64,
}

impl Reading {
    /// The same, as a node agent is told.
    pub(super) fn progress(&self) -> DataPathProgress {
        DataPathProgress {
            total_bytes: number(self.total.max(self.done)),
            bytes_done: number(self.done),
            ..DataPathProgress::default()
        }
    }
}

/// What is counted while data moves.
enum Gauge {
    Backup { counters: upload::Counters, expected: AtomicU64 },
    Restore(restore::Counters),
}

impl Gauge {
    fn read(&self) -> Reading {
        match self {
            Self::Backup { counters, expected } => {
                let progress = counters.progress();
                let total = expected.load(Ordering::Relaxed);
                Reading { total, done: progress.bytes_done, entries: progress.files_done }
            }
            Self::Restore(counters) => {
                let progress = counters.progress();
                let entries = progress.files_done + progress.directories_done;
                Reading { total: progress.bytes_total, done: progress.bytes_done, entries }
            }
        }
    }
}

fn number(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Transfer {
    /// Begins the work.
    pub(super) fn begin(repository: Repository, work: Work, settings: &Settings) -> Self {
        let gauge = Arc::new(match &work {
            Work::Backup { .. } => Gauge::Backup { counters: upload::Counters::default(), expected: AtomicU64::new(0) },
            Work::Restore { .. } => Gauge::Restore(restore::Counters::default()),
        });
        let cancel = CancellationToken::new();
        let (mode, endpoint) = (settings.volume_mode, settings.endpoint());
        let job = Job { repository, path: settings.volume_path.clone(), mode, endpoint, cancel: cancel.clone() };
        let counted = Arc::clone(&gauge);
        let task = spawn_blocking(move || job.run(work, &counted));
        Self { gauge, cancel, task }
    }

    /// How far it is.
    pub(super) fn reading(&self) -> Reading {
        self.gauge.read()
    }

    /// Ends it soon.
    pub(super) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// The result as JSON, once it has ended. May be dropped and called again until it gives one.
    pub(super) async fn ended(&mut self) -> Result<String> {
        let ended = (&mut self.task).await;
        ended.unwrap_or_else(|panic| Err(Error::Unsupported(format!("the work on it ended unexpectedly: {panic}"))))
    }
}

/// What a thread needs to do the work.
struct Job {
    repository: Repository,
    path: std::path::PathBuf,
    mode: VolumeMode,
    endpoint: DataPathEndpoint,
    cancel: CancellationToken,
}

impl Job {
    fn run(&self, work: Work, gauge: &Gauge) -> Result<String> {
        let result = match (work, gauge) {
            (Work::Backup { request, parallel }, Gauge::Backup { counters, expected }) => {
                serde_json::to_string(&self.back_up(&request, parallel, counters, expected)?)
            }
            (Work::Restore { snapshot, parallel, sparse, waiting_restore }, Gauge::Restore(counters)) => {
                let usual = RestoreOptions::default();
                let parallel = parallel.unwrap_or(usual.parallel);
                let options = RestoreOptions { parallel, sparse, cancel: self.cancel.clone() };
                serde_json::to_string(&self.restore(&snapshot, waiting_restore.as_deref(), &options, counters)?)
            }
            // Each is made with its own.
            _ => return Err(Error::Canceled),
        };
        result.map_err(|error| Error::Malformed { what: "the result".to_owned(), problem: error.to_string() })
    }

    fn back_up(
        &self,
        request: &SnapshotRequest,
        parallel: Option<usize>,
        counters: &upload::Counters,
        expected: &AtomicU64,
    ) -> Result<BackupResult> {
        let usual = UploadOptions::default();
        let parallel = parallel.unwrap_or(usual.parallel);
        let options = UploadOptions { parallel, cancel: self.cancel.clone(), ..usual };
        let saved = match self.mode {
            VolumeMode::Block => {
                expected.store(device_size(&self.path), Ordering::Relaxed);
                upload_device(&self.repository, &self.path, request, &options, counters)?
            }
            VolumeMode::Filesystem => {
                let before = Identity::of(&self.path).map_err(|error| self.failed("look at", error))?;
                let estimate = self.cancel.child_token();
                let saved = std::thread::scope(|scope| {
                    scope.spawn(|| estimate_folder(&self.path, expected, &estimate));
                    let saved = upload_folder(&self.repository, &self.path, request, &options, counters);
                    estimate.cancel();
                    saved
                })?;
                if !before.is_still_at(&self.path) {
                    return Err(self.volume_gone(&saved.id, &options));
                }
                saved
            }
        };
        tell_damaged_names(counters);
        let total = saved.snapshot.stats.total_size;
        Ok(BackupResult {
            snapshot_id: saved.id,
            source: self.endpoint.clone(),
            total_bytes: total,
            incremental_bytes: total - number(counters.progress().bytes_cached),
            ..BackupResult::default()
        })
    }

    /// A snapshot of a volume that went away while it was read lacks what was gone: nobody must take it for a backup.
    fn volume_gone(&self, snapshot: &str, options: &UploadOptions) -> Error {
        if let Err(error) = upload::forget(&self.repository, &[snapshot.to_owned()], &options.clock) {
            tracing::warn!(%error, snapshot, "The snapshot of a volume that went away could not be removed");
        }
        let problem =
            "the volume went away while it was read, so what was saved may lack files; does its pod still run?";
        Error::NotSaved { path: self.path.display().to_string(), problem: problem.to_owned() }
    }

    fn restore(
        &self,
        id: &str,
        waiting_restore: Option<&str>,
        options: &RestoreOptions,
        counters: &restore::Counters,
    ) -> Result<RestoreResult> {
        let snapshot = self.repository.snapshot(id)?;
        if !snapshot.incomplete.is_empty() {
            let problem = format!("the snapshot is incomplete ({})", snapshot.incomplete);
            return Err(Error::Refused { path: id.to_owned(), problem });
        }
        let root = snapshot.root()?;
        match self.mode {
            VolumeMode::Block => restore_onto_device(&self.repository, root, &self.path, options, counters)?,
            VolumeMode::Filesystem => {
                // A folder that is made here would be one of this pod, and its data gone with it.
                let there = metadata(&self.path).map_err(|error| self.failed("look at", error))?;
                if !there.is_dir() {
                    return Err(self.failed("open", io::ErrorKind::NotADirectory.into()));
                }
                restore_into_folder(&self.repository, root, &self.path, options, counters)?;
            }
        }
        if let Some(restore) = waiting_restore {
            let written = done_file::write(&self.path, restore);
            written.map_err(|error| self.failed("write the file that lets the pod start onto", error))?;
        }
        // As Velero counts: without those of links.
        let total = root.summary.as_ref().map_or_else(|| counters.progress().bytes_done, |summary| summary.size);
        let total_bytes = number(total);
        Ok(RestoreResult { target: self.endpoint.clone(), total_bytes, ..RestoreResult::default() })
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::File { action, path: self.path.display().to_string(), source }
    }
}

/// Which folder lies at a path.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let found = metadata(path)?;
        Ok(Self { device: found.dev(), inode: found.ino() })
    }

    /// Whether it lies there still. A folder that was removed keeps its place while it is mounted, but has no links.
    fn is_still_at(&self, path: &Path) -> bool {
        metadata(path).is_ok_and(|found| found.nlink() > 0) && Self::of(path).is_ok_and(|found| found == *self)
    }
}

/// How many bytes a device has; none where it does not say, which the backup itself will tell.
fn device_size(path: &Path) -> u64 {
    File::open(path).and_then(|mut device| device.seek(SeekFrom::End(0))).unwrap_or(0)
}

fn tell_damaged_names(counters: &upload::Counters) {
    let (count, names) = counters.damaged_names();
    if count > 0 {
        tracing::warn!(count, first = ?names.first(), "Names that are not UTF-8 were saved with U+FFFD in their place");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_done_than_was_expected_only_where_a_volume_grows() {
        let reading = Reading { total: 10, done: 15, entries: 1 };
        let progress = reading.progress();
        assert_eq!((progress.total_bytes, progress.bytes_done), (15, 15));
    }

    #[test]
    fn a_folder_that_is_removed_or_replaced_is_not_the_one_it_was() {
        let parent = tempfile::tempdir().unwrap();
        let volume = parent.path().join("volume");
        std::fs::create_dir(&volume).unwrap();
        let before = Identity::of(&volume).unwrap();
        assert!(before.is_still_at(&volume));
        // A handle keeps the number from being given to the next folder.
        let held = File::open(&volume).unwrap();
        std::fs::remove_dir(&volume).unwrap();
        assert!(!before.is_still_at(&volume));
        let seen = std::path::PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held)));
        assert!(!before.is_still_at(&seen), "it has no links any more");
        std::fs::create_dir(&volume).unwrap();
        assert!(!before.is_still_at(&volume));
    }
}

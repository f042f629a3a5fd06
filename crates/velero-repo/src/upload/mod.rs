//! Saves a folder or a block device as a snapshot.
//!
//! ```text
//! walk ── names in order; unchanged since the snapshot before? ── files
//!   └─ hands ── read, cut, hash, encrypt; pieces of large files go to hands that have nothing to do
//!        └─ tree ── entries in order become directories; the last one done finishes the folder
//! ```
//!
//! One flush at the end makes everything visible at once; backups that run long also flush and write checkpoints.

mod checkpoint;
mod counters;
mod estimate;
mod file;
mod hands;
mod ignore;
mod parent;
mod snapshot;
mod source;
mod tree;
mod walk;

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use jiff::Timestamp;
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, system_clock};
use crate::directory::{DirectoryEntry, EntryKind, Mode};
pub use crate::forget::forget;
use crate::manifest::Snapshot;
use crate::splitter::Splitter;
use crate::writer::{ContentWriter, Written};
use crate::{Error, Repository, Result};
use checkpoint::Checkpoints;
pub use counters::{Counters, Progress};
pub use estimate::estimate_folder;
use file::FileProgress;
use hands::{FileJob, FileSource, Hands};
pub use snapshot::{SnapshotRequest, find_parent};
use tree::{Folder, Slot};
use walk::Walk;

/// Where the walk needs room: a path can have two thousand folders.
const WALK_STACK: usize = 32 << 20;

/// How a backup is done.
#[derive(Clone)]
pub struct UploadOptions {
    /// How many hands read, hash and encrypt.
    pub parallel: usize,
    /// Ends the backup soon; nothing of it becomes visible.
    pub cancel: CancellationToken,
    /// The time.
    pub clock: Clock,
    /// Whether file data is compressed where it pays; where nobody says so, it is as the store has it.
    pub compress: Option<bool>,
}

impl Default for UploadOptions {
    fn default() -> Self {
        let parallel = thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8));
        Self { parallel, cancel: CancellationToken::new(), clock: system_clock(), compress: None }
    }
}

/// A snapshot that was saved.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The id of its manifest.
    pub id: String,
    /// Its record.
    pub snapshot: Snapshot,
    /// What was stored for it.
    pub written: Written,
}

/// Saves a folder. Unchanged files of the latest complete snapshot of the same source are taken over unread.
pub fn upload_folder(
    repository: &Repository,
    folder: &Path,
    request: &SnapshotRequest,
    options: &UploadOptions,
    counters: &Counters,
) -> Result<Saved> {
    let shown = folder.display().to_string();
    let failed = |action| {
        let shown = shown.clone();
        move |error: std::io::Error| Error::file(action, shown, error)
    };
    let handle = source::open_root(folder).map_err(failed("open"))?;
    let found = rustix::fs::fstat(&handle).map_err(|error| failed("look at")(error.into()))?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut entry = walk::blank(name, EntryKind::Directory);
    source::describe(&mut entry, &found);
    let upload = Upload { repository, request, options, counters };
    upload.run(entry, |hands, root, before| {
        Walk { hands, rules: Vec::new() }.folder(
            root,
            handle,
            "",
            before.and_then(|root| (root.kind == EntryKind::Directory).then_some(root.object)),
        )
    })
}

/// Saves a block device, or a file that stands for one, as a stream.
pub fn upload_device(
    repository: &Repository,
    device: &Path,
    request: &SnapshotRequest,
    options: &UploadOptions,
    counters: &Counters,
) -> Result<Saved> {
    let shown = device.display().to_string();
    let path = std::fs::canonicalize(device).map_err(|error| Error::file("find", shown.as_str(), error))?;
    let name = path.display().to_string();
    let file = File::open(&path).map_err(|error| Error::file("open", name.as_str(), error))?;
    let found = rustix::fs::fstat(&file).map_err(|error| Error::file("look at", name.as_str(), error))?;
    if !matches!(FileType::from_raw_mode(found.st_mode), FileType::BlockDevice | FileType::RegularFile) {
        return Err(Error::NotSaved { path: name, problem: "it is no block device".to_owned() });
    }
    let all = Mode(0o777);
    // What Go makes of a time that was never set.
    let never = Timestamp::new(-6_795_364_579, 128_654_848).unwrap_or_default();
    let root = DirectoryEntry { mode: all, mtime: never, ..walk::blank(name.clone(), EntryKind::Directory) };
    let mtime = (options.clock)();
    let upload = Upload { repository, request, options, counters };
    upload.run(root, |hands, root, _| {
        let entry = DirectoryEntry { mode: all, mtime, ..walk::blank(name.clone(), EntryKind::File) };
        let progress = Arc::new(FileProgress::new(entry, hands.splitter));
        let number = root.place(|_| Slot::File(Arc::clone(&progress)), &|| hands.is_stopped())?;
        let source = FileSource::Device(file);
        hands.give_file(FileJob { folder: Arc::clone(root), number, progress, path: name, source })?;
        root.close(hands.writer)
    })
}

/// One backup.
struct Upload<'a> {
    repository: &'a Repository,
    request: &'a SnapshotRequest,
    options: &'a UploadOptions,
    counters: &'a Counters,
}

impl Upload<'_> {
    fn run(
        &self,
        root: DirectoryEntry,
        walk: impl FnOnce(&Hands<'_>, &Arc<Folder>, Option<&DirectoryEntry>) -> Result<()> + Send,
    ) -> Result<Saved> {
        let checkpoints = Mutex::new(Vec::new());
        let outcome = self.save(root, walk, &checkpoints);
        let left = checkpoints.into_inner().unwrap_or_else(PoisonError::into_inner);
        if outcome.is_err() && !left.is_empty() {
            // With a writer of its own: that of the backup may be the one that failed.
            let removed = forget(self.repository, &left, &self.options.clock);
            if let Err(error) = removed {
                tracing::warn!(%error, "the checkpoints of a failed backup stay until the next one of its source");
            }
        }
        outcome
    }

    fn save(
        &self,
        root: DirectoryEntry,
        walk: impl FnOnce(&Hands<'_>, &Arc<Folder>, Option<&DirectoryEntry>) -> Result<()> + Send,
        written: &Mutex<Vec<String>>,
    ) -> Result<Saved> {
        let labels = self.request.labels()?;
        let splitter = Splitter::named(&self.repository.format().parameters.splitter)?;
        let writer = ContentWriter::new(self.repository, self.options.clock.clone())?;
        let parent = find_parent(self.repository, self.request)?;
        let before = parent.as_ref().and_then(|(_, snapshot)| snapshot.root_entry.as_ref());
        let start_time = writer.now();
        let snapshot = self.request.snapshot(start_time);
        let folder = Folder::new(None, root, splitter);
        // By its tags the owner finds what a backup that was killed has left.
        let unpinned = Snapshot { pins: Vec::new(), ..snapshot.clone() };
        let checkpoints = Checkpoints::new(&folder, labels.clone(), unpinned, written);
        let count = self.options.parallel.max(1);
        let hands = Hands::new(&writer, splitter, self.counters, self.options, checkpoints, count);
        thread::scope(|scope| {
            let (hands, folder) = (&hands, &folder);
            for _ in 0..count {
                scope.spawn(move || hands.work());
            }
            let walker = thread::Builder::new().stack_size(WALK_STACK).spawn_scoped(scope, move || {
                if let Err(error) = walk(hands, folder, before) {
                    hands.fail(error);
                }
                hands.close();
            });
            if let Err(error) = walker {
                hands.fail(Error::file("start", "a thread", error));
            }
        });
        hands.outcome()?;
        // Their buffers are not needed for the flush.
        drop(hands);
        let root = folder.finished().ok_or(Error::Canceled)?;
        let folders = root.summary.as_ref().map_or(1, |summary| summary.dirs);
        let snapshot = Snapshot {
            end_time: writer.now(),
            stats: self.counters.stats(folders),
            root_entry: Some(root),
            ..snapshot
        };
        let id = self.request.write_manifests(&writer, labels, &snapshot, self.options.parallel)?;
        if self.options.cancel.is_cancelled() {
            return Err(Error::Canceled);
        }
        writer.flush()?;
        Ok(Saved { id, snapshot, written: writer.written() })
    }
}

//! Writes a snapshot back, planned by pack.
//!
//! ```text
//! walk ── reads directories and lists, makes folders, plans a window of pieces
//!   └─ plan ── orders the window by pack and joins neighbours into fetches
//!        └─ execute ── several hands fetch, decrypt, check and write; whoever writes the last piece ends the file
//! ```
//!
//! Memory holds two windows and one fetch a hand, whatever the size of the snapshot.

mod execute;
mod output;
mod plan;
mod target;
mod walk;

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use rustix::fs::{FileType, OFlags};
use tokio_util::sync::CancellationToken;

use crate::directory::{DirectoryEntry, EntryKind, for_each_entry};
use crate::{Error, Repository, Result};
use execute::Executor;
use output::{Hand, Kind, Output};
use target::{Attributes, TargetFolder};
use walk::{Walk, Window};

/// How a restore is done.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// How many hands fetch and write; each holds up to 8 MiB, and as much again of what is compressed, but all together 64.
    pub parallel: usize,
    /// Leaves blocks of zeros out of files.
    pub sparse: bool,
    /// Ends the restore soon; what was written stays.
    pub cancel: CancellationToken,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        let parallel = thread::available_parallelism().map_or(4, |cores| cores.get().clamp(4, 8));
        Self { parallel, sparse: false, cancel: CancellationToken::new() }
    }
}

/// How far a restore is; read from any thread.
#[derive(Debug, Default)]
pub struct Counters {
    bytes_total: AtomicU64,
    bytes_done: AtomicU64,
    files_total: AtomicU64,
    files_done: AtomicU64,
    directories_done: AtomicU64,
}

/// What [`Counters`] say at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The bytes of all files, as the snapshot says.
    pub bytes_total: u64,
    /// The bytes written.
    pub bytes_done: u64,
    /// How many files and links there are, as the snapshot says.
    pub files_total: u64,
    /// How many are done.
    pub files_done: u64,
    /// How many directories were entered.
    pub directories_done: u64,
}

impl Counters {
    /// How far it is.
    pub fn progress(&self) -> Progress {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Progress {
            bytes_total: read(&self.bytes_total),
            bytes_done: read(&self.bytes_done),
            files_total: read(&self.files_total),
            files_done: read(&self.files_done),
            directories_done: read(&self.directories_done),
        }
    }

    fn bytes(&self, count: u64) {
        self.bytes_done.fetch_add(count, Ordering::Relaxed);
    }

    fn files(&self, count: u64) {
        self.files_done.fetch_add(count, Ordering::Relaxed);
    }

    fn directories(&self, count: u64) {
        self.directories_done.fetch_add(count, Ordering::Relaxed);
    }

    fn expect(&self, root: &DirectoryEntry) {
        if let Some(summary) = &root.summary {
            self.bytes_total.store(summary.size, Ordering::Relaxed);
            self.files_total.store(summary.files + summary.symlinks, Ordering::Relaxed);
        }
    }
}

/// Restores a tree into a folder, which is made if it is missing. Files that are there are overwritten, others stay.
pub fn restore_into_folder(
    repository: &Repository,
    root: &DirectoryEntry,
    folder: &Path,
    options: &RestoreOptions,
    counters: &Counters,
) -> Result<()> {
    let opened = TargetFolder::open(folder);
    let target = opened.map_err(|error| Error::file("open", folder.display().to_string(), error))?;
    counters.expect(root);
    run(repository, &target, options, counters, |walk| walk.tree(root))?;
    target.sync().map_err(|error| Error::file("sync", folder.display().to_string(), error))
}

/// Restores the one file of a block volume onto a device, or into a file that stands for one.
pub fn restore_onto_device(
    repository: &Repository,
    root: &DirectoryEntry,
    device: &Path,
    options: &RestoreOptions,
    counters: &Counters,
) -> Result<()> {
    let name = device.display().to_string();
    let failed = |action| {
        let name = name.clone();
        move |error: std::io::Error| Error::file(action, name, error)
    };
    let entry = only_file(repository, root)?;
    let file = File::options().write(true).open(device).map_err(failed("open"))?;
    let there = rustix::fs::fstat(&file).map_err(|error| failed("look at")(error.into()))?;
    let size = match FileType::from_raw_mode(there.st_mode) {
        FileType::BlockDevice => {
            use std::io::{Seek as _, SeekFrom};
            (&file).seek(SeekFrom::End(0)).map_err(failed("look at"))?
        }
        FileType::RegularFile => entry.size,
        _ => return Err(Error::Refused { path: name, problem: "it is no block device".to_owned() }),
    };
    if size < entry.size {
        let problem = format!("it has {size} bytes and the volume {}", entry.size);
        return Err(Error::Refused { path: name, problem });
    }
    counters.expect(root);
    let written = file.try_clone().map_err(failed("open"))?;
    let direct = File::options().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(device).ok();
    let folder = Path::new("/");
    let target = TargetFolder::open(folder).map_err(|error| Error::file("open", "/", error))?;
    let output = Arc::new(Output {
        folder: Arc::from(""),
        name: entry.name.as_str().into(),
        size: entry.size,
        attributes: Attributes::of(&entry),
        kind: Kind::Device { file: written, direct },
        pending: AtomicU64::new(1),
    });
    run(repository, &target, options, counters, |walk| {
        walk.pieces(&output, entry.object)?;
        walk.send_window()
    })?;
    file.sync_all().map_err(failed("sync"))
}

/// The file of a block volume. Its name is a path and means nothing.
fn only_file(repository: &Repository, root: &DirectoryEntry) -> Result<DirectoryEntry> {
    let mut entries = Vec::new();
    for_each_entry(repository, root.object, |entry| {
        entries.push(entry);
        if entries.len() > 1 {
            Err(Error::malformed("the snapshot", "it has more than one entry and is no block volume"))
        } else {
            Ok(())
        }
    })?;
    let file = entries.pop().filter(|entry| entry.kind == EntryKind::File);
    file.ok_or_else(|| Error::malformed("the snapshot", "it has no file and is no block volume"))
}

/// Walks on one thread while windows are worked on by others.
fn run(
    repository: &Repository,
    target: &TargetFolder,
    options: &RestoreOptions,
    counters: &Counters,
    walk: impl FnOnce(&mut Walk<'_>) -> Result<()> + Send,
) -> Result<()> {
    let loaded = repository.fresh_index()?;
    let executor = Executor { repository, target, options, counters };
    let (sender, windows) = mpsc::sync_channel::<Window>(0);
    thread::scope(|scope| {
        let walker = scope.spawn(move || {
            // Whoever does not take windows any more has a better error.
            let mut send = |window| sender.send(window).map_err(|_| Error::Canceled);
            let window = Window { loaded, pieces: Vec::new(), finished: Vec::new() };
            walk(&mut Walk { repository, target, options, counters, send: &mut send, window, hand: Hand::default() })
        });
        // Moved in, so that an early end hangs up before the walk is waited for.
        let windows = windows;
        let executed = windows.iter().try_for_each(|window| executor.run(window));
        drop(windows);
        let walked = walker.join().unwrap_or_else(|_| Err(Error::malformed("the walk", "it ended in a panic")));
        executed.and(walked)
    })
}

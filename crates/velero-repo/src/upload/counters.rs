//! What is counted while a backup runs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::directory::{DirectoryEntry, EntryKind};
use crate::lock;
use crate::manifest::Stats;

/// How many damaged names are remembered.
const MOST_NAMES: usize = 100;

/// How far a backup is; read from any thread.
#[derive(Debug, Default)]
pub struct Counters {
    bytes_read: AtomicU64,
    bytes_cached: AtomicU64,
    bytes_saved: AtomicU64,
    files_saved: AtomicU64,
    files_cached: AtomicU64,
    links_saved: AtomicU64,
    excluded_files: AtomicU64,
    excluded_bytes: AtomicU64,
    excluded_folders: AtomicU64,
    damaged_names: AtomicU64,
    names: Mutex<Vec<String>>,
}

/// What [`Counters`] say at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The bytes done: read, or taken over unread.
    pub bytes_done: u64,
    /// The bytes of them that were taken over from the snapshot before.
    pub bytes_cached: u64,
    /// How many files and links are done.
    pub files_done: u64,
    /// How many of them were taken over.
    pub files_cached: u64,
}

impl Counters {
    /// How far it is.
    pub fn progress(&self) -> Progress {
        let (cached, files_cached) = (load(&self.bytes_cached), load(&self.files_cached));
        Progress {
            bytes_done: load(&self.bytes_read) + cached,
            bytes_cached: cached,
            files_done: load(&self.files_saved) + load(&self.links_saved) + files_cached,
            files_cached,
        }
    }

    /// How many names were not UTF-8, and the first of them as they were saved.
    pub fn damaged_names(&self) -> (u64, Vec<String>) {
        (load(&self.damaged_names), lock(&self.names).clone())
    }

    pub(super) fn read(&self, bytes: u64) {
        add(&self.bytes_read, bytes);
    }

    pub(super) fn saved_file(&self, bytes: u64) {
        add(&self.files_saved, 1);
        add(&self.bytes_saved, bytes);
    }

    pub(super) fn saved_link(&self) {
        add(&self.links_saved, 1);
    }

    pub(super) fn cached_file(&self, bytes: u64) {
        add(&self.files_cached, 1);
        add(&self.bytes_cached, bytes);
    }

    pub(super) fn excluded(&self, entry: &DirectoryEntry) {
        if entry.kind == EntryKind::Directory {
            return self.excluded_folder();
        }
        add(&self.excluded_files, 1);
        add(&self.excluded_bytes, entry.size);
    }

    pub(super) fn excluded_folder(&self) {
        add(&self.excluded_folders, 1);
    }

    pub(super) fn damaged_name(&self, path: &str) {
        add(&self.damaged_names, 1);
        let mut names = lock(&self.names);
        if names.len() < MOST_NAMES {
            names.push(path.to_owned());
        }
    }

    /// What the manifest says, counted as kopia counts: links that were read have no bytes, links taken over have.
    pub(super) fn stats(&self, folders: u64) -> Stats {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let read = |counter: &AtomicU64| number(load(counter));
        Stats {
            total_size: number(load(&self.bytes_saved) + load(&self.bytes_cached)),
            excluded_total_size: read(&self.excluded_bytes),
            file_count: read(&self.files_saved),
            cached_files: read(&self.files_cached),
            non_cached_files: read(&self.files_saved),
            dir_count: number(folders),
            excluded_file_count: read(&self.excluded_files),
            excluded_dir_count: read(&self.excluded_folders),
            ignored_error_count: 0,
            error_count: 0,
        }
    }
}

fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

//! Folders under way. Entries become text in order as soon as they are done, so that a folder of a million files never is in
//! memory; whoever finishes the last entry of a folder finishes the folder.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::file::FileProgress;
use crate::directory::{DirectoryEntry, EntryKind, Summary};
use crate::lock;
use crate::object_writer::StreamWriter;
use crate::splitter::Splitter;
use crate::writer::ContentWriter;
use crate::{Error, Result, go_json};

/// How many entries of a folder may wait for one before them.
const MOST_WAITING: usize = 4096;

/// A folder whose entries come in.
pub(super) struct Folder {
    /// The folder above and the place in it.
    above: Option<(Arc<Self>, u64)>,
    /// What the folder above says of it; the object comes at the end.
    entry: DirectoryEntry,
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    /// The number of the first entry that waits.
    first: u64,
    waiting: VecDeque<Slot>,
    /// No more entries come.
    closed: bool,
    text: DirectoryText,
    /// The outcome of the topmost folder.
    finished: Option<DirectoryEntry>,
}

/// An entry that has its place already.
pub(super) enum Slot {
    /// A folder below.
    Folder(Arc<Folder>),
    /// A file that is read.
    File(Arc<FileProgress>),
    /// Done; nothing if it turned out to be gone.
    Done(Option<Box<DirectoryEntry>>),
}

/// The bytes of a directory, entry by entry.
#[derive(Clone)]
struct DirectoryText {
    stream: StreamWriter,
    summary: Summary,
    has_entries: bool,
}

impl DirectoryText {
    fn new(splitter: Splitter) -> Self {
        let summary = Summary { dirs: 1, ..Summary::default() };
        Self { stream: StreamWriter::new(Some('k'), splitter, false), summary, has_entries: false }
    }

    fn push(&mut self, writer: &ContentWriter<'_>, entry: &DirectoryEntry) -> Result<()> {
        let before: &[u8] = if self.has_entries { b"," } else { b"{\"stream\":\"kopia:directory\",\"entries\":[" };
        self.stream.write(writer, before)?;
        self.stream.write(writer, &go_json::to_vec(entry).map_err(|error| Error::malformed("an entry", error))?)?;
        let sum = &mut self.summary;
        // As kopia has it: of a folder with nothing later than 1970, the start of time.
        sum.max_time = sum.max_time.max(entry.mtime);
        self.has_entries = true;
        match entry.kind {
            EntryKind::File => {
                sum.files += 1;
                sum.size += entry.size;
            }
            EntryKind::Symlink => sum.symlinks += 1,
            EntryKind::Directory => {
                if let Some(below) = &entry.summary {
                    sum.size += below.size;
                    sum.files += below.files;
                    sum.symlinks += below.symlinks;
                    sum.dirs += below.dirs;
                    sum.max_time = sum.max_time.max(below.max_time);
                }
            }
        }
        Ok(())
    }

    /// Completes the entry of the folder itself.
    fn finish(mut self, writer: &ContentWriter<'_>, mut entry: DirectoryEntry) -> Result<DirectoryEntry> {
        if !self.has_entries {
            self.summary.max_time = entry.mtime;
            self.stream.write(writer, b"{\"stream\":\"kopia:directory\",\"entries\":null")?;
        } else {
            self.stream.write(writer, b"]")?;
        }
        let summary = go_json::to_vec(&self.summary).map_err(|error| Error::malformed("a summary", error))?;
        self.stream.write(writer, b",\"summary\":")?;
        self.stream.write(writer, &summary)?;
        self.stream.write(writer, b"}\n")?;
        entry.object = self.stream.finish(writer)?;
        entry.summary = Some(self.summary);
        Ok(entry)
    }
}

impl Folder {
    /// A folder; `entry` has everything but object and summary.
    pub(super) fn new(above: Option<(Arc<Self>, u64)>, entry: DirectoryEntry, splitter: Splitter) -> Arc<Self> {
        let text = DirectoryText::new(splitter);
        let state = State { first: 0, waiting: VecDeque::new(), closed: false, text, finished: None };
        Arc::new(Self { above, entry, state: Mutex::new(state), moved: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes the next place, once not too many wait. `stopped` ends the wait.
    pub(super) fn place(&self, slot: impl FnOnce(u64) -> Slot, stopped: &dyn Fn() -> bool) -> Result<u64> {
        let mut state = self.state();
        while state.waiting.len() >= MOST_WAITING {
            if stopped() {
                return Err(Error::Canceled);
            }
            let waited = self.moved.wait_timeout(state, Duration::from_millis(50));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let number = state.first + state.waiting.len() as u64;
        state.waiting.push_back(slot(number));
        Ok(number)
    }

    /// Says what became of an entry.
    pub(super) fn done(&self, writer: &ContentWriter<'_>, number: u64, entry: Option<DirectoryEntry>) -> Result<()> {
        {
            let mut state = self.state();
            let index = (number - state.first) as usize;
            if let Some(slot) = state.waiting.get_mut(index) {
                *slot = Slot::Done(entry.map(Box::new));
            }
        }
        self.advance(writer)
    }

    /// An entry was placed that is done already.
    pub(super) fn moved_on(&self, writer: &ContentWriter<'_>, number: u64) -> Result<()> {
        let is_next = self.state().first == number;
        if is_next { self.advance(writer) } else { Ok(()) }
    }

    /// No more entries come.
    pub(super) fn close(&self, writer: &ContentWriter<'_>) -> Result<()> {
        self.state().closed = true;
        self.advance(writer)
    }

    /// Writes what is done, and finishes the folder when that was all.
    fn advance(&self, writer: &ContentWriter<'_>) -> Result<()> {
        let finished = {
            let mut state = self.state();
            while matches!(state.waiting.front(), Some(Slot::Done(_))) {
                state.first += 1;
                if let Some(Slot::Done(Some(entry))) = state.waiting.pop_front() {
                    state.text.push(writer, &entry)?;
                }
            }
            self.moved.notify_all();
            if !state.closed || !state.waiting.is_empty() || state.finished.is_some() {
                return Ok(());
            }
            let text = std::mem::replace(&mut state.text, DirectoryText::new(Splitter::default()));
            let entry = text.finish(writer, self.entry.clone())?;
            state.finished = Some(entry.clone());
            entry
        };
        match &self.above {
            Some((above, number)) => above.done(writer, *number, Some(finished)),
            None => Ok(()),
        }
    }

    /// The entry of the topmost folder when all of it is done.
    pub(super) fn finished(&self) -> Option<DirectoryEntry> {
        self.state().finished.clone()
    }

    /// The folder as far as it is known, for a checkpoint; the folder itself goes on untouched.
    pub(super) fn so_far(&self, writer: &ContentWriter<'_>, why: &str) -> Result<DirectoryEntry> {
        let (mut text, folders, files) = {
            let state = self.state();
            if let Some(finished) = &state.finished {
                return Ok(finished.clone());
            }
            let mut text = state.text.clone();
            let (mut folders, mut files) = (Vec::new(), Vec::new());
            for slot in &state.waiting {
                match slot {
                    Slot::Folder(folder) => folders.push(Arc::clone(folder)),
                    Slot::File(file) => files.push(Arc::clone(file)),
                    Slot::Done(Some(entry)) => text.push(writer, entry)?,
                    Slot::Done(None) => {}
                }
            }
            (text, folders, files)
        };
        for folder in folders {
            text.push(writer, &folder.so_far(writer, why)?)?;
        }
        for file in files {
            if let Some(entry) = file.so_far(writer)? {
                text.push(writer, &entry)?;
            }
        }
        why.clone_into(&mut text.summary.incomplete);
        text.finish(writer, self.entry.clone())
    }
}

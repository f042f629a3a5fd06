//! Hands that read, cut, hash and encrypt. The walk gives them files, and they give each other pieces.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::checkpoint::Checkpoints;
use super::file::{self, FileProgress};
use super::tree::Folder;
use super::{Counters, UploadOptions, source};
use crate::content_id::ContentId;
use crate::directory::DirectoryEntry;
use crate::lock;
use crate::splitter::Splitter;
use crate::writer::ContentWriter;
use crate::{Error, Result};

/// How many files may wait for a hand.
const MOST_FILES: usize = 256;
/// How many pieces may wait for a hand.
const MOST_PIECES: usize = 1;

/// What all hands share.
pub(super) struct Hands<'a> {
    pub(super) writer: &'a ContentWriter<'a>,
    pub(super) splitter: Splitter,
    pub(super) counters: &'a Counters,
    pub(super) cancel: &'a CancellationToken,
    pub(super) checkpoints: Checkpoints<'a>,
    queue: Mutex<Queue>,
    moved: Condvar,
    most_buffers: usize,
    /// Whether data is compressed where it pays.
    pub(super) compress: bool,
    /// The piece of nothing but zeros.
    zeros: OnceLock<ContentId>,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    files: VecDeque<FileJob>,
    /// How many files are being read.
    open_files: usize,
    /// How many hands have nothing to do.
    idle: usize,
    /// No more files come.
    closed: bool,
    failure: Option<Error>,
    stopped: bool,
    buffers: Vec<Vec<u8>>,
    buffers_out: usize,
}

/// A file that is to be saved.
pub(super) struct FileJob {
    pub(super) folder: Arc<Folder>,
    pub(super) number: u64,
    pub(super) progress: Arc<FileProgress>,
    /// For messages.
    pub(super) path: String,
    pub(super) source: FileSource,
}

/// Where a file is.
pub(super) enum FileSource {
    /// By name in a folder.
    In(Arc<OwnedFd>, Box<[u8]>),
    /// A device, open already.
    Device(File),
}

/// A piece that is to be stored.
pub(super) struct Piece {
    /// A whole buffer; the piece is its beginning.
    pub(super) bytes: Vec<u8>,
    pub(super) length: usize,
    pub(super) number: u64,
    pub(super) file: Arc<FileProgress>,
}

enum Job {
    Piece(Piece),
    File(FileJob),
}

impl<'a> Hands<'a> {
    pub(super) fn new(
        writer: &'a ContentWriter<'a>,
        splitter: Splitter,
        counters: &'a Counters,
        options: &'a UploadOptions,
        checkpoints: Checkpoints<'a>,
        count: usize,
    ) -> Self {
        // Each buffer holds the longest piece, 8 MiB as a rule: the packs need the rest of the memory.
        let most_buffers = (count + 1).clamp(2, 3);
        let (queue, moved) = (Mutex::default(), Condvar::new());
        let compress = options.compress.unwrap_or_else(|| writer.repository().store().bytes_are_dear());
        let (cancel, zeros) = (&options.cancel, OnceLock::new());
        Self { writer, splitter, counters, cancel, checkpoints, queue, moved, most_buffers, compress, zeros }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    fn wait<'q>(&self, queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        // The limit is for a cancel, which nobody announces.
        self.moved.wait_timeout(queue, Duration::from_millis(50)).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Whether to stop: canceled, or something failed.
    pub(super) fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled() || self.queue().stopped
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.is_stopped() { Err(Error::Canceled) } else { Ok(()) }
    }

    /// Ends everything; the first error is the one that is told.
    pub(super) fn fail(&self, error: Error) {
        let mut queue = self.queue();
        queue.stopped = true;
        // Others only say that something failed before.
        let is_first = matches!(queue.failure, None | Some(Error::WriterFailed));
        if is_first && !matches!(error, Error::Canceled) {
            queue.failure = Some(error);
        }
        queue.pieces.clear();
        queue.files.clear();
        self.moved.notify_all();
    }

    /// Why it ended.
    pub(super) fn outcome(&self) -> Result<()> {
        let mut queue = self.queue();
        match queue.failure.take() {
            Some(error) => Err(error),
            None if queue.stopped || self.cancel.is_cancelled() => Err(Error::Canceled),
            None => Ok(()),
        }
    }

    /// Hands a file over, once not too many wait.
    pub(super) fn give_file(&self, job: FileJob) -> Result<()> {
        let mut queue = self.queue();
        while queue.files.len() >= MOST_FILES {
            if queue.stopped || self.cancel.is_cancelled() {
                return Err(Error::Canceled);
            }
            queue = self.wait(queue);
        }
        queue.files.push_back(job);
        self.moved.notify_all();
        Ok(())
    }

    /// No more files come.
    pub(super) fn close(&self) {
        self.queue().closed = true;
        self.moved.notify_all();
    }

    /// A buffer to read a file into; works on pieces while there is none.
    pub(super) fn buffer(&self) -> Result<Vec<u8>> {
        let mut queue = self.queue();
        loop {
            if queue.stopped || self.cancel.is_cancelled() {
                return Err(Error::Canceled);
            }
            if let Some(buffer) = self.free_buffer(&mut queue) {
                return Ok(buffer);
            }
            if let Some(piece) = queue.pieces.pop_front() {
                drop(queue);
                self.work_on(piece)?;
                queue = self.queue();
            } else {
                queue = self.wait(queue);
            }
        }
    }

    fn free_buffer(&self, queue: &mut Queue) -> Option<Vec<u8>> {
        if queue.buffers_out >= self.most_buffers {
            return None;
        }
        queue.buffers_out += 1;
        Some(queue.buffers.pop().unwrap_or_else(|| vec![0; self.splitter.longest()]))
    }

    /// A further buffer, if another hand would take the piece in the first.
    pub(super) fn spare_buffer(&self) -> Option<Vec<u8>> {
        let mut queue = self.queue();
        let wanted = queue.pieces.len() < queue.idle.max(MOST_PIECES);
        if wanted { self.free_buffer(&mut queue) } else { None }
    }

    pub(super) fn give(&self, piece: Piece) {
        self.queue().pieces.push_back(piece);
        self.moved.notify_all();
    }

    pub(super) fn give_back(&self, buffer: Vec<u8>) {
        let mut queue = self.queue();
        queue.buffers_out -= 1;
        queue.buffers.push(buffer);
        self.moved.notify_all();
    }

    pub(super) fn take_piece(&self) -> Option<Piece> {
        self.queue().pieces.pop_front()
    }

    /// Stores a piece.
    pub(super) fn work_on(&self, mut piece: Piece) -> Result<()> {
        let stored = self.store(&mut piece.bytes[..piece.length]);
        self.give_back(piece.bytes);
        piece.file.end_piece(self.writer, piece.number, stored?)
    }

    /// Stores the bytes of a piece. Holes and erased disks are many times the same piece of zeros.
    pub(super) fn store(&self, bytes: &mut [u8]) -> Result<ContentId> {
        let is_zero = bytes.len() == self.splitter.shortest() && bytes.iter().all(|byte| *byte == 0);
        if let Some(id) = self.zeros.get().filter(|_| is_zero) {
            return Ok(*id);
        }
        let id = self.writer.write_in_place(None, bytes, self.compress)?;
        Ok(if is_zero { *self.zeros.get_or_init(|| id) } else { id })
    }

    /// What a hand does until everything is done.
    pub(super) fn work(&self) {
        while let Some(job) = self.next() {
            let outcome = match job {
                Job::Piece(piece) => self.work_on(piece),
                Job::File(job) => {
                    let saved = self.save(job);
                    self.queue().open_files -= 1;
                    self.moved.notify_all();
                    saved
                }
            };
            if let Err(error) = outcome.and_then(|()| self.checkpoint_if_due()) {
                self.fail(error);
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if queue.stopped || self.cancel.is_cancelled() {
                return None;
            }
            if let Some(piece) = queue.pieces.pop_front() {
                return Some(Job::Piece(piece));
            }
            if let Some(file) = queue.files.pop_front() {
                queue.open_files += 1;
                // The walk may be waiting for room.
                self.moved.notify_all();
                return Some(Job::File(file));
            }
            if queue.closed && queue.open_files == 0 {
                return None;
            }
            queue.idle += 1;
            queue = self.wait(queue);
            queue.idle -= 1;
        }
    }

    fn save(&self, job: FileJob) -> Result<()> {
        let FileJob { folder, number, progress, path, source } = job;
        let (mut file, is_device) = match source {
            FileSource::Device(file) => (file, true),
            FileSource::In(parent, name) => {
                let opened = source::open_file(parent.as_fd(), &name);
                (opened.map_err(|error| Error::file("open", path.as_str(), error))?.0, false)
            }
        };
        let (object, size) = file::save(self, &mut file, &progress, is_device).map_err(|error| match error {
            Error::File { action, source, .. } => Error::File { action, path: path.clone(), source },
            other => other,
        })?;
        self.counters.saved_file(size);
        let entry = DirectoryEntry { object, size, ..progress.entry.clone() };
        folder.done(self.writer, number, Some(entry))
    }

    pub(super) fn checkpoint_if_due(&self) -> Result<()> {
        self.checkpoints.write_if_due(self.writer)
    }
}

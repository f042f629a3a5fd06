//! A file becomes pieces. The hand that reads it cuts it, and gives pieces to hands that have nothing to do.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::hands::{Hands, Piece};
use crate::content_id::ContentId;
use crate::directory::DirectoryEntry;
use crate::lock;
use crate::object::ObjectId;
use crate::object_writer::PieceList;
use crate::splitter::Splitter;
use crate::writer::ContentWriter;
use crate::{Error, Result};

/// Longer files are cut into parts of this size, each split on its own, as Velero does.
pub(super) const PART: u64 = 1 << 31;
/// Files below are one piece for every splitter, and read in one go.
const SMALL: usize = 64 << 10;
/// How much is read at once where a piece may end.
const STEP: usize = 256 << 10;

/// The pieces of a file that is being saved.
pub(super) struct FileProgress {
    /// What the folder says of it; the object comes at the end.
    pub(super) entry: DirectoryEntry,
    pieces: Mutex<Pieces>,
    moved: Condvar,
}

struct Pieces {
    /// The number of the first piece that waits.
    first: u64,
    /// Pieces in order, with their ids once they are stored.
    waiting: VecDeque<(u64, Option<ContentId>)>,
    list: PieceList,
    end: u64,
}

impl FileProgress {
    pub(super) fn new(entry: DirectoryEntry, splitter: Splitter) -> Self {
        let list = PieceList::new(None, splitter);
        let pieces = Pieces { first: 0, waiting: VecDeque::new(), list, end: 0 };
        Self { entry, pieces: Mutex::new(pieces), moved: Condvar::new() }
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        lock(&self.pieces)
    }

    fn begin_piece(&self, length: usize) -> u64 {
        let mut pieces = self.pieces();
        pieces.waiting.push_back((length as u64, None));
        pieces.first + pieces.waiting.len() as u64 - 1
    }

    /// A piece is stored.
    pub(super) fn end_piece(&self, writer: &ContentWriter<'_>, number: u64, id: ContentId) -> Result<()> {
        let mut pieces = self.pieces();
        let index = (number - pieces.first) as usize;
        if let Some(piece) = pieces.waiting.get_mut(index) {
            piece.1 = Some(id);
        }
        while let Some((length, Some(id))) = pieces.waiting.front().copied() {
            pieces.waiting.pop_front();
            pieces.first += 1;
            pieces.end += length;
            pieces.list.push(writer, ObjectId::direct(id), length)?;
        }
        self.moved.notify_all();
        Ok(())
    }

    /// The file as far as it is stored, for a checkpoint.
    pub(super) fn so_far(&self, writer: &ContentWriter<'_>) -> Result<Option<DirectoryEntry>> {
        let (list, size) = {
            let pieces = self.pieces();
            (pieces.list.clone(), pieces.end)
        };
        if list.is_empty() {
            return Ok(None);
        }
        Ok(Some(DirectoryEntry { size, object: list.finish(writer)?, ..self.entry.clone() }))
    }

    /// Waits for the last piece, and works on others meanwhile.
    fn finish(&self, hands: &Hands<'_>) -> Result<(ObjectId, u64)> {
        loop {
            hands.check()?;
            {
                let mut pieces = self.pieces();
                if pieces.waiting.is_empty() {
                    let list = std::mem::replace(&mut pieces.list, PieceList::new(None, hands.splitter));
                    return Ok((list.finish(hands.writer)?, pieces.end));
                }
            }
            if let Some(piece) = hands.take_piece() {
                hands.work_on(piece)?;
            } else {
                let pieces = self.pieces();
                if !pieces.waiting.is_empty() {
                    drop(self.moved.wait_timeout(pieces, Duration::from_millis(20)));
                }
            }
        }
    }
}

fn unreadable(error: io::Error) -> Error {
    Error::file("read", "the file", error)
}

/// Saves an open file or device; its object, and how many bytes were read.
pub(super) fn save(
    hands: &Hands<'_>,
    file: &mut File,
    progress: &Arc<FileProgress>,
    is_device: bool,
) -> Result<(ObjectId, u64)> {
    let size = progress.entry.size;
    let mut head = Vec::new();
    if !is_device && size < SMALL as u64 {
        head.reserve(size as usize + 1);
        file.take(SMALL as u64).read_to_end(&mut head).map_err(unreadable)?;
        if head.len() < SMALL {
            let length = head.len() as u64;
            hands.counters.read(length);
            let id = hands.writer.write_in_place(None, &mut head, hands.compress)?;
            return Ok((ObjectId::direct(id), length));
        }
    }
    let parts = if is_device || size <= PART { 0 } else { size / PART };
    let mut cutter = Cutter { hands, progress, buffer: hands.buffer()?, filled: head.len() };
    cutter.buffer[..head.len()].copy_from_slice(&head);
    let outcome = (0..=parts).try_for_each(|part| {
        let limit = if part < parts { PART } else { u64::MAX };
        cutter.part(file, limit)
    });
    hands.give_back(cutter.buffer);
    outcome?;
    progress.finish(hands)
}

/// Cuts one file. The buffer always has room for the longest piece; the first bytes of it are those read and not cut.
struct Cutter<'a> {
    hands: &'a Hands<'a>,
    progress: &'a Arc<FileProgress>,
    buffer: Vec<u8>,
    filled: usize,
}

impl Cutter<'_> {
    /// Cuts one part; what the buffer holds already belongs to it. A part without bytes is one empty piece.
    fn part(&mut self, file: &mut File, limit: u64) -> Result<()> {
        let mut left = limit.saturating_sub(self.filled as u64);
        let (mut ended, mut any) = (false, false);
        loop {
            self.hands.check()?;
            let mut known = 0;
            let cut = loop {
                match self.hands.splitter.next_after(&self.buffer[..self.filled], known) {
                    Some(cut) => break cut,
                    None if ended => break self.filled,
                    None => known = self.filled,
                }
                let read = self.read(file, left)?;
                left -= read as u64;
                ended = read == 0 || left == 0;
            };
            if cut == 0 && any {
                return Ok(());
            }
            any = true;
            self.piece(cut)?;
            self.hands.checkpoint_if_due()?;
        }
    }

    /// Reads on: to where a piece can end at the earliest, then in steps. So little is read beyond the end, which would have to
    /// be moved to the next buffer, and what is searched for the end is still near the processor.
    fn read(&mut self, file: &mut File, left: u64) -> Result<usize> {
        let shortest = self.hands.splitter.shortest();
        let goal = if self.filled < shortest { shortest } else { self.buffer.len().min(self.filled + STEP) };
        let room = &mut self.buffer[self.filled..goal];
        let wanted = usize::try_from(left).map_or(room.len(), |left| left.min(room.len()));
        loop {
            match file.read(&mut room[..wanted]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let read = read.map_err(unreadable)?;
                    self.filled += read;
                    return Ok(read);
                }
            }
        }
    }

    /// Stores the first bytes of the buffer, or gives them to another hand.
    fn piece(&mut self, cut: usize) -> Result<()> {
        self.hands.counters.read(cut as u64);
        let number = self.progress.begin_piece(cut);
        let rest = self.filled - cut;
        if let Some(mut next) = self.hands.spare_buffer() {
            next[..rest].copy_from_slice(&self.buffer[cut..self.filled]);
            let bytes = std::mem::replace(&mut self.buffer, next);
            self.hands.give(Piece { bytes, length: cut, number, file: Arc::clone(self.progress) });
        } else {
            let id = self.hands.store(&mut self.buffer[..cut])?;
            self.buffer.copy_within(cut..self.filled, 0);
            self.progress.end_piece(self.hands.writer, number, id)?;
        }
        self.filled = rest;
        Ok(())
    }
}

//! What becomes of one file, link or device while its pieces come in from all sides.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::target::{Attributes, TargetFolder, create_file, make_symlink, open_file, set_attributes};
use crate::{direct, lock};

/// The blocks that are left out of sparse files.
const BLOCK: usize = 4096;

pub(super) enum Kind {
    File {
        /// Made by whoever brings the first piece.
        is_made: Mutex<bool>,
    },
    Symlink,
    Device {
        /// Through the page cache.
        file: File,
        /// Past it, where the device can.
        direct: Option<File>,
    },
}

/// One entry of the snapshot that has bytes.
pub(super) struct Output {
    pub(super) folder: Arc<str>,
    pub(super) name: Box<str>,
    pub(super) size: u64,
    pub(super) attributes: Attributes,
    pub(super) kind: Kind,
    /// Pieces that are still to come, and one while the walk still counts them.
    pub(super) pending: AtomicU64,
}

/// What a hand keeps from one piece to the next.
#[derive(Default)]
pub(super) struct Hand {
    /// The folder it worked in last: the next file mostly lies in it too.
    last: Option<(Arc<str>, OwnedFd)>,
    buffer: direct::Buffer,
}

impl Hand {
    fn folder<'a>(&'a mut self, target: &TargetFolder, path: &Arc<str>) -> io::Result<&'a OwnedFd> {
        match &mut self.last {
            Some((held, _)) if held == path => {}
            other => *other = Some((Arc::clone(path), target.folder(path)?)),
        }
        self.last.as_ref().map(|(_, folder)| folder).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Output {
    /// The path in the snapshot.
    pub(super) fn path(&self) -> String {
        if self.folder.is_empty() { self.name.to_string() } else { format!("{}/{}", self.folder, self.name) }
    }

    /// One piece more is to come.
    pub(super) fn expect_piece(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes a piece and, if it was the last, ends the file; says whether it did.
    pub(super) fn write(
        &self,
        target: &TargetFolder,
        hand: &mut Hand,
        start: u64,
        bytes: &[u8],
        sparse: bool,
    ) -> io::Result<bool> {
        match &self.kind {
            Kind::Device { file, direct } => {
                direct::write_at(file, || direct.as_ref(), bytes, start, &mut hand.buffer)?;
                Ok(self.is_last())
            }
            Kind::Symlink => {
                make_symlink(hand.folder(target, &self.folder)?.as_fd(), &self.name, bytes, &self.attributes)?;
                Ok(self.is_last())
            }
            Kind::File { is_made } => {
                let folder = hand.folder(target, &self.folder)?.as_fd();
                let file = {
                    let mut is_made = lock(is_made);
                    let file = if *is_made { open_file(folder, &self.name)? } else { create_file(folder, &self.name)? };
                    if !*is_made {
                        self.make_room(&file, bytes.len() as u64, sparse)?;
                    }
                    *is_made = true;
                    file
                };
                if sparse {
                    write_sparse(&file, start, bytes)?;
                } else {
                    // The handle is this hand's alone.
                    let turned = || direct::go_direct(&file, true).then_some(&file);
                    direct::write_at(&file, turned, bytes, start, &mut hand.buffer)?;
                }
                self.end_with(&file)
            }
        }
    }

    /// Gives a new file its length when its first piece is not all of it. Space that is kept now is found in one stretch, and
    /// a disk that is too small says so before it is full of the beginning.
    fn make_room(&self, file: &File, first: u64, sparse: bool) -> io::Result<()> {
        if sparse {
            return file.set_len(self.size);
        }
        if first == self.size {
            return Ok(());
        }
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, self.size) {
            Err(Errno::NOSPC | Errno::DQUOT) => Err(Errno::NOSPC.into()),
            // Not every file system can.
            Err(_) => file.set_len(self.size),
            Ok(()) => Ok(()),
        }
    }

    /// The walk has counted all pieces; ends the file if they all came before. Says whether it did.
    pub(super) fn seal(&self, target: &TargetFolder, hand: &mut Hand) -> io::Result<bool> {
        if !self.is_last() {
            return Ok(false);
        }
        if let Kind::File { is_made } = &self.kind {
            let folder = hand.folder(target, &self.folder)?.as_fd();
            let is_made = *lock(is_made);
            let file = if is_made { open_file(folder, &self.name)? } else { create_file(folder, &self.name)? };
            set_attributes(file.as_fd(), &self.attributes)?;
        }
        Ok(true)
    }

    fn is_last(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn end_with(&self, file: &File) -> io::Result<bool> {
        let is_last = self.is_last();
        if is_last {
            set_attributes(file.as_fd(), &self.attributes)?;
        }
        Ok(is_last)
    }
}

/// Writes all but the blocks that are zero; the file must have none of its own there.
fn write_sparse(file: &File, start: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    let mut position = 0;
    while position < bytes.len() {
        let block = &bytes[position..bytes.len().min(position + BLOCK)];
        if block.iter().all(|byte| *byte == 0) {
            file.write_all_at(&bytes[written..position], start + written as u64)?;
            written = position + block.len();
        }
        position += block.len();
    }
    file.write_all_at(&bytes[written..], start + written as u64)
}

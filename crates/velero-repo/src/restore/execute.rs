//! Fetches and writes the pieces of a window, with several hands.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use bytes::{Bytes, BytesMut};

use super::output::Hand;
use super::plan::{Fetch, coalesce, order};
use super::target::{TargetFolder, set_attributes};
use super::walk::{PieceJob, Window};
use super::{Counters, RestoreOptions};
use crate::index::ContentEntry;
use crate::lock;
use crate::object::ContentSource as _;
use crate::parallel::Budget;
use crate::repository::open_content;
use crate::store::get_exactly;
use crate::{Error, Repository, Result, compression};

/// How many bytes all hands hold together: those of packs, and those that come out of compressed contents.
const MOST_HELD: u64 = 64 << 20;

pub(super) struct Executor<'a> {
    pub(super) repository: &'a Repository,
    pub(super) target: &'a TargetFolder,
    pub(super) options: &'a RestoreOptions,
    pub(super) counters: &'a Counters,
}

impl Executor<'_> {
    /// Writes everything of a window, then ends the folders it finishes.
    pub(super) fn run(&self, mut window: Window) -> Result<()> {
        window.pieces.sort_unstable_by_key(|piece| (order(&piece.entry), piece.start));
        let fetches = coalesce(window.pieces.iter().map(|piece| &piece.entry));
        let next = AtomicUsize::new(0);
        let (failure, memory) = (Mutex::new(None), Budget::new(MOST_HELD));
        let hands = self.options.parallel.clamp(1, fetches.len().max(1));
        thread::scope(|scope| {
            for _ in 0..hands {
                scope.spawn(|| {
                    let mut hand = Hand::default();
                    while let Some(fetch) = fetches.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let entries = window.pieces[fetch.pieces.clone()].iter().map(|piece| &piece.entry);
                        let _share = memory.take(fetch.len() as u64 + entries.map(unpacked).max().unwrap_or(0));
                        if let Err(error) = self.work(&window, fetch, &mut hand) {
                            lock(&failure).get_or_insert(error);
                            // Nobody takes another.
                            next.store(fetches.len(), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        for (path, attributes) in &window.finished {
            let ended = self.target.folder(path).and_then(|folder| {
                use std::os::fd::AsFd as _;
                set_attributes(folder.as_fd(), attributes)
            });
            ended.map_err(|error| Error::file("set the attributes of", &**path, error))?;
        }
        Ok(())
    }

    fn work(&self, window: &Window, fetch: &Fetch, hand: &mut Hand) -> Result<()> {
        if self.options.cancel.is_cancelled() {
            return Err(Error::Canceled);
        }
        let pieces = &window.pieces[fetch.pieces.clone()];
        let pack = window.loaded.index.pack_name(fetch.pack);
        let path = pieces.first().map(|piece| piece.output.path()).unwrap_or_default();
        let mut fetched = match get_exactly(self.repository.store().as_ref(), pack, fetch.start, fetch.len()) {
            // Maintenance has moved the contents since the window was planned.
            Err(Error::BlobNotFound { .. }) => None,
            fetched => Some(BytesMut::from(fetched.map_err(|error| error.at(&path))?)),
        };
        let mut position = fetch.start;
        for same in
            pieces.chunk_by(|one, other| one.entry.id == other.entry.id && one.entry.offset == other.entry.offset)
        {
            let Some(PieceJob { entry, output, .. }) = same.first() else { continue };
            let content = match &mut fetched {
                None => self.repository.content(entry.id),
                Some(fetched) => {
                    // A fetch spans all of its contents; those that overlap are fetched apart.
                    let _ = fetched.split_to((u64::from(entry.offset) - position) as usize);
                    let sealed = fetched.split_to(entry.packed_length as usize);
                    position = u64::from(entry.offset) + u64::from(entry.packed_length);
                    open_content(&self.repository.format().sealer, entry, pack, sealed)
                }
            };
            let content = content.map_err(|error| error.at(&output.path()))?;
            same.iter().try_for_each(|piece| self.write(piece, &content, hand))?;
        }
        Ok(())
    }

    fn write(&self, piece: &PieceJob, content: &Bytes, hand: &mut Hand) -> Result<()> {
        if self.options.cancel.is_cancelled() {
            return Err(Error::Canceled);
        }
        let output = &piece.output;
        let written = output.write(self.target, hand, piece.start, content, self.options.sparse);
        let is_done = written.map_err(|error| Error::file("write", output.path(), error))?;
        self.counters.bytes(content.len() as u64);
        if is_done {
            self.counters.files(1);
        }
        Ok(())
    }
}

/// How many bytes a content takes beside those that are fetched.
fn unpacked(entry: &ContentEntry) -> u64 {
    if entry.compression == compression::NONE { 0 } else { u64::from(entry.original_length) }
}

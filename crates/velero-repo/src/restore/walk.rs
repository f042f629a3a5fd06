//! Walks through a snapshot and plans its pieces, a window of them at a time.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use super::output::{Hand, Kind, Output};
use super::target::{Attributes, TargetFolder, make_folder};
use super::{Counters, RestoreOptions};
use crate::directory::{DirectoryEntry, EntryKind, for_each_entry};
use crate::entry_path::{check_name, join};
use crate::index::ContentEntry;
use crate::object::for_each_piece;
use crate::repository::LoadedIndex;
use crate::subfolders::{SeenNames, Subfolders};
use crate::{Error, ObjectId, Repository, Result};

/// How many pieces are planned together. More save requests, fewer save memory.
const MOST_PIECES: usize = 16 << 10;
/// The longest target of a link.
const MOST_TARGET: u64 = 4096;

/// A content and the place it goes to.
pub(super) struct PieceJob {
    pub(super) entry: ContentEntry,
    pub(super) start: u64,
    pub(super) output: Arc<Output>,
}

/// A part of the restore that is worked on together.
pub(super) struct Window {
    /// The index the entries of the pieces come from.
    pub(super) loaded: Arc<LoadedIndex>,
    pub(super) pieces: Vec<PieceJob>,
    /// Folders of which everything is in this or earlier windows, children first.
    pub(super) finished: Vec<(Arc<str>, Attributes)>,
}

pub(super) struct Walk<'a> {
    pub(super) repository: &'a Repository,
    pub(super) target: &'a TargetFolder,
    pub(super) options: &'a RestoreOptions,
    pub(super) counters: &'a Counters,
    /// Where full windows go; an error when nobody takes them any more.
    pub(super) send: &'a mut dyn FnMut(Window) -> Result<()>,
    pub(super) window: Window,
    pub(super) hand: Hand,
}

/// A folder whose children are still walked through.
struct Level {
    path: Arc<str>,
    attributes: Attributes,
    left: Subfolders,
}

impl Walk<'_> {
    /// Walks through a whole tree.
    pub(super) fn tree(&mut self, root: &DirectoryEntry) -> Result<()> {
        if root.kind != EntryKind::Directory {
            return Err(Error::Refused {
                path: root.name.clone(),
                problem: "the root of the snapshot is no directory".to_owned(),
            });
        }
        let mut levels = vec![self.enter(Arc::from(""), root)?];
        while let Some(level) = levels.last_mut() {
            if let Some(child) = level.left.next()? {
                let path = join(&level.path, &child.name);
                let entered = self.enter(Arc::clone(&path), &child).map_err(|error| error.at(&path))?;
                levels.push(entered);
            } else if let Some(level) = levels.pop() {
                self.window.finished.push((level.path, level.attributes));
                self.send_if_full()?;
            }
        }
        self.send_window()
    }

    /// Reads one folder: makes its folders, plans its files.
    fn enter(&mut self, path: Arc<str>, entry: &DirectoryEntry) -> Result<Level> {
        let (mut names, mut left) = (SeenNames::default(), Subfolders::default());
        let folder = self.target.folder(&path).map_err(|error| Error::file("open", &*path, error))?;
        for_each_entry(self.repository, entry.object, |child| {
            if self.options.cancel.is_cancelled() {
                return Err(Error::Canceled);
            }
            let refused = |problem: &str| Error::Refused {
                path: join(&path, &child.name).to_string(),
                problem: problem.to_owned(),
            };
            check_name(&child.name).map_err(refused)?;
            if !names.insert(&child.name) {
                return Err(refused("its directory has two entries of this name"));
            }
            if child.kind == EntryKind::Directory {
                make_folder(folder.as_fd(), &child.name)
                    .map_err(|error| Error::file("make", &*join(&path, &child.name), error))?;
                return left.push(child);
            }
            let full = join(&path, &child.name);
            self.plan(&path, &child).map_err(|error| error.at(&full))
        })?;
        self.counters.directories(1);
        Ok(Level { path, attributes: Attributes::of(entry), left })
    }

    fn plan(&mut self, folder: &Arc<str>, entry: &DirectoryEntry) -> Result<()> {
        let kind = match entry.kind {
            EntryKind::Symlink if entry.size > MOST_TARGET => {
                return Err(Error::malformed("the link", format!("its target has {} bytes", entry.size)));
            }
            EntryKind::Symlink if entry.object.indirection > 0 => {
                return Err(Error::malformed("the link", "its target is in pieces"));
            }
            EntryKind::Symlink => Kind::Symlink,
            _ => Kind::File { is_made: Mutex::new(false) },
        };
        let output = Output {
            folder: Arc::clone(folder),
            name: entry.name.as_str().into(),
            size: entry.size,
            attributes: Attributes::of(entry),
            kind,
            pending: AtomicU64::new(1),
        };
        self.pieces(&Arc::new(output), entry.object)
    }

    /// Plans all pieces of an output. Their lengths must add up to its size.
    pub(super) fn pieces(&mut self, output: &Arc<Output>, object: ObjectId) -> Result<()> {
        let repository = self.repository;
        let mut end = 0_u64;
        for_each_piece(repository, object, &mut |piece| {
            let found = self.window.loaded.index.find(piece.content)?;
            let entry = found.ok_or_else(|| Error::ContentNotFound { content: piece.content.to_string() })?;
            let length = u64::from(entry.original_length);
            if piece.length.is_some_and(|listed| listed != length) {
                return Err(Error::malformed(
                    format!("content {}", piece.content),
                    "it is not as long as its list says",
                ));
            }
            end = piece.start + length;
            if end > output.size {
                return Err(wrong_size(output.size, end));
            }
            // An empty file has one empty content, and a whole number of parts may end in one.
            if length == 0 && !matches!(output.kind, Kind::Symlink) {
                return Ok(());
            }
            output.expect_piece();
            self.window.pieces.push(PieceJob { entry, start: piece.start, output: Arc::clone(output) });
            self.send_if_full()
        })?;
        if end != output.size {
            return Err(wrong_size(output.size, end));
        }
        let sealed = output.seal(self.target, &mut self.hand);
        if sealed.map_err(|error| Error::file("write", output.path(), error))? {
            self.counters.files(1);
        }
        Ok(())
    }

    fn send_if_full(&mut self) -> Result<()> {
        if self.window.pieces.len() + self.window.finished.len() < MOST_PIECES { Ok(()) } else { self.send_window() }
    }

    pub(super) fn send_window(&mut self) -> Result<()> {
        let next = Window { loaded: self.repository.fresh_index()?, pieces: Vec::new(), finished: Vec::new() };
        (self.send)(std::mem::replace(&mut self.window, next))
    }
}

fn wrong_size(told: u64, found: u64) -> Error {
    Error::malformed("the entry", format!("it tells of {told} bytes and its content has {found}"))
}

//! Every directory and file of snapshots: what they say must fit together, and what they need must be readable.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;

use super::VerifyOptions;
use super::report::{Place, VerifyReport, ends_the_check};
use crate::bitmap::Bitmap;
use crate::content_id::ContentId;
use crate::directory::{DirectoryEntry, EntryKind, for_each_entry};
use crate::entry_path::{check_name, join};
use crate::index::Index;
use crate::manifest::Manifest;
use crate::object::{ContentSource, ObjectId, for_each_piece};
use crate::subfolders::{SeenNames, Subfolders};
use crate::{Error, Repository, Result};

/// Walks snapshots. A directory in which all is well is walked once.
pub(super) struct Trees<'a> {
    repository: &'a Repository,
    index: Arc<Index>,
    bad: &'a Bitmap,
    reached: RefCell<Bitmap>,
    clean: Bitmap,
    options: &'a VerifyOptions,
}

/// A directory whose files are checked and whose directories are not.
struct Level {
    path: Arc<str>,
    object: ObjectId,
    left: Subfolders,
    problems_before: u64,
}

impl<'a> Trees<'a> {
    pub(super) fn new(repository: &'a Repository, bad: &'a Bitmap, options: &'a VerifyOptions) -> Self {
        let index = repository.index().index.clone();
        let (reached, clean) = (RefCell::new(Bitmap::new(index.len())), Bitmap::new(index.len()));
        Self { repository, index, bad, reached, clean, options }
    }

    /// The contents that the snapshots need.
    pub(super) fn finish(self) -> Bitmap {
        self.reached.into_inner()
    }

    /// Walks a snapshot and lists what is wrong with it.
    pub(super) fn snapshot(&mut self, manifest: &Manifest, report: &mut VerifyReport) -> Result<()> {
        report.checked.snapshots += 1;
        let root = manifest.snapshot().and_then(|snapshot| {
            // One that was given up may have no root; it needs nothing.
            if snapshot.incomplete.is_empty() { snapshot.root().cloned().map(Some) } else { Ok(snapshot.root_entry) }
        });
        let (id, root) = (manifest.id.as_str(), root);
        match root {
            Ok(None) => Ok(()),
            Ok(Some(root)) if root.kind == EntryKind::Directory => self.tree(id, &root, report),
            Ok(Some(root)) => note(report, id, "", self.file(&root)),
            Err(error) => note(report, id, "", Err(error)),
        }
    }

    fn tree(&mut self, id: &str, root: &DirectoryEntry, report: &mut VerifyReport) -> Result<()> {
        // The one file of a block volume is named by the path of its device.
        let is_device = root.name.starts_with('/');
        let mut levels = Vec::new();
        levels.extend(self.enter(id, Arc::from(""), root, is_device, report)?);
        while let Some(level) = levels.last_mut() {
            if let Some(child) = level.left.next()? {
                let path = join(&level.path, &child.name);
                let entered = self.enter(id, path, &child, false, report)?;
                levels.extend(entered);
            } else if let Some(level) = levels.pop() {
                let is_clean = report.count() == level.problems_before && level.object.indirection == 0;
                if let (true, Some((position, _))) = (is_clean, self.index.find_at(level.object.content)?) {
                    self.clean.insert(position);
                }
            }
        }
        Ok(())
    }

    /// Checks the files of a directory; `None` when all in it is known to be well.
    fn enter(
        &self,
        id: &str,
        path: Arc<str>,
        entry: &DirectoryEntry,
        is_device: bool,
        report: &mut VerifyReport,
    ) -> Result<Option<Level>> {
        if self.options.cancel.is_cancelled() {
            return Err(Error::Canceled);
        }
        let position = self.index.find_at(entry.object.content)?.map(|(position, _)| position);
        if entry.object.indirection == 0 && position.is_some_and(|position| self.clean.contains(position)) {
            return Ok(None);
        }
        report.checked.directories += 1;
        let problems_before = report.count();
        let (mut names, mut left) = (SeenNames::default(), Subfolders::default());
        let walked = for_each_entry(self, entry.object, |child| {
            let full = join(&path, &child.name);
            let is_named = if is_device { Ok(()) } else { check_name(&child.name) };
            let is_named = is_named.and_then(|()| {
                if names.insert(&child.name) { Ok(()) } else { Err("its directory has two entries of this name") }
            });
            if let Err(problem) = is_named {
                report.add(Place::File { snapshot: id.to_owned(), path: full.to_string() }, problem);
            }
            if child.kind == EntryKind::Directory {
                return left.push(child);
            }
            report.checked.files += 1;
            note(report, id, &full, self.file(&child))
        });
        note(report, id, &path, walked)?;
        Ok(Some(Level { path, object: entry.object, left, problems_before }))
    }

    /// Whether all pieces of a file are there, readable, and together as long as it.
    fn file(&self, entry: &DirectoryEntry) -> Result<()> {
        let mut end = 0;
        for_each_piece(self, entry.object, &mut |piece| {
            let (position, found) = self.reach(piece.content)?;
            let length = u64::from(found.1);
            if self.bad.contains(position) {
                let pack = self.index.pack_name(found.0).to_owned();
                let problem = "it cannot be read".to_owned();
                return Err(Error::DamagedContent { content: piece.content.to_string(), pack, problem });
            }
            if piece.length.is_some_and(|listed| listed != length) {
                let what = format!("content {}", piece.content);
                return Err(Error::malformed(what, "it is not as long as its list says"));
            }
            end = piece.start + length;
            Ok(())
        })?;
        if end == entry.size {
            return Ok(());
        }
        Err(Error::malformed("the entry", format!("it tells of {} bytes and its content has {end}", entry.size)))
    }

    /// The position of a content that is needed, with its pack and length.
    fn reach(&self, id: ContentId) -> Result<(u32, (u32, u32))> {
        let found = self.index.find_at(id)?;
        let (position, entry) = found.ok_or_else(|| Error::ContentNotFound { content: id.to_string() })?;
        self.reached.borrow_mut().insert(position);
        Ok((position, (entry.pack, entry.original_length)))
    }
}

impl ContentSource for Trees<'_> {
    /// From the index that was opened: another one would have other positions.
    fn content(&self, id: ContentId) -> Result<Bytes> {
        self.reach(id)?;
        let entry = self.index.find(id)?.ok_or_else(|| Error::ContentNotFound { content: id.to_string() })?;
        self.repository.content_of(&self.index, &entry)
    }
}

/// Lists what is wrong at a path.
fn note(report: &mut VerifyReport, id: &str, path: &str, outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if ends_the_check(&error) => Err(error),
        Err(error) => {
            report.add(Place::File { snapshot: id.to_owned(), path: path.to_owned() }, error.to_string());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

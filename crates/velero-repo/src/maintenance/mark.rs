//! Finds the contents that snapshots need.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::bitmap::Bitmap;
use crate::content_id::ContentId;
use crate::directory::{DirectoryEntry, EntryKind, for_each_entry};
use crate::index::Index;
use crate::object::{ContentSource, ObjectId, for_each_piece};
use crate::subfolders::Subfolders;
use crate::{Error, Repository, Result};

/// Marks what is read through it: the contents of directories and of lists, and the pieces of files.
pub(crate) struct Marker<'a> {
    repository: &'a Repository,
    index: Arc<Index>,
    marked: RefCell<Bitmap>,
    /// Directories of one content that were walked, by position, and the few others.
    walked: Bitmap,
    walked_lists: HashSet<ObjectId>,
    cancel: &'a CancellationToken,
}

impl<'a> Marker<'a> {
    /// Nothing is marked; positions are those of the index.
    pub(crate) fn new(repository: &'a Repository, index: Arc<Index>, cancel: &'a CancellationToken) -> Self {
        let (marked, walked) = (RefCell::new(Bitmap::new(index.len())), Bitmap::new(index.len()));
        Self { repository, index, marked, walked, walked_lists: HashSet::new(), cancel }
    }

    fn mark(&self, id: ContentId) -> Result<u32> {
        let found = self.index.find_at(id)?;
        let (position, _) = found.ok_or_else(|| Error::ContentNotFound { content: id.to_string() })?;
        self.marked.borrow_mut().insert(position);
        Ok(position)
    }

    fn is_new(&mut self, directory: ObjectId) -> Result<bool> {
        let position = self.mark(directory.content)?;
        Ok(match directory.indirection {
            0 => self.walked.insert(position),
            _ => self.walked_lists.insert(directory),
        })
    }

    fn file(&self, object: ObjectId) -> Result<()> {
        for_each_piece(self, object, &mut |piece| self.mark(piece.content).map(|_| ()))
    }

    /// Marks a whole tree. A directory that was walked before is not walked again.
    pub(crate) fn tree(&mut self, root: &DirectoryEntry) -> Result<()> {
        if root.kind != EntryKind::Directory {
            return self.file(root.object);
        }
        let mut levels = vec![(String::new(), self.enter("", root.object)?)];
        while let Some((path, left)) = levels.last_mut() {
            if let Some(child) = left.next()? {
                let below = format!("{path}/{}", child.name);
                let left = self.enter(&below, child.object)?;
                levels.push((below, left));
            } else {
                levels.pop();
            }
        }
        Ok(())
    }

    /// Marks the files of a directory, and gives its directories.
    fn enter(&mut self, path: &str, directory: ObjectId) -> Result<Subfolders> {
        let mut left = Subfolders::default();
        if self.cancel.is_cancelled() {
            return Err(Error::Canceled);
        }
        if !self.is_new(directory).map_err(|error| error.at(path))? {
            return Ok(left);
        }
        let walked = for_each_entry(&*self, directory, |entry| {
            if entry.kind == EntryKind::Directory {
                return left.push(entry);
            }
            self.file(entry.object).map_err(|error| error.at(&format!("{path}/{}", entry.name)))
        });
        walked.map_err(|error| error.at(path))?;
        Ok(left)
    }

    /// All that was marked.
    pub(crate) fn finish(self) -> Bitmap {
        self.marked.into_inner()
    }
}

impl ContentSource for Marker<'_> {
    fn content(&self, id: ContentId) -> Result<Bytes> {
        self.mark(id)?;
        self.repository.content(id)
    }
}

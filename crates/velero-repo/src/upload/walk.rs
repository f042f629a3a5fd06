//! Walks through the folder that is saved: decides about each name, and never waits for a file.

use std::collections::HashSet;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use super::file::FileProgress;
use super::hands::{FileJob, FileSource, Hands};
use super::ignore::{CACHE_SIGNATURE, CACHE_TAG, IGNORE_FILE, IgnoreRules};
use super::parent::{ParentFolder, is_unchanged};
use super::source::{self, Names};
use super::tree::{Folder, Slot};
use crate::content_id::ContentId;
use crate::directory::{DirectoryEntry, EntryKind, Mode};
use crate::object::ObjectId;
use crate::{Error, Result};

/// Kopia takes such names for its own and cannot save them.
const RESERVED: &[u8] = b".kopia-entry";
/// The longest file of patterns that is read.
const MOST_PATTERNS: u64 = 1 << 20;

/// One walk.
pub(super) struct Walk<'a> {
    pub(super) hands: &'a Hands<'a>,
    /// The patterns of the folders on the way down.
    pub(super) rules: Vec<IgnoreRules>,
}

/// A folder the walk is in.
struct Here<'a> {
    folder: &'a Arc<Folder>,
    handle: Arc<OwnedFd>,
    path: &'a str,
}

/// An entry whose attributes are not known yet.
pub(super) fn blank(name: String, kind: EntryKind) -> DirectoryEntry {
    DirectoryEntry {
        name,
        kind,
        mode: Mode(0),
        size: 0,
        mtime: jiff::Timestamp::UNIX_EPOCH,
        uid: 0,
        gid: 0,
        object: ObjectId::direct(ContentId::data([0; 16])),
        summary: None,
    }
}

fn at(path: &str, action: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::file(action, path, error)
}

impl Walk<'_> {
    /// Walks through an open folder and closes it.
    pub(super) fn folder(
        &mut self,
        folder: &Arc<Folder>,
        handle: OwnedFd,
        path: &str,
        before: Option<ObjectId>,
    ) -> Result<()> {
        let names = Names::list(&handle).map_err(at(path, "list"))?;
        let here = Here { folder, handle: Arc::new(handle), path };
        if self.is_cache(&here, &names)? {
            self.hands.counters.excluded_folder();
            return folder.close(self.hands.writer);
        }
        let rules = self.rules.len();
        if names.has_file(IGNORE_FILE) {
            self.rules.extend(read_rules(&here)?);
        }
        let repository = self.hands.writer.repository();
        let mut parent = before.and_then(|object| ParentFolder::open(repository, object));
        let mut damaged = HashSet::new();
        for index in 0..names.len() {
            self.hands.check()?;
            let (name, was_folder) = names.get(index);
            let (saved, is_damaged) = source::saved_name(name);
            if is_damaged && !damaged.insert(saved.clone()) {
                let problem = "two names that are not UTF-8 would be saved as one; rename one of them".to_owned();
                return Err(Error::NotSaved { path: join(path, &saved), problem });
            }
            if is_damaged {
                self.hands.counters.damaged_name(&join(path, &saved));
            }
            self.name(&here, name, saved, was_folder, parent.as_mut())?;
        }
        self.rules.truncate(rules);
        folder.close(self.hands.writer)
    }

    /// Whether a folder says of itself that it is a cache; such folders are saved empty.
    fn is_cache(&self, here: &Here<'_>, names: &Names) -> Result<bool> {
        if !names.has_file(CACHE_TAG) {
            return Ok(false);
        }
        let Ok((file, _)) = source::open_file(here.handle.as_fd(), CACHE_TAG.as_bytes()) else { return Ok(false) };
        let mut beginning = Vec::new();
        let read = file.take(CACHE_SIGNATURE.len() as u64).read_to_end(&mut beginning);
        read.map_err(at(&join(here.path, CACHE_TAG), "read"))?;
        Ok(beginning == CACHE_SIGNATURE)
    }

    fn name(
        &mut self,
        here: &Here<'_>,
        name: &[u8],
        saved: String,
        was_folder: bool,
        parent: Option<&mut ParentFolder<'_>>,
    ) -> Result<()> {
        let path = join(here.path, &saved);
        if name.ends_with(RESERVED) {
            let problem = "kopia keeps names that end in .kopia-entry for itself; rename it or leave it out".to_owned();
            return Err(Error::NotSaved { path, problem });
        }
        let before = parent.and_then(|parent| parent.find(was_folder, &saved));
        let Some(found) = source::look_at(here.handle.as_fd(), name).map_err(at(&path, "look at"))? else {
            return Ok(());
        };
        let Some(kind) = source::kind_of(&found) else { return Ok(()) };
        let mut entry = blank(saved, kind);
        source::describe(&mut entry, &found);
        if self.rules.iter().any(|rules| rules.ignore(&path, kind == EntryKind::Directory)) {
            self.hands.counters.excluded(&entry);
            return Ok(());
        }
        if kind == EntryKind::Directory {
            let handle = source::open_folder(here.handle.as_fd(), name).map_err(at(&path, "open"))?;
            let before = before.filter(|before| before.kind == EntryKind::Directory).map(|before| before.object);
            return self.below(here, entry, handle, &path, before);
        }
        let unchanged = before.filter(|before| is_unchanged(before, &entry));
        if let Some(before) = unchanged.filter(|before| self.is_known(before.object)) {
            self.hands.counters.cached_file(entry.size);
            entry.object = before.object;
            return self.done(here, entry);
        }
        match kind {
            EntryKind::Symlink => {
                let target = source::read_link(here.handle.as_fd(), name).map_err(at(&path, "read"))?;
                entry.size = target.len() as u64;
                entry.object = ObjectId::direct(self.hands.writer.write(None, &target, false)?);
                self.hands.counters.saved_link();
                self.done(here, entry)
            }
            _ => self.file(here, name, entry, path),
        }
    }

    /// A parent is not believed blindly: what it names must be in the index.
    fn is_known(&self, object: ObjectId) -> bool {
        matches!(self.hands.writer.repository().find(object.content), Ok(Some(_)))
    }

    fn stopped(&self) -> impl Fn() -> bool {
        || self.hands.is_stopped()
    }

    fn done(&self, here: &Here<'_>, entry: DirectoryEntry) -> Result<()> {
        let number = here.folder.place(|_| Slot::Done(Some(Box::new(entry))), &self.stopped())?;
        // What waits before it is written first.
        here.folder.moved_on(self.hands.writer, number)
    }

    fn below(
        &mut self,
        here: &Here<'_>,
        entry: DirectoryEntry,
        handle: OwnedFd,
        path: &str,
        before: Option<ObjectId>,
    ) -> Result<()> {
        let mut folder = None;
        let above = Arc::clone(here.folder);
        let splitter = self.hands.splitter;
        let stopped = self.stopped();
        here.folder.place(
            |number| {
                let made = Folder::new(Some((above, number)), entry, splitter);
                folder = Some(Arc::clone(&made));
                Slot::Folder(made)
            },
            &stopped,
        )?;
        drop(stopped);
        match folder {
            Some(folder) => self.folder(&folder, handle, path, before),
            None => Ok(()),
        }
    }

    fn file(&self, here: &Here<'_>, name: &[u8], entry: DirectoryEntry, path: String) -> Result<()> {
        let progress = Arc::new(FileProgress::new(entry, self.hands.splitter));
        let number = here.folder.place(|_| Slot::File(Arc::clone(&progress)), &self.stopped())?;
        let source = FileSource::In(Arc::clone(&here.handle), name.into());
        self.hands.give_file(FileJob { folder: Arc::clone(here.folder), number, progress, path, source })
    }
}

fn read_rules(here: &Here<'_>) -> Result<Option<IgnoreRules>> {
    let path = join(here.path, IGNORE_FILE);
    let found = source::look_at(here.handle.as_fd(), IGNORE_FILE.as_bytes()).map_err(at(&path, "look at"))?;
    if found.is_none_or(|found| source::kind_of(&found) != Some(EntryKind::File)) {
        return Ok(None);
    }
    let (file, _) = source::open_file(here.handle.as_fd(), IGNORE_FILE.as_bytes()).map_err(at(&path, "open"))?;
    let mut text = Vec::new();
    file.take(MOST_PATTERNS).read_to_end(&mut text).map_err(at(&path, "read"))?;
    let parsed = IgnoreRules::parse(here.path, &String::from_utf8_lossy(&text));
    parsed.map(Some).map_err(|problem| Error::NotSaved { path, problem: problem.to_string() })
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

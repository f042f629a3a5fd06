//! Finds the entries of a snapshot by path, so that a person can get at one file.

use crate::directory::{DirectoryEntry, EntryKind, for_each_entry};
use crate::object::ContentSource;
use crate::{Error, Result};

/// The entry at a path below the root. Empty parts and `.` mean nothing; links are not followed.
pub fn find_entry(source: &dyn ContentSource, root: &DirectoryEntry, path: &str) -> Result<DirectoryEntry> {
    let mut found = root.clone();
    for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
        let missing = || Error::PathNotFound { path: path.to_owned(), name: name.to_owned() };
        if found.kind != EntryKind::Directory {
            return Err(missing());
        }
        let mut next = None;
        for_each_entry(source, found.object, |entry| {
            if entry.name == name {
                next = Some(entry);
            }
            Ok(())
        })?;
        found = next.ok_or_else(missing)?;
    }
    Ok(found)
}

/// The entries of a folder in order, or the entry itself where it is none.
pub fn list_entry(
    source: &dyn ContentSource,
    entry: &DirectoryEntry,
    visit: &mut dyn FnMut(DirectoryEntry) -> Result<()>,
) -> Result<()> {
    if entry.kind == EntryKind::Directory { for_each_entry(source, entry.object, visit) } else { visit(entry.clone()) }
}

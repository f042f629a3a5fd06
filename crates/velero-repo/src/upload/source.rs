//! The folder that is saved. Every step goes through handles of folders and none follows a symbolic link.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode as RawMode, OFlags, Stat};
use rustix::io::Errno;

use crate::directory::{DirectoryEntry, EntryKind, Mode};

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// Opens the folder that is saved; its own path may lead through links.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY, RawMode::empty())?)
}

/// Opens a folder in a folder.
pub(super) fn open_folder(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    Ok(fs::openat(parent, name, FOLDER, RawMode::empty())?)
}

/// Opens a file in a folder, and nothing else: what is a pipe by now is refused without waiting for its writer.
pub(super) fn open_file(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<(File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::openat(parent, name, flags, RawMode::empty())?;
    let found = fs::fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it was a file and is none any more"));
    }
    Ok((File::from(file), found))
}

/// What a name is; `None` when it is gone.
pub(super) fn look_at(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Stat>> {
    match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Where a symbolic link leads.
pub(super) fn read_link(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(fs::readlinkat(parent, name, Vec::new())?.into_bytes())
}

/// What a snapshot says about something, without its name and object; `None` for what is never saved.
pub(super) fn kind_of(found: &Stat) -> Option<EntryKind> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Some(EntryKind::File),
        FileType::Directory => Some(EntryKind::Directory),
        FileType::Symlink => Some(EntryKind::Symlink),
        _ => None,
    }
}

/// Sets owner, permissions, size and time of an entry as they are on disk.
pub(super) fn describe(entry: &mut DirectoryEntry, found: &Stat) {
    entry.mode = Mode(found.st_mode & 0o7777);
    entry.mtime = modified(found);
    (entry.uid, entry.gid) = (found.st_uid, found.st_gid);
    entry.size = if entry.kind == EntryKind::Directory { 0 } else { u64::try_from(found.st_size).unwrap_or(0) };
}

pub(super) fn modified(found: &Stat) -> Timestamp {
    // Nanoseconds are below a second; a time beyond the years we can write is that of the start.
    Timestamp::new(found.st_mtime, found.st_mtime_nsec as i32).unwrap_or_default()
}

/// The names in a folder: folders first, each by their bytes. Compact, because a folder can have a million of them.
#[derive(Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    rows: Vec<Row>,
}

struct Row {
    offset: u32,
    length: u16,
    is_folder: bool,
}

impl Names {
    /// Lists a folder.
    pub(super) fn list(folder: &OwnedFd) -> io::Result<Self> {
        let mut names = Self::default();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let is_folder = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => look_at(folder.as_fd(), name)?
                    .is_some_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory),
                _ => false,
            };
            let offset = u32::try_from(names.bytes.len()).map_err(|_| io::Error::other("it has too many names"))?;
            // No file system has names of more than 255 bytes.
            names.rows.push(Row { offset, length: name.len() as u16, is_folder });
            names.bytes.extend_from_slice(name);
        }
        let bytes = &names.bytes;
        let name = |row: &Row| &bytes[row.offset as usize..][..usize::from(row.length)];
        names.rows.sort_unstable_by(|one, other| (!one.is_folder, name(one)).cmp(&(!other.is_folder, name(other))));
        Ok(names)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// A name, and whether it was that of a folder.
    pub(super) fn get(&self, index: usize) -> (&[u8], bool) {
        let row = &self.rows[index];
        (&self.bytes[row.offset as usize..][..usize::from(row.length)], row.is_folder)
    }

    pub(super) fn has_file(&self, name: &str) -> bool {
        let key = (true, name.as_bytes());
        let found = self.rows.binary_search_by(|row| {
            let held = &self.bytes[row.offset as usize..][..usize::from(row.length)];
            (!row.is_folder, held).cmp(&key)
        });
        found.is_ok()
    }
}

/// A name as it is saved: bytes that are not UTF-8 become U+FFFD each, as kopia has it. Also whether any were.
pub(super) fn saved_name(mut name: &[u8]) -> (String, bool) {
    let mut saved = String::with_capacity(name.len());
    let mut damaged = false;
    loop {
        match str::from_utf8(name) {
            Ok(rest) => {
                saved.push_str(rest);
                return (saved, damaged);
            }
            Err(error) => {
                let (good, bad) = name.split_at(error.valid_up_to());
                saved.push_str(str::from_utf8(good).unwrap_or_default());
                saved.push('\u{fffd}');
                damaged = true;
                name = &bad[1..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_that_is_not_text_is_replaced_for_itself() {
        assert_eq!(saved_name("ünï".as_bytes()), ("ünï".to_owned(), false));
        assert_eq!(saved_name(b"a\xff\xfeb\xe2\x98"), ("a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}".to_owned(), true));
    }

    #[test]
    fn names_come_in_the_order_of_a_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b", "Z", "é", ".x"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("y")).unwrap();
        let names = Names::list(&open_root(folder.path()).unwrap()).unwrap();
        let all: Vec<_> = (0..names.len()).map(|index| str::from_utf8(names.get(index).0).unwrap()).collect();
        assert_eq!(all, ["y", ".x", "Z", "b", "é"]);
        assert!(names.has_file("Z") && !names.has_file("y"));
    }
}

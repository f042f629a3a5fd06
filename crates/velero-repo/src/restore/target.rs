//! The folder that is restored into. Every step goes through handles of folders and none follows a symbolic link, so that
//! nothing outside the folder can be touched, whatever lies in it or changes in it meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use crate::directory::DirectoryEntry;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);
/// The system takes paths of at most 4,096 bytes; longer ones are walked in parts.
const MOST_PATH: usize = 3000;

/// An open folder.
pub(super) struct TargetFolder {
    root: OwnedFd,
}

/// Owner, permissions and time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: Timespec,
}

impl Attributes {
    pub(super) fn of(entry: &DirectoryEntry) -> Self {
        let nanoseconds = entry.mtime.as_nanosecond();
        let second = 1_000_000_000;
        // The range of years makes both fit.
        let mtime =
            Timespec { tv_sec: nanoseconds.div_euclid(second) as i64, tv_nsec: nanoseconds.rem_euclid(second) as i64 };
        Self { mode: entry.mode.0, uid: entry.uid, gid: entry.gid, mtime }
    }

    fn times(&self) -> Timestamps {
        Timestamps { last_access: self.mtime, last_modification: self.mtime }
    }
}

/// Who is not root cannot give files away; the data is restored all the same.
fn allow_refusal(outcome: Result<(), Errno>) -> io::Result<()> {
    match outcome {
        Err(Errno::PERM | Errno::ACCESS) => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// Sets what an open file or folder is to have. The owner first: giving a file away clears bits of its mode.
pub(super) fn set_attributes(file: BorrowedFd<'_>, attributes: &Attributes) -> io::Result<()> {
    let held = fs::fstat(file)?;
    if (held.st_uid, held.st_gid) != (attributes.uid, attributes.gid) {
        let owner = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
        allow_refusal(fs::fchown(file, Some(owner.0), Some(owner.1)))?;
    }
    allow_refusal(fs::fchmod(file, Mode::from_raw_mode(attributes.mode)))?;
    allow_refusal(fs::futimens(file, &attributes.times()))
}

impl TargetFolder {
    /// Opens the folder; its own path may lead through links.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        Ok(Self { root: fs::open(path, flags, Mode::empty())? })
    }

    /// Opens a folder below.
    pub(super) fn folder(&self, path: &str) -> io::Result<OwnedFd> {
        let mut folder = fs::openat(&self.root, ".", FOLDER, Mode::empty())?;
        let mut rest = path;
        while !rest.is_empty() {
            let (part, left) = split(rest);
            folder = open_below(folder.as_fd(), part)?;
            rest = left;
        }
        Ok(folder)
    }

    /// Writes everything to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(fs::syncfs(&self.root)?)
    }
}

/// The first folders of a path, as many as the system takes at once, and the rest.
fn split(path: &str) -> (&str, &str) {
    if path.len() <= MOST_PATH {
        return (path, "");
    }
    let slash = path.as_bytes()[..MOST_PATH].iter().rposition(|letter| *letter == b'/');
    slash.or_else(|| path.find('/')).map_or((path, ""), |slash| (&path[..slash], &path[slash + 1..]))
}

fn open_below(folder: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match fs::openat2(folder, path, FOLDER, Mode::empty(), resolve) {
        // Some sandboxes do not have the call; one folder after the other is the same.
        Err(Errno::NOSYS | Errno::PERM) => {
            let mut held = fs::openat(folder, ".", FOLDER, Mode::empty())?;
            for name in path.split('/') {
                held = fs::openat(&held, name, FOLDER, Mode::empty())?;
            }
            Ok(held)
        }
        opened => Ok(opened?),
    }
}

fn in_the_way(kind: FileType) -> io::Error {
    let what = match kind {
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::RegularFile => "a file",
        _ => "a device, pipe or socket",
    };
    io::Error::other(format!("{what} is in the way; remove it or restore into another folder"))
}

fn kind_of(folder: BorrowedFd<'_>, name: &str) -> Result<FileType, Errno> {
    fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|found| FileType::from_raw_mode(found.st_mode))
}

/// Makes a folder, or takes the one that is there.
pub(super) fn make_folder(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    match fs::mkdirat(parent, name, Mode::RWXU) {
        Err(Errno::EXIST) => match kind_of(parent, name)? {
            FileType::Directory => Ok(()),
            other => Err(in_the_way(other)),
        },
        made => Ok(made?),
    }
}

/// Makes a file, or takes and empties the one that is there. A link in its place is removed, never followed.
pub(super) fn create_file(parent: BorrowedFd<'_>, name: &str) -> io::Result<File> {
    // Without waiting: opening a pipe would wait for its reader.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let opened = match fs::openat(parent, name, flags, mode) {
        Err(Errno::LOOP) => {
            fs::unlinkat(parent, name, AtFlags::empty())?;
            fs::openat(parent, name, flags | OFlags::EXCL, mode)
        }
        Err(Errno::ISDIR | Errno::NXIO) => return Err(in_the_way(kind_of(parent, name)?)),
        opened => opened,
    }?;
    let found = fs::fstat(&opened)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile if found.st_size == 0 => {}
        FileType::RegularFile => fs::ftruncate(&opened, 0)?,
        other => return Err(in_the_way(other)),
    }
    Ok(File::from(opened))
}

/// Opens a file that [`create_file`] made.
pub(super) fn open_file(parent: BorrowedFd<'_>, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(fs::openat(parent, name, flags, Mode::empty())?))
}

/// Makes a symbolic link, or replaces the one that is there.
pub(super) fn make_symlink(parent: BorrowedFd<'_>, name: &str, to: &[u8], attributes: &Attributes) -> io::Result<()> {
    match fs::symlinkat(to, parent, name) {
        Err(Errno::EXIST) => match kind_of(parent, name)? {
            FileType::Symlink => {
                fs::unlinkat(parent, name, AtFlags::empty())?;
                fs::symlinkat(to, parent, name)?;
            }
            other => return Err(in_the_way(other)),
        },
        made => made?,
    }
    let owner = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
    allow_refusal(fs::chownat(parent, name, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW))?;
    allow_refusal(fs::utimensat(parent, name, &attributes.times(), AtFlags::SYMLINK_NOFOLLOW))
}

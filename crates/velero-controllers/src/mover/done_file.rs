//! The file that lets a restored pod start: its init container waits until each volume has one named by the restore.

use std::io;
use std::path::Path;

use rustix::fs::{self, Mode, OFlags};

/// The folder on a volume that is the restore's alone.
const MARKS: &str = ".velero";

/// Writes the file of a restore onto a volume. What the folder held before goes, for it is of restores long past. Nothing
/// that lies in the volume is followed: whoever filled it may have put links there that lead elsewhere.
pub(super) fn write(volume: &Path, restore: &str) -> io::Result<()> {
    let is_name = !restore.is_empty() && restore.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    if !is_name {
        return Err(io::Error::other(format!("{restore:?} is no UID of a restore")));
    }
    clear(volume)?;
    let folder = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root = fs::open(volume, folder, Mode::empty())?;
    fs::mkdirat(&root, MARKS, Mode::from_raw_mode(0o755))?;
    let marks = fs::openat(&root, MARKS, folder | OFlags::NOFOLLOW, Mode::empty())?;
    // The mask of the process must not hide it from the user of the init container.
    fs::fchmod(&marks, Mode::from_raw_mode(0o755))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::openat(&marks, restore, flags, Mode::from_raw_mode(0o644))?;
    fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
    fs::fsync(&file)?;
    Ok(())
}

/// Removes what is there: a folder with all in it, or whatever else has its name.
fn clear(volume: &Path) -> io::Result<()> {
    let marks = volume.join(MARKS);
    let removed = match std::fs::symlink_metadata(&marks) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(&marks),
        Ok(_) => std::fs::remove_file(&marks),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn the_file_is_the_only_one_and_readable_by_all() {
        let volume = tempfile::tempdir().unwrap();
        let marks = volume.path().join(MARKS);
        std::fs::create_dir_all(marks.join("deeper")).unwrap();
        std::fs::write(marks.join("old"), "").unwrap();
        write(volume.path(), "11111111-2222").unwrap();
        let names: Vec<_> = std::fs::read_dir(&marks).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["11111111-2222"]);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&marks), mode(&marks.join("11111111-2222"))), (0o755, 0o644));
    }

    #[test]
    fn a_link_in_the_volume_leads_nowhere() {
        let (volume, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("kept"), "").unwrap();
        symlink(outside.path(), volume.path().join(MARKS)).unwrap();
        write(volume.path(), "u1").unwrap();
        let names: Vec<_> =
            std::fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["kept"]);
        assert!(volume.path().join(MARKS).join("u1").is_file());
    }

    #[test]
    fn what_is_no_uid_is_no_file() {
        let volume = tempfile::tempdir().unwrap();
        for restore in ["", "..", "../up", "a/b"] {
            assert!(write(volume.path(), restore).is_err(), "{restore:?}");
        }
        assert!(!volume.path().join(MARKS).exists());
    }
}

//! How much there is to save, for who wants to know how far a backup is.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Dir, FileType};
use tokio_util::sync::CancellationToken;

use super::source;

/// How deep it looks: every level holds a folder open.
const MOST_LEVELS: usize = 200;

/// Adds up the bytes of all files below a folder while a backup runs. What cannot be looked at is not counted, and files
/// that a volume asks to leave out are: it is an estimate.
pub fn estimate_folder(folder: &Path, found: &AtomicU64, cancel: &CancellationToken) {
    if let Ok(root) = source::open_root(folder) {
        below(&root, found, cancel, MOST_LEVELS);
    }
}

fn below(folder: &OwnedFd, found: &AtomicU64, cancel: &CancellationToken, levels: usize) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.flatten() {
        if cancel.is_cancelled() {
            return;
        }
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let Ok(Some(stat)) = source::look_at(folder.as_fd(), name) else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                found.fetch_add(u64::try_from(stat.st_size).unwrap_or(0), Ordering::Relaxed);
            }
            FileType::Directory if levels > 0 => {
                if let Ok(inner) = source::open_folder(folder.as_fd(), name) {
                    below(&inner, found, cancel, levels - 1);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_at_any_depth_are_added_up_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("one"), [0; 10]).unwrap();
        std::fs::write(folder.path().join("a/b/two"), [0; 7]).unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("a/root")).unwrap();
        let found = AtomicU64::new(0);
        estimate_folder(folder.path(), &found, &CancellationToken::new());
        assert_eq!(found.into_inner(), 17);
    }
}

//! Block volumes on the node: the file of a volume becomes a loop device, which appears where kubelet wants it.
//!
//! The driver keeps no list of its devices: the kernel knows the file behind each. So that the name of that file says which
//! node the device is of, each node has links of its own to the files it uses; drivers that share a storage do not take the
//! devices of each other for theirs, and those of a node that is gone are found by its folder.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::mounts;
use crate::storage::is_plain;

/// Where the kernel tells of its block devices.
const KERNEL_DEVICES: &str = "/sys/block";

/// The loop devices of this node.
#[derive(Debug)]
pub(crate) struct Devices {
    folder: PathBuf,
    /// One call at a time: between the look for a device and its making, another call must not make one.
    turn: Mutex<()>,
}

impl Devices {
    /// Opens the folder with the links of this node, made where missing, and detaches what a driver that died left unused.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        for access in [Access::Write, Access::Read] {
            let folder = folder.join(access.folder());
            fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let devices = Self { folder: fs::canonicalize(folder)?, turn: Mutex::default() };
        for access in [Access::Write, Access::Read] {
            for entry in fs::read_dir(devices.folder.join(access.folder()))? {
                detach_unused(&entry?.path())?;
            }
        }
        Ok(devices)
    }

    /// Makes the device of a volume appear at a place.
    pub(crate) fn publish(&self, volume: &str, data: &Path, target: &Path, readonly: bool) -> Result<()> {
        let _turn = self.take_turn();
        let link = self.link(volume, if readonly { Access::Read } else { Access::Write });
        let device = attach(&link, data, readonly)?;
        // The device itself refuses to be written; a mount that does so would not keep anybody from it.
        mounts::bind(&device, target, false).inspect_err(|_| {
            let _ = detach_unused(&link);
        })
    }

    /// Takes what appears at a place away, and the devices of the volume that nobody uses any more; false where nothing was
    /// at the place.
    pub(crate) fn unpublish(&self, volume: &str, target: &Path) -> Result<bool> {
        let _turn = self.take_turn();
        let found = mounts::unbind(target)?;
        if is_plain(volume) {
            detach_unused(&self.link(volume, Access::Write))?;
            detach_unused(&self.link(volume, Access::Read))?;
        }
        Ok(found)
    }

    /// Brings what was written to the device of a volume, and is still in memory, into the file of the volume.
    pub(crate) fn flush(&self, volume: &str) -> Result<()> {
        let _turn = self.take_turn();
        for device in devices_of(&self.link(volume, Access::Write))? {
            let flush = || File::open(&device)?.sync_all();
            flush().with_context(|| format!("cannot flush {} of the volume {volume}", device.display()))?;
        }
        Ok(())
    }

    fn link(&self, volume: &str, access: Access) -> PathBuf {
        self.folder.join(access.folder()).join(volume)
    }

    fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the users of a device may do: a volume can have one device for each.
#[derive(Clone, Copy)]
enum Access {
    Write,
    Read,
}

impl Access {
    fn folder(self) -> &'static str {
        match self {
            Self::Write => "writable",
            Self::Read => "read-only",
        }
    }
}

/// The device of a file by that link, the one it has or a new one.
fn attach(link: &Path, data: &Path, readonly: bool) -> Result<PathBuf> {
    if let Some(device) = devices_of(link)?.into_iter().next() {
        return Ok(device);
    }
    remove_link(link)?;
    fs::hard_link(data, link).with_context(|| {
        let (from, to) = (link.display(), data.display());
        format!("cannot link {from} to {to}: the folder of the node and the storage must be on one file system")
    })?;
    let access: &[&str] = if readonly { &["--read-only"] } else { &[] };
    let shown = losetup(Command::new("losetup").args(["--find", "--show"]).args(access).arg(link))?;
    Ok(PathBuf::from(shown.trim()))
}

/// Detaches the devices of a link that are mounted nowhere; the link goes with the last.
fn detach_unused(link: &Path) -> Result<()> {
    let mut in_use = false;
    for device in devices_of(link)? {
        if mounts::is_bound(&device)? {
            in_use = true;
        } else {
            losetup(Command::new("losetup").arg("--detach").arg(device))?;
        }
    }
    if in_use { Ok(()) } else { remove_link(link) }
}

/// The devices behind which that file is. One that is detached as soon as its last user lets go of it does not count: it
/// would vanish under a new user.
fn devices_of(link: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(KERNEL_DEVICES).with_context(|| format!("cannot list {KERNEL_DEVICES}"))? {
        let entry = entry?;
        let says = |file: &str| fs::read_to_string(entry.path().join("loop").join(file)).unwrap_or_default();
        if Path::new(says("backing_file").trim_end_matches('\n')) == link && says("autoclear").trim() == "0" {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(found)
}

fn remove_link(link: &Path) -> Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", link.display()))
        }
        _ => Ok(()),
    }
}

fn losetup(command: &mut Command) -> Result<String> {
    let output = command.output().context("cannot start losetup: install util-linux")?;
    let reason = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", reason.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn file_of_a_volume(folder: &Path) -> PathBuf {
        let data = folder.join("data");
        File::create(&data).unwrap().set_len(1 << 20).unwrap();
        data
    }

    #[test]
    fn a_volume_has_one_device_for_each_access_and_what_nobody_uses_goes_with_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let data = file_of_a_volume(folder.path());
        let devices = Devices::open(folder.path()).unwrap();
        let (write, read) = (devices.link("volume", Access::Write), devices.link("volume", Access::Read));
        let writable = attach(&write, &data, false).unwrap();
        assert_eq!(attach(&write, &data, false).unwrap(), writable);
        let read_only = attach(&read, &data, true).unwrap();
        assert_ne!(read_only, writable);

        File::options().write(true).open(&writable).unwrap().write_all_at(b"written", 4096).unwrap();
        devices.flush("volume").unwrap();
        let mut found = [0; 7];
        File::open(&data).unwrap().read_exact_at(&mut found, 4096).unwrap();
        assert_eq!(&found, b"written");
        let refusal = File::options().write(true).open(&read_only).and_then(|file| file.write_all_at(b"no", 0));
        assert!(refusal.is_err(), "{} took what was written", read_only.display());

        drop(devices);
        Devices::open(folder.path()).unwrap();
        for link in [write, read] {
            assert_eq!(devices_of(&link).unwrap(), Vec::<PathBuf>::new());
            assert!(!link.exists(), "{} is left", link.display());
        }
    }

    #[test]
    fn a_volume_that_was_never_published_here_is_unpublished_and_flushed_without_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let devices = Devices::open(folder.path()).unwrap();
        devices.flush("volume").unwrap();
        assert!(!devices.unpublish("volume", &folder.path().join("target")).unwrap());
    }
}

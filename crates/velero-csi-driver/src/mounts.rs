//! Bind mounts: how the data of a volume appears where kubelet wants it.

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};

/// Mounts a folder or a device at a place, made where missing; a place that has a mount is left as it is.
pub(crate) fn bind(source: &Path, target: &Path, readonly: bool) -> Result<()> {
    let is_folder = fs::metadata(source).with_context(|| format!("cannot find {}", source.display()))?.is_dir();
    make_place(target, is_folder).with_context(|| format!("cannot create {}", target.display()))?;
    if is_mounted(target)? {
        return Ok(());
    }
    let mount = || {
        mount_bind(source, target)?;
        if readonly { mount_remount(target, MountFlags::BIND | MountFlags::RDONLY, "") } else { Ok(()) }
    };
    mount().with_context(|| format!("cannot mount {} at {}", source.display(), target.display())).inspect_err(|_| {
        let _ = unbind(target);
    })
}

/// A folder can only be mounted on a folder, and a device on a file.
fn make_place(target: &Path, is_folder: bool) -> Result<()> {
    if is_folder {
        return Ok(fs::create_dir_all(target)?);
    }
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    if !target.exists() {
        OpenOptions::new().write(true).create_new(true).open(target)?;
    }
    Ok(())
}

/// Takes the mount and its place away; false where there was none.
pub(crate) fn unbind(target: &Path) -> Result<bool> {
    if !target.exists() {
        return Ok(false);
    }
    if is_mounted(target)? {
        unmount(target, UnmountFlags::empty()).with_context(|| format!("cannot unmount {}", target.display()))?;
    }
    let removed = if target.is_dir() { fs::remove_dir(target) } else { fs::remove_file(target) };
    removed.with_context(|| format!("cannot remove {}", target.display()))?;
    Ok(true)
}

pub(crate) fn is_mounted(target: &Path) -> Result<bool> {
    let target = fs::canonicalize(target)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|place| Path::new(place) == target))
}

/// Whether a device is mounted anywhere but in the folder of devices.
pub(crate) fn is_bound(device: &Path) -> Result<bool> {
    Ok(has_mount_of(&fs::read_to_string("/proc/self/mountinfo")?, device))
}

/// A device that is mounted is the root of its mount: the file in the file system of devices.
fn has_mount_of(mounts: &str, device: &Path) -> bool {
    let Ok(root) = device.strip_prefix("/dev") else { return false };
    let roots = mounts.lines().filter_map(|line| line.split(' ').nth(3));
    roots.filter_map(|mounted| mounted.strip_prefix('/')).any(|mounted| Path::new(mounted) == root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_bound_when_a_mount_begins_with_it() {
        let mounts = "43 37 0:6 / /dev rw,relatime shared:2 - devtmpfs devtmpfs rw\n\
                      63 43 0:6 /loop1 /kubelet/publish/pod rw,relatime shared:9 - devtmpfs devtmpfs rw\n\
                      64 43 254:0 /var/loop3 /kubelet/pods/data rw,relatime - ext4 /dev/vda rw\n";
        for (device, wanted) in
            [("/dev/loop1", true), ("/dev/loop11", false), ("/dev/loop3", false), ("/dev/loop0", false)]
        {
            assert_eq!(has_mount_of(mounts, Path::new(device)), wanted, "{device}");
        }
    }
}

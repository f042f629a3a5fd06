//! Loop devices: they are the kernel's, so those of a machine outlive all its processes and mounts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::processes::{output_of, wait_until};

/// Where the kernel tells of its block devices.
const KERNEL_DEVICES: &str = "/sys/block";

/// The loop devices behind which there is a file of that folder, be it removed.
pub fn of_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(KERNEL_DEVICES).with_context(|| format!("cannot list {KERNEL_DEVICES}"))? {
        let entry = entry?;
        // What is attached to nothing, or is no loop device, has no such file.
        let Ok(backing_file) = fs::read_to_string(entry.path().join("loop/backing_file")) else { continue };
        if Path::new(backing_file.trim_end_matches('\n')).starts_with(folder) {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(found)
}

/// Detaches the loop devices of a folder, once nobody uses them any more.
pub(super) fn detach(folder: &Path) -> Result<()> {
    wait_until("the loop devices to be detached", Duration::from_secs(15), || {
        for device in of_folder(folder)? {
            // Kubelet keeps a device of a pod open by a loop device on top. The mount by which it knew the one below is
            // gone, and with it the name of the file: it is asked for by what lies below.
            for upper in on_top_of(&device)? {
                run(Command::new("losetup").arg("--detach").arg(upper))?;
            }
            run(Command::new("losetup").arg("--detach").arg(device))?;
        }
        let left = of_folder(folder)?;
        ensure!(left.is_empty(), "still attached to files in {}: {left:?}", folder.display());
        Ok(())
    })
}

fn on_top_of(device: &Path) -> Result<Vec<String>> {
    let mut list = Command::new("losetup");
    list.args(["--list", "--noheadings", "--output", "NAME", "--associated"]).arg(device);
    Ok(run(&mut list)?.lines().map(|name| name.trim().to_owned()).collect())
}

fn run(command: &mut Command) -> Result<String> {
    output_of(command).context("losetup failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attach(file: &Path) -> PathBuf {
        run(Command::new("losetup").args(["--find", "--show"]).arg(file)).unwrap().trim().into()
    }

    #[test]
    fn devices_of_a_folder_go_with_those_on_top_of_them_and_others_stay() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let [mine, other] = ["box", "box-2"].map(|name| {
            let folder = root.join(name);
            fs::create_dir(&folder).unwrap();
            fs::File::create(folder.join("data")).unwrap().set_len(1 << 20).unwrap();
            folder
        });
        let lower = attach(&mine.join("data"));
        let upper = attach(&lower);
        let others = attach(&other.join("data"));
        fs::remove_file(mine.join("data")).unwrap();
        assert_eq!(of_folder(&mine).unwrap(), [lower]);
        detach(&mine).unwrap();
        assert_eq!(of_folder(&mine).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(of_folder(&other).unwrap(), [others]);
        detach(&other).unwrap();
        let backing_file = Path::new(KERNEL_DEVICES).join(upper.file_name().unwrap()).join("loop/backing_file");
        let backing_file = fs::read_to_string(backing_file).unwrap_or_default();
        assert!(!backing_file.starts_with("/dev/loop"), "the device on top is still attached to {backing_file}");
    }
}

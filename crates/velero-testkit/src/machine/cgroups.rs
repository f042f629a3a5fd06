//! The control groups of a machine: one group of the same name in every hierarchy, so that kubelet's pods lie below it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::wait_until;

const ROOT: &str = "/sys/fs/cgroup";

fn hierarchies() -> Vec<PathBuf> {
    if Path::new(ROOT).join("cgroup.controllers").exists() {
        return vec![ROOT.into()];
    }
    let entries = fs::read_dir(ROOT).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.join("cgroup.procs").exists()).collect()
}

/// Makes the group in every hierarchy.
pub(super) fn create(name: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let group = hierarchy.join(name);
        fs::create_dir_all(&group).with_context(|| format!("cannot create the control group {}", group.display()))?;
        for setting in ["cpuset.mems", "cpuset.cpus"] {
            if let Ok(value) = fs::read_to_string(hierarchy.join(setting)) {
                let _ = fs::write(group.join(setting), value);
            }
        }
    }
    Ok(())
}

/// Removes the group and all below it; its processes must have ended.
pub(super) fn remove(name: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let group = hierarchy.join(name);
        wait_until("the control groups to empty", Duration::from_secs(15), || remove_tree(&group))?;
    }
    Ok(())
}

fn remove_tree(group: &Path) -> Result<()> {
    if !group.exists() {
        return Ok(());
    }
    for child in fs::read_dir(group)?.flatten().filter(|entry| entry.path().is_dir()) {
        remove_tree(&child.path())?;
    }
    fs::remove_dir(group).with_context(|| format!("cannot remove the control group {}", group.display()))
}

//! What this host looks like: its processes, mounts, namespaces, links, addresses and control groups.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

/// A picture of the host that can be compared with a later one.
#[derive(Debug, PartialEq, Eq)]
pub struct HostState {
    mounts: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    addresses: BTreeSet<String>,
    network_namespace_files: BTreeSet<String>,
    control_groups: BTreeSet<String>,
    box_processes: BTreeSet<String>,
    box_folders: BTreeSet<String>,
}

impl HostState {
    /// Takes the picture.
    pub fn now() -> Result<Self> {
        Ok(Self {
            mounts: fs::read_to_string("/proc/self/mounts")?.lines().map(str::to_owned).collect(),
            namespaces: namespaces(),
            addresses: addresses()?,
            network_namespace_files: names_in("/run/netns"),
            control_groups: control_groups(),
            box_processes: box_processes(),
            box_folders: names_in("/var/tmp/velero-boxes"),
        })
    }
}

fn names_in(folder: impl AsRef<Path>) -> BTreeSet<String> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn processes() -> impl Iterator<Item = String> {
    names_in("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Every network, mount and process namespace some process lives in.
fn namespaces() -> BTreeSet<String> {
    let links = processes().flat_map(|process| ["net", "mnt", "pid"].map(|kind| format!("/proc/{process}/ns/{kind}")));
    links.filter_map(|link| Some(fs::read_link(link).ok()?.display().to_string())).collect()
}

/// Every link with its addresses, without what changes by itself.
fn addresses() -> Result<BTreeSet<String>> {
    let output = Command::new("ip").args(["-oneline", "address"]).output()?;
    let links = names_in("/sys/class/net");
    let addresses = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| Some(line.split_once('\\')?.0.trim().to_owned()))
        .collect::<BTreeSet<String>>();
    Ok(addresses.into_iter().chain(links).collect())
}

fn control_groups() -> BTreeSet<String> {
    let roots = names_in("/sys/fs/cgroup").into_iter().map(|name| Path::new("/sys/fs/cgroup").join(name));
    roots
        .filter(|root| root.is_dir())
        .flat_map(|root| names_in(&root).into_iter().filter(|name| name.contains("velero-box")))
        .collect()
}

/// The command lines of processes that belong to a box, wherever they run.
fn box_processes() -> BTreeSet<String> {
    let lines = processes().filter_map(|process| fs::read(format!("/proc/{process}/cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains("velero-boxes") || line.contains("containerd-shim")).collect()
}

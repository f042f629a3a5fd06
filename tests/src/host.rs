//! What boxes make of this host, and what is left of it after they went. Only that is looked at: other boxes may come and
//! go meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use velero_testkit::machine::{Machine, cgroup_of, loop_devices};

/// The kinds of namespaces a box has of its own.
const NAMESPACES: [&str; 3] = ["net", "mnt", "pid"];

/// What some boxes made: their processes, and the namespaces these live in.
#[derive(Debug)]
pub struct Traces {
    names: Vec<String>,
    /// Numbers, each with the time the process started: a number is given again, later, to another process.
    processes: BTreeMap<u32, String>,
    namespaces: BTreeSet<String>,
}

impl Traces {
    /// Looks at boxes while they are there. A box may be half up.
    pub fn of(names: &[&str]) -> Result<Self> {
        let own: BTreeSet<String> = namespaces_of("self").collect();
        let children = children();
        let mut processes = BTreeMap::new();
        for name in names {
            let machine = Machine::find(name).with_context(|| format!("no box {name} is up"))?;
            let mut found = vec![machine.init()];
            while let Some(process) = found.pop() {
                if let Some(started) = started(process) {
                    processes.insert(process, started);
                }
                found.extend(children.get(&process).into_iter().flatten());
            }
        }
        let all = processes.keys().flat_map(|process| namespaces_of(&process.to_string()).collect::<Vec<_>>());
        let namespaces = all.filter(|namespace| !own.contains(namespace)).collect();
        Ok(Self { names: names.iter().map(|name| (*name).to_owned()).collect(), processes, namespaces })
    }

    /// Fails with what is left of the boxes.
    pub fn ensure_gone(&self) -> Result<()> {
        let mut left = self.processes_left();
        for name in &self.names {
            left.extend(folders_left(name));
            left.extend(mounts_left(name));
            left.extend(loop_devices_left(name)?);
        }
        let store_alone = Machine::names() == ["store"];
        left.extend(store_alone.then(|| "the store, which no box uses".to_owned()));
        ensure!(left.is_empty(), "left behind: {left:#?}");
        Ok(())
    }

    fn processes_left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for process in processes() {
            let is_ours = self.processes.get(&process).is_some_and(|then| started(process).as_ref() == Some(then));
            let lives_in_ours =
                namespaces_of(&process.to_string()).any(|namespace| self.namespaces.contains(&namespace));
            let command = command_line(process);
            let names_ours = self.names.iter().any(|name| command.contains(&state_below(name)));
            if is_ours || lives_in_ours || names_ours {
                left.push(format!("process {process}: {command}"));
            }
        }
        left
    }
}

/// The state folder and the control groups of a box.
fn folders_left(name: &str) -> Vec<String> {
    let state = Machine::state_root().join(name);
    let groups = names_in("/sys/fs/cgroup").into_iter().map(|root| Path::new("/sys/fs/cgroup").join(root));
    let groups = groups.chain([Path::new("/sys/fs/cgroup").to_owned()]).map(|root| root.join(cgroup_of(name)));
    groups.chain([state]).filter(|path| path.exists()).map(|path| path.display().to_string()).collect()
}

/// How paths below the state folder of a box begin.
fn state_below(name: &str) -> String {
    format!("{}/", Machine::state_root().join(name).display())
}

fn mounts_left(name: &str) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let ours = |line: &&str| line.contains(&state_below(name));
    mounts.lines().filter(ours).map(|line| format!("mount {line}")).collect()
}

/// What lies on top of a device keeps it attached: it is enough to look for those of the box's files.
fn loop_devices_left(name: &str) -> Result<Vec<String>> {
    let devices = loop_devices::of_folder(&Machine::state_root().join(name))?;
    Ok(devices.iter().map(|device| format!("loop device {}", device.display())).collect())
}

fn names_in(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    names_in("/proc").into_iter().filter_map(|name| name.parse().ok())
}

/// What the kernel says about a process: its fields after the name.
fn fields(process: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// When a process started; nothing where it has ended and only its parent has not looked yet.
fn started(process: u32) -> Option<String> {
    let fields = fields(process)?;
    if fields.first()? == "Z" { None } else { fields.into_iter().nth(19) }
}

/// The processes each process is the parent of.
fn children() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in processes() {
        if let Some(parent) = fields(process).and_then(|fields| fields.get(1)?.parse().ok()) {
            children.entry(parent).or_default().push(process);
        }
    }
    children
}

fn namespaces_of(process: &str) -> impl Iterator<Item = String> {
    let links = NAMESPACES.map(|kind| format!("/proc/{process}/ns/{kind}"));
    links.into_iter().filter_map(|link| Some(fs::read_link(link).ok()?.display().to_string()))
}

fn command_line(process: u32) -> String {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

//! A machine inside this machine: processes in a network, mount and process namespace of their own.
//!
//! The namespaces hang on one init process. Ending it ends every process, mount, link and address inside, whoever
//! started them and however they died; only control groups, loop devices and the state folder remain, and
//! [`Machine::destroy`] removes those. There is no route out: the only links are those made by [`links`].

mod cgroups;
pub mod links;
pub mod loop_devices;
mod ports;
mod processes;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

pub use processes::wait_until;

/// Names a set of machines that knows no other set: two work trees can test side by side, each in a network namespace of its own.
const SET: &str = "VELERO_BOXES";

/// What the first process of a machine does before it waits for the end: a `/run` and a `/var/log` of its own, mounts
/// that containers can share, the loopback device, and forwarding between its links.
const INIT_SCRIPT: &str = r#"
set -e
mount --make-rshared /
mount -t tmpfs tmpfs /run
mkdir -p /run/netns /run/lock "$STATE/log" "$STATE/logs"
mount --bind "$STATE/log" /var/log
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
touch "$STATE/ready"
exec tini -- sleep infinity
"#;

/// A machine: its name, its number (addresses and ports follow from it) and its init process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The name, unique on this host.
    pub name: String,
    /// The number, unique on this host; see [`Machine::host_port`].
    pub number: u8,
    init: u32,
    init_started: u64,
}

impl Machine {
    /// Makes a machine and starts its init process.
    pub fn create(name: &str, number: u8) -> Result<Self> {
        let state = Self::state_of(name);
        fs::create_dir_all(&state).with_context(|| format!("cannot create {}", state.display()))?;
        let _ = fs::remove_file(state.join("ready"));
        cgroups::create(&cgroup_of(name))?;
        let machine = Self::start_init(name, number, &state).inspect_err(|_| {
            let _ = cgroups::remove(&cgroup_of(name));
            let _ = fs::remove_dir_all(&state);
        })?;
        fs::write(state.join("machine.json"), serde_json::to_vec(&machine)?)?;
        Ok(machine)
    }

    fn start_init(name: &str, number: u8, state: &Path) -> Result<Self> {
        let log = fs::File::create(state.join("init.log"))?;
        // A machine outlives whoever makes it, and must not hold on to what they have open, such as a lock.
        let mut outer = Command::new("sh")
            .args(["-c", r#"exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exec "$@""#, "sh", "unshare"])
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"])
            .args(["sh", "-c", INIT_SCRIPT])
            .env("STATE", state)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("cannot start unshare: install util-linux")?;
        wait_until("the namespaces", Duration::from_secs(10), || {
            if let Some(status) = outer.try_wait()? {
                let log = fs::read_to_string(state.join("init.log")).unwrap_or_default();
                bail!("unshare ended with {status}: {}", log.trim());
            }
            anyhow::ensure!(state.join("ready").exists(), "not set up yet");
            Ok(())
        })?;
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.id()))?;
        let init: u32 = children.trim().parse().context("unshare has no child")?;
        Ok(Self { name: name.to_owned(), number, init, init_started: processes::start_time(init)? })
    }

    /// Finds a machine by name; `None` where there is none or its init process has ended.
    pub fn find(name: &str) -> Option<Self> {
        let text = fs::read(Self::state_of(name).join("machine.json")).ok()?;
        let machine: Self = serde_json::from_slice(&text).ok()?;
        machine.is_alive().then_some(machine)
    }

    /// All machines that are alive on this host.
    pub fn all() -> Vec<Self> {
        let entries = fs::read_dir(Self::state_root()).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::find(&entry.file_name().to_string_lossy())).collect()
    }

    /// The names of all machines, dead ones that left their state behind included.
    pub fn names() -> Vec<String> {
        let entries = fs::read_dir(Self::state_root()).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    /// Ends every process of the machine of that name and removes what it leaves: control groups, loop devices and state.
    /// A machine that is already dead, or never was, is fine.
    pub fn destroy(name: &str) -> Result<()> {
        if let Some(machine) = Self::find(name) {
            processes::kill(machine.init);
            wait_until("the machine to end", Duration::from_secs(30), || {
                anyhow::ensure!(!machine.is_alive(), "its init process {} is still there", machine.init);
                Ok(())
            })?;
        }
        cgroups::remove(&cgroup_of(name))?;
        let state = Self::state_of(name);
        loop_devices::detach(&state)?;
        if state.exists() {
            fs::remove_dir_all(&state).with_context(|| format!("cannot remove {}", state.display()))?;
        }
        let _ = fs::remove_dir(Self::state_root());
        Ok(())
    }

    fn is_alive(&self) -> bool {
        processes::start_time(self.init).is_ok_and(|started| started == self.init_started)
    }

    /// The process whose namespaces are the machine's.
    pub fn init(&self) -> u32 {
        self.init
    }

    /// The network namespace, to be entered by a test.
    pub fn network_namespace(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.init).into()
    }

    /// The folder for files of the parts.
    pub fn state(&self) -> PathBuf {
        Self::state_of(&self.name)
    }

    /// A folder under the state folder, made if missing.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.state().join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The control group under which everything of this machine runs.
    pub fn cgroup(&self) -> String {
        cgroup_of(&self.name)
    }

    /// The folder that holds the state of every running machine.
    pub fn state_root() -> PathBuf {
        format!("/var/tmp/velero-boxes{}", set_suffix()).into()
    }

    fn state_of(name: &str) -> PathBuf {
        Self::state_root().join(name)
    }
}

/// The control group of the machine of that name.
pub fn cgroup_of(name: &str) -> String {
    format!("velero-box{}-{name}", set_suffix())
}

/// What names of this set end with; nothing for the usual one.
pub(crate) fn set_suffix() -> String {
    std::env::var(SET).map(|set| format!("-{set}")).unwrap_or_default()
}

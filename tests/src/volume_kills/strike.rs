//! Who is killed, and how they come back.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use velero_testkit::VeleroServer;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{Kubelet, Part};

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The pod of the node agent.
    Agent,
    /// The process in the pod that moves the data, or that pod while it has none.
    Mover,
    /// The process of the server.
    Server,
    /// The process of the kubelet.
    Kubelet,
    /// The process that moves the data; it is not killed but stopped, so that it never says anything again.
    StillMover,
    /// The process of the kubelet, which comes back only when all has ended.
    LostKubelet,
}

impl Victim {
    /// All that are killed.
    pub const EVERY: [Self; 4] = [Self::Agent, Self::Mover, Self::Server, Self::Kubelet];

    /// Kills; `objects` are the names of the objects that move data. Gives those who were met.
    pub(super) fn strike(self, machine: &Machine, server: &VeleroServer, objects: &[String]) -> Result<Vec<String>> {
        match self {
            Self::Agent => {
                let pods = format!("/api/v1/namespaces/{}/pods", server.namespace());
                let agents = machine.names_at(&format!("{pods}?labelSelector=name%3Dnode-agent"))?;
                ensure!(!agents.is_empty(), "there is no node agent");
                agents.iter().try_for_each(|agent| machine.delete_at_once(&format!("{pods}/{agent}")))?;
            }
            Self::Mover | Self::StillMover => {
                let mut met = Vec::new();
                for object in objects {
                    if self.strike_mover(machine, server, object)? {
                        met.push(object.clone());
                    }
                }
                return Ok(met);
            }
            Self::Server => server.kill()?,
            Self::Kubelet | Self::LostKubelet => signal("-KILL", machine.host_process("kubelet")?)?,
        }
        Ok(objects.to_vec())
    }

    fn strike_mover(self, machine: &Machine, server: &VeleroServer, object: &str) -> Result<bool> {
        match process_of(object) {
            Some(process) if self == Self::StillMover => signal("-STOP", process).map(|()| true),
            Some(process) => signal("-KILL", process).map(|()| true),
            None => remove_pod(machine, server, object),
        }
    }

    /// Has whoever was killed come back, where nobody else sees to it.
    pub(super) fn revive(self, machine: &Machine, server: &VeleroServer) -> Result<()> {
        match self {
            Self::Server => server.start(),
            Self::Kubelet | Self::LostKubelet => {
                // Long enough for others to notice, and for a mover to end without a kubelet.
                std::thread::sleep(Duration::from_secs(5));
                Kubelet.start(machine)?;
                wait_until("the kubelet", Duration::from_secs(60), || Kubelet.check(machine))
            }
            Self::Agent => server.wait_for_agents(),
            Self::Mover | Self::StillMover => Ok(()),
        }
    }
}

fn remove_pod(machine: &Machine, server: &VeleroServer, object: &str) -> Result<bool> {
    let path = format!("/api/v1/namespaces/{}/pods/{object}", server.namespace());
    if machine.read_if_there(&path)?.is_none() {
        return Ok(false);
    }
    match machine.delete_at_once(&path) {
        // It may have gone meanwhile.
        Err(_) if machine.read_if_there(&path)?.is_none() => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// The process that moves the data of an object, as this host sees it.
pub(super) fn process_of(object: &str) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    numbers.find(|process| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split('\0');
        words.next().is_some_and(|program| program.ends_with("velero")) && words.any(|word| word.ends_with(object))
    })
}

fn signal(signal: &str, process: u32) -> Result<()> {
    let status = Command::new("kill").args([signal, &process.to_string()]).status()?;
    ensure!(status.success(), "cannot send {signal} to process {process}");
    Ok(())
}

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
}

impl Victim {
    /// All of them.
    pub const EVERY: [Self; 4] = [Self::Agent, Self::Mover, Self::Server, Self::Kubelet];

    /// Kills; `object` is the name of the object that moves the data. Says whether there was somebody.
    pub(super) fn strike(self, machine: &Machine, server: &VeleroServer, object: &str) -> Result<bool> {
        match self {
            Self::Agent => {
                let pods = format!("/api/v1/namespaces/{}/pods", server.namespace());
                let agents = machine.names_at(&format!("{pods}?labelSelector=name%3Dnode-agent"))?;
                ensure!(!agents.is_empty(), "there is no node agent");
                agents.iter().try_for_each(|agent| machine.delete_at_once(&format!("{pods}/{agent}")))?;
                Ok(true)
            }
            Self::Mover => match process_of(object) {
                Some(process) => kill(process).map(|()| true),
                None => remove_pod(machine, server, object),
            },
            Self::Server => server.kill().map(|()| true),
            Self::Kubelet => kill(machine.host_process("kubelet")?).map(|()| true),
        }
    }

    /// Has whoever was killed come back, where nobody else sees to it.
    pub(super) fn revive(self, machine: &Machine, server: &VeleroServer) -> Result<()> {
        match self {
            Self::Server => server.start(),
            Self::Kubelet => {
                // Long enough for others to notice, and for a mover to end without a kubelet.
                std::thread::sleep(Duration::from_secs(5));
                Kubelet.start(machine)?;
                wait_until("the kubelet", Duration::from_secs(60), || Kubelet.check(machine))
            }
            Self::Agent => server.wait_for_agents(),
            Self::Mover => Ok(()),
        }
    }
}

fn remove_pod(machine: &Machine, server: &VeleroServer, object: &str) -> Result<bool> {
    let path = format!("/api/v1/namespaces/{}/pods/{object}", server.namespace());
    let is_there = machine.read_if_there(&path)?.is_some();
    if is_there {
        machine.delete_at_once(&path)?;
    }
    Ok(is_there)
}

/// The process that moves the data of an object, as this host sees it.
fn process_of(object: &str) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    numbers.find(|process| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split('\0');
        words.next().is_some_and(|program| program.ends_with("velero")) && words.any(|word| word.ends_with(object))
    })
}

fn kill(process: u32) -> Result<()> {
    let status = Command::new("kill").args(["-KILL", &process.to_string()]).status()?;
    ensure!(status.success(), "cannot kill process {process}");
    Ok(())
}

//! Who is killed or stopped, and how they come back.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use velero_testkit::TestBox;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{Etcd, KubeApiserver, Part, SeaweedFs};

use super::Fault;
use crate::torture::stage::Stage;

/// How long a part may take to come back.
const PATIENCE: Duration = Duration::from_secs(90);
/// The machine of the store.
const STORE: &str = "store";

pub(super) fn strike(fault: Fault, stage: &mut Stage) -> Result<bool> {
    match fault {
        Fault::KillServer => stage.kill_server(),
        Fault::StopServer => Ok(stage.server.process().and_then(|process| signal("-STOP", process)).is_ok()),
        Fault::KillPlugin => kill_one(stage, &of_plugin(&stage.machine)),
        Fault::KillAgent => kill_one(stage, &of_pods(&stage.machine, &["node-agent"])),
        Fault::KillMover => kill_one(stage, &of_pods(&stage.machine, &["pod-volume", "data-mover"])),
        Fault::KillApiServer => kill_part(&stage.machine, &KubeApiserver),
        Fault::KillEtcd => kill_part(&stage.machine, &Etcd),
        // Other boxes use it too.
        Fault::KillStore if TestBox::names().len() > 1 => Ok(false),
        Fault::KillStore => kill_part(&store()?, &SeaweedFs),
        Fault::FullDisk => stage.fill_disk(),
        _ => Ok(false),
    }
}

pub(super) fn heal(fault: Fault, stage: &mut Stage) -> Result<()> {
    match fault {
        Fault::KillServer => stage.start_server(),
        // It may have been killed meanwhile.
        Fault::StopServer => {
            let _ = stage.server.process().and_then(|process| signal("-CONT", process));
            Ok(())
        }
        // Without etcd it does not come up, and the plan may bring that back only later.
        Fault::KillApiServer => revive(&stage.machine, &Etcd).and_then(|()| revive(&stage.machine, &KubeApiserver)),
        Fault::KillEtcd => revive(&stage.machine, &Etcd),
        Fault::KillStore => revive(&store()?, &SeaweedFs),
        Fault::FullDisk => stage.empty_disk(),
        _ => Ok(()),
    }
}

fn store() -> Result<Machine> {
    Machine::find(STORE).context("the store is not up")
}

fn kill_part(machine: &Machine, part: &dyn Part) -> Result<bool> {
    let Ok(process) = machine.host_process(part.name()) else { return Ok(false) };
    // It may just have ended.
    Ok(signal("-KILL", process).is_ok())
}

/// Starts a part again that has ended, and waits until it works.
fn revive(machine: &Machine, part: &dyn Part) -> Result<()> {
    if !machine.is_running(part.name()) {
        part.start(machine)?;
    }
    wait_until(part.name(), PATIENCE, || part.check(machine))
}

fn kill_one(stage: &mut Stage, processes: &[u32]) -> Result<bool> {
    let Some(process) = stage.random.choice(processes) else { return Ok(false) };
    // It may just have ended.
    Ok(signal("-KILL", *process).is_ok())
}

/// The processes of the example plugin that run in a machine.
pub(in crate::torture) fn of_plugin(machine: &Machine) -> Vec<u32> {
    let namespace = fs::read_link(format!("/proc/{}/ns/pid", machine.init())).ok();
    processes(|process, words| {
        let is_here = || fs::read_link(format!("/proc/{process}/ns/pid")).ok() == namespace;
        words.first().is_some_and(|program| program.ends_with("/velero-plugin-example")) && is_here()
    })
}

/// The processes of our binary in pods of a machine with one of these commands.
pub(in crate::torture) fn of_pods(machine: &Machine, commands: &[&str]) -> Vec<u32> {
    processes(|process, words| {
        let is_here = || {
            let group = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
            group.contains(&machine.cgroup())
        };
        let program = words.first().is_some_and(|program| program.ends_with("velero"));
        program && words.iter().any(|word| commands.contains(&word.as_str())) && is_here()
    })
}

fn processes(is_meant: impl Fn(u32, &[String]) -> bool) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    numbers
        .filter(|process| {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let words: Vec<String> = String::from_utf8_lossy(&line).split('\0').map(str::to_owned).collect();
            is_meant(*process, &words)
        })
        .collect()
}

fn signal(signal: &str, process: u32) -> Result<()> {
    let status = Command::new("kill").args([signal, &process.to_string()]).status()?;
    ensure!(status.success(), "cannot send {signal} to process {process}");
    Ok(())
}

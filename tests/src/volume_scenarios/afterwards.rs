//! What the volumes of a row hold after a restore.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use velero_testkit::VeleroServer;
use velero_testkit::machine::Machine;

use super::outcome::{self, Lines};
use super::stage::{Stage, data_volumes, name_of, placed, wait_for_state};
use super::{Row, owned, pods};
use crate::volume_data::claimed;

/// How long pods have to come up after a restore has ended.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// How long a pod is looked at that is not to come up.
const BRIEFLY: Duration = Duration::from_secs(2);

/// What the volumes of a row hold after a restore.
pub(super) fn afterwards(stage: &Stage, server: &VeleroServer, row: &Row, target: &str) -> Result<Lines> {
    let (mut lines, machine) = (Lines::new(), &stage.machine);
    let expected = row.expected_of(server.edition());
    for pod in row.pods().iter().filter(|pod| !row.fillers.contains(&name_of(pod).as_str())) {
        let name = name_of(pod);
        let stays_away = expected.iter().any(|line| line.starts_with(&format!("{name} is ")));
        let patience = if stays_away { BRIEFLY } else { AFTERWARDS };
        if wait_for_state(machine, target, &name, "Running", patience).is_err() {
            lines.insert(format!("{name} is {}", phase(machine, target, &name)));
            continue;
        }
        let (before, after) = (stage.before.get(&(row.name, name.clone())), outcome::picture(machine, target, &name)?);
        for volume in data_volumes(pod) {
            let told = outcome::compared(before.and_then(|before| before.get(&volume)), after.get(&volume));
            lines.insert(format!("{name}/{volume} {told}"));
        }
    }
    for claim in row.restore.iter().flat_map(|restore| &restore.read) {
        lines.insert(format!("{claim} {}", read(stage, row, target, claim)?));
    }
    Ok(lines)
}

/// Looks into a claim through a pod of its own.
fn read(stage: &Stage, row: &Row, target: &str, claim: &str) -> Result<String> {
    let machine = &stage.machine;
    let path = format!("/api/v1/namespaces/{target}/persistentvolumeclaims/{claim}");
    if machine.read_if_there(&path)?.is_none() {
        return Ok("is missing".to_owned());
    }
    let mut reader = pods::pod("reader", "", &[claimed("data", claim)]);
    reader["spec"]["containers"][0]["command"] = json!(["sh", "-c", "touch /tmp/ready; sleep 100000"]);
    machine.apply(&placed(&reader, target).to_string())?;
    if wait_for_state(machine, target, "reader", "Running", AFTERWARDS).is_err() {
        return Ok("cannot be read".to_owned());
    }
    let after = outcome::picture(machine, target, "reader")?;
    let before = stage.before.iter().find_map(|((name, _), picture)| (*name == row.name).then(|| picture.get("data")));
    Ok(outcome::compared(before.flatten(), after.get("data")))
}

/// The phase of a pod, or that there is none.
fn phase(machine: &Machine, namespace: &str, name: &str) -> String {
    let text = |pod: Value| pod["status"]["phase"].as_str().unwrap_or_default().to_owned();
    owned::find(machine, namespace, name).map_or("missing".to_owned(), text)
}

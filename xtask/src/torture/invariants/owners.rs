//! What is there and nobody's: files, transfers, snapshots, pods, claims, mounts, processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::Result;
use serde_json::Value;
use velero_testkit::parts::BUCKET;
use velero_tests::{backups, csi, volume_data};

use super::Look;
use super::agreement::unpacked;
use crate::torture::faults::{of_plugin, of_pods};
use crate::torture::stage::Stage;
use crate::torture::workload::name_of;

pub(super) fn find(stage: &Stage, look: &Look) -> Result<Vec<String>> {
    let mut found = files(look);
    found.extend(transfers(look));
    if stage.has_node() {
        found.extend(in_cluster(stage)?);
        found.extend(snapshots(stage, look)?);
        found.extend(processes(stage));
    }
    Ok(found)
}

/// Files whose backup or restore is not there, that are too many for how it ended, or that are missing.
fn files(look: &Look) -> Vec<String> {
    let phases: BTreeMap<&str, &str> = look
        .backups
        .iter()
        .map(|backup| (name_of(backup), backup["status"]["phase"].as_str().unwrap_or_default()))
        .collect();
    let mut found = Vec::new();
    for (backup, files) in &look.backup_files {
        let Some(phase) = phases.get(backup.as_str()) else {
            found.push(format!("files of no backup: {backup}: {files:?}"));
            continue;
        };
        let wanted: &[String] = &[format!("{backup}.tar.gz"), "velero-backup.json".to_owned()];
        let is_kept = matches!(*phase, "Completed" | "PartiallyFailed");
        if is_kept && !wanted.iter().all(|file| files.contains(file)) {
            found.push(format!("backup {backup} is {phase} and has only {files:?}"));
        }
        let mut unwanted = vec!["velero-backup-reservation.json".to_owned(), format!("{backup}-next.tar.gz")];
        if !is_kept {
            unwanted.push(format!("{backup}.tar.gz"));
        }
        let left: Vec<&String> = unwanted.iter().filter(|file| files.contains(*file)).collect();
        let has_ended = backups::ENDED.contains(phase);
        if has_ended && !left.is_empty() {
            found.push(format!("backup {backup} is {phase} and has left {left:?}"));
        }
    }
    for (backup, phase) in phases {
        if matches!(phase, "Completed" | "PartiallyFailed") && !look.backup_files.contains_key(backup) {
            found.push(format!("backup {backup} is {phase} and has no files"));
        }
    }
    let restores = look.restore_names();
    let of_nobody = look.restore_files.iter().filter(|(restore, _)| !restores.contains(*restore));
    found.extend(of_nobody.map(|(restore, files)| format!("files of no restore: {restore}: {files:?}")));
    found
}

/// Transfers whose backup or restore is gone.
fn transfers(look: &Look) -> Vec<String> {
    let (backups, restores) = (look.backup_names(), look.restore_names());
    let is_of_nobody = |transfer: &Value| {
        let owner = |label: &str| transfer["metadata"]["labels"][label].as_str().map(str::to_owned);
        match (owner("velero.io/restore-name"), owner("velero.io/backup-name")) {
            (Some(restore), _) => !restores.contains(&restore),
            (None, Some(backup)) => !backups.contains(&backup),
            (None, None) => true,
        }
    };
    let all = look.transfers.iter().filter(|(_, transfer)| is_of_nobody(transfer));
    all.map(|(kind, transfer)| format!("{kind} {} is nobody's", name_of(transfer))).collect()
}

/// What is left in the cluster of those who moved data.
fn in_cluster(stage: &Stage) -> Result<Vec<String>> {
    let (machine, namespace) = (&stage.machine, stage.server.namespace());
    let mut found = csi::snapshot_objects(machine)?;
    let pods = machine.items(&format!("/api/v1/namespaces/{namespace}/pods"))?;
    let of_velero = |pod: &&Value| {
        let owner = pod["metadata"]["ownerReferences"][0]["apiVersion"].as_str().unwrap_or_default();
        owner.starts_with("velero.io/")
    };
    found.extend(pods.iter().filter(of_velero).map(|pod| format!("pod {}", name_of(pod))));
    let claims = machine.names_at(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"))?;
    found.extend(claims.into_iter().map(|claim| format!("claim {claim}")));
    found.extend(volume_data::mounts_of_nobody(machine)?);
    Ok(found.into_iter().map(|what| format!("left is {what}")).collect())
}

/// Snapshots of the driver that no backup tells of, and those that a backup tells of and that are gone.
fn snapshots(stage: &Stage, look: &Look) -> Result<Vec<String>> {
    let held = csi::held(&csi::volumes(&stage.machine)?)?;
    let (mut told, mut found) = (BTreeSet::new(), Vec::new());
    for backup in look.backup_files.keys() {
        let key = format!("{}/backups/{backup}/{backup}-volumeinfo.json.gz", stage.prefix);
        let Some(content) = backups::object(&stage.machine, BUCKET, &key)? else { continue };
        let volumes: Value = serde_json::from_str(&unpacked(&content)?)?;
        for volume in volumes.as_array().into_iter().flatten().filter(|volume| volume["snapshotDataMoved"] != true) {
            if let Some(handle) = volume["csiSnapshotInfo"]["snapshotHandle"].as_str().filter(|it| !it.is_empty()) {
                told.insert(handle.to_owned());
                if !held.contains(handle) && volume["result"] == "succeeded" {
                    found.push(format!("backup {backup} tells of snapshot {handle}, which the driver does not hold"));
                }
            }
        }
    }
    found.extend(held.difference(&told).map(|handle| format!("snapshot {handle} of the driver is nobody's")));
    Ok(found)
}

/// Plugins whose server is gone, and movers that go on.
fn processes(stage: &Stage) -> Vec<String> {
    let server = stage.server.process().unwrap_or_default().to_string();
    let parent = |process: &u32| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        parent.unwrap_or_default().trim().to_owned()
    };
    let plugins = of_plugin(&stage.machine).into_iter().filter(|process| parent(process) != server);
    let plugins = plugins.map(|process| format!("process {process} of a plugin has no server"));
    let movers = of_pods(&stage.machine, &["pod-volume", "data-mover"]);
    plugins.chain(movers.into_iter().map(|process| format!("process {process} of a mover goes on"))).collect()
}

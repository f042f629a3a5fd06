//! What Velero's Go types wrote is written again unchanged.
//!
//! `golden/zero.json` and `golden/filled.json` hold every kind as the Go types of Velero 1.18 serialise
//! it: once empty, once with a value in every field.

use serde_json::{Value, json};
use velero_api::{
    resource::VeleroResource,
    v1::{
        Backup, BackupPhase, BackupRepository, BackupStorageLocation, DeleteBackupRequest, DownloadRequest,
        PodVolumeBackup, PodVolumeRestore, Restore, Schedule, ServerStatusRequest, VolumeSnapshotLocation,
    },
    v2alpha1::{DataDownload, DataUpload},
};

const ZERO: &str = include_str!("../golden/zero.json");
const FILLED: &str = include_str!("../golden/filled.json");

/// Runs a check on every kind with its object from a golden file.
fn for_every_kind(golden: &str, check: &Check) {
    let golden: Value = serde_json::from_str(golden).unwrap();
    run::<Backup>(&golden, check);
    run::<BackupRepository>(&golden, check);
    run::<BackupStorageLocation>(&golden, check);
    run::<DeleteBackupRequest>(&golden, check);
    run::<DownloadRequest>(&golden, check);
    run::<PodVolumeBackup>(&golden, check);
    run::<PodVolumeRestore>(&golden, check);
    run::<Restore>(&golden, check);
    run::<Schedule>(&golden, check);
    run::<ServerStatusRequest>(&golden, check);
    run::<VolumeSnapshotLocation>(&golden, check);
    run::<DataDownload>(&golden, check);
    run::<DataUpload>(&golden, check);
    assert_eq!(golden.as_object().unwrap().len(), 13);
}

/// A check on the object Go wrote, what we wrote after reading it, and how our type looks inside.
type Check = dyn Fn(&str, &Value, &Value, &str);

fn run<K: VeleroResource>(golden: &Value, check: &Check) {
    let object = &golden[K::KIND];
    let read: K = serde_json::from_value(object.clone()).unwrap();
    check(K::KIND, object, &serde_json::to_value(&read).unwrap(), &format!("{read:?}"));
}

#[test]
fn an_object_with_every_field_is_written_as_go_wrote_it() {
    for_every_kind(FILLED, &|kind, object, written, _| {
        assert_eq!(written, object, "{kind}");
    });
}

#[test]
fn every_field_of_the_go_types_is_known() {
    for_every_kind(FILLED, &|kind, _, _, inside| {
        assert!(!inside.contains("unknown: {\""), "{kind} has unknown fields: {inside}");
    });
}

#[test]
fn the_zero_values_go_writes_are_written_too() {
    for_every_kind(ZERO, &|kind, object, written, _| {
        let mut expected = object.clone();
        expected["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
        if kind == BackupStorageLocation::KIND {
            // The schema demands the field, so no stored object has this null.
            expected["spec"]["objectStorage"] = json!({ "bucket": "" });
        }
        assert_eq!(written, &expected, "{kind}");
    });
}

#[test]
fn fields_of_a_later_version_survive() {
    let object = json!({
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": { "name": "b1" },
        "spec": {
            "metadata": { "colour": "red" },
            "ttl": "720h0m0s",
            "hooks": { "resources": [{ "name": "h", "pre": [{ "exec": {
                "command": ["sync"], "timeout": "30s", "user": 0,
            } }] }] },
            "csiSnapshotTimeout": "10m0s",
            "itemOperationTimeout": "4h0m0s",
            "encryption": { "key": null },
        },
        "status": { "phase": "InProgress", "progress": { "totalItems": 5, "bytes": 7 }, "shard": 3 },
    });
    let mut backup: Backup = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&backup).unwrap(), object);

    backup.status.phase = Some(BackupPhase::Completed);
    let written = serde_json::to_value(&backup).unwrap();
    assert_eq!(
        written["status"],
        json!({
            "phase": "Completed", "progress": { "totalItems": 5, "bytes": 7 }, "shard": 3,
        })
    );
}

#[test]
fn an_explicit_null_is_read_as_nothing() {
    let object = json!({
        "metadata": { "name": "b1", "creationTimestamp": null },
        "spec": {
            "includedNamespaces": null,
            "labelSelector": null,
            "orderedResources": null,
            "snapshotVolumes": null,
            "hooks": { "resources": null },
            "uploaderConfig": null,
        },
        "status": { "expiration": null, "validationErrors": null, "progress": null },
    });
    let backup: Backup = serde_json::from_value(object).unwrap();
    assert!(backup.spec.included_namespaces.is_empty());
    assert_eq!(backup, Backup { metadata: backup.metadata.clone(), ..Default::default() });
}

#[test]
fn an_object_without_spec_and_status_can_be_read() {
    let backup: Backup = serde_json::from_value(json!({ "metadata": { "name": "b1" } })).unwrap();
    assert_eq!(backup.status.phase(), &BackupPhase::New);
}

#[test]
fn an_unknown_phase_is_kept_and_is_not_terminal() {
    let object = json!({ "metadata": {}, "status": { "phase": "Pondering" } });
    let backup: Backup = serde_json::from_value(object).unwrap();
    assert!(!backup.status.phase().is_terminal());
    assert_eq!(backup.status.phase().to_string(), "Pondering");
    assert_eq!(serde_json::to_value(&backup).unwrap()["status"]["phase"], json!("Pondering"));
}

#[test]
fn a_phase_given_by_a_user_must_be_known() {
    assert_eq!("PartiallyFailed".parse(), Ok(BackupPhase::PartiallyFailed));
    let error = "completed".parse::<BackupPhase>().unwrap_err().to_string();
    assert!(error.starts_with("\"completed\" is not a BackupPhase, use one of New, Queued"), "{error}");
}

#[test]
fn the_terminal_phases_are_the_four_ends() {
    let terminal: Vec<&str> =
        BackupPhase::ALL.iter().filter(|phase| phase.is_terminal()).map(BackupPhase::as_str).collect();
    assert_eq!(terminal, ["FailedValidation", "Completed", "PartiallyFailed", "Failed"]);
}

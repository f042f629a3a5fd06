use serde_json::{Value, json};

use super::*;

#[track_caller]
fn assert_written_as_read<T: Serialize + for<'de> Deserialize<'de>>(record: &Value) {
    let read: T = serde_json::from_value(record.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&read).unwrap(), record);
}

#[test]
fn a_moved_snapshot_is_written_as_it_was_read() {
    assert_written_as_read::<BackupVolumeInfo>(&json!({
        "pvcName": "data",
        "pvcNamespace": "shop",
        "pvName": "pv-1",
        "backupMethod": "CSISnapshot",
        "snapshotDataMoved": true,
        "preserveLocalSnapshot": false,
        "skipped": false,
        "startTimestamp": "2026-01-02T03:04:05Z",
        "completionTimestamp": "2026-01-02T03:05:05Z",
        "result": "succeeded",
        "csiSnapshotInfo": {
            "snapshotHandle": UNKNOWN_VALUE,
            "size": 1,
            "driver": "hostpath.csi.k8s.io",
            "vscName": UNKNOWN_VALUE,
            "operationID": UNKNOWN_VALUE,
            "ReadyToUse": null,
        },
        "snapshotDataMovementInfo": {
            "dataMover": "velero",
            "uploaderType": "kopia",
            "snapshotHandle": "abc",
            "operationID": "du-1",
            "size": 9_000_000_000_i64,
            "incrementalSize": 5,
            "Phase": "Completed",
        },
        "pvInfo": { "reclaimPolicy": "Delete", "labels": null },
    }));
}

#[test]
fn a_native_snapshot_is_written_as_it_was_read() {
    assert_written_as_read::<BackupVolumeInfo>(&json!({
        "pvName": "pv-1",
        "backupMethod": "NativeSnapshot",
        "snapshotDataMoved": false,
        "preserveLocalSnapshot": true,
        "skipped": false,
        "nativeSnapshotInfo": {
            "snapshotHandle": "snap-1",
            "volumeType": "gp3",
            "volumeAZ": "eu-1a",
            "iops": "3000",
            "Phase": "Completed",
        },
        "pvInfo": { "reclaimPolicy": "Retain", "labels": { "tier": "gold" } },
    }));
}

#[test]
fn a_skipped_volume_is_written_as_it_was_read() {
    assert_written_as_read::<BackupVolumeInfo>(&json!({
        "pvName": "pv-1",
        "snapshotDataMoved": false,
        "preserveLocalSnapshot": false,
        "skipped": true,
        "skippedReason": "volumeSnapshot: not satisfied;",
        "invented": { "later": 1 },
    }));
}

#[test]
fn a_restored_pod_volume_is_written_as_it_was_read() {
    assert_written_as_read::<RestoreVolumeInfo>(&json!({
        "pvcName": "data",
        "pvcNamespace": "shop",
        "restoreMethod": "PodVolumeRestore",
        "snapshotDataMoved": false,
        "pvrInfo": {
            "snapshotHandle": "abc",
            "size": 100,
            "uploaderType": "kopia",
            "volumeName": "data",
            "podName": "web-0",
            "podNamespace": "shop",
            "Phase": "Completed",
        },
    }));
}

//! The example's binary under the host of the original Velero.

use std::process::Command;

use serde_json::{Value, json};
use velero_testkit::Tool;

#[test]
fn the_original_runs_every_kind_of_the_example() {
    let host = Tool::PluginHost.path().unwrap();
    let (plugins, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_velero-plugin-example"), plugins.path().join("example")).unwrap();
    let output = Command::new(host).arg("call").args([plugins.path(), data.path()]).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let mut found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (executed, mark) in [
        ("backup executes", ("backed-up-by", "nightly")),
        ("first version executes", ("backed-up-by-v1", "nightly")),
        ("restore executes", ("restored-by", "back")),
    ] {
        let item = found[executed].take();
        let annotation = &item["metadata"]["annotations"][format!("example.velero.io/{}", mark.0)];
        assert_eq!(annotation, mark.1, "{executed}: {item}");
        found.as_object_mut().unwrap().remove(executed);
    }
    assert_eq!(found, expected(), "{log}");
    assert!(log.contains("behaving as the item asks") && log.contains("pluginName=example"), "{log}");
}

fn expected() -> Value {
    let rpc = |code: &str, text: &str| format!("error: rpc error: code = {code} desc = {text}");
    json!({
        "list BackupItemAction": ["example.velero.io/backup-v1"],
        "list BackupItemActionV2":
            ["example.velero.io/backup-v1", "example.velero.io/backup", "example.velero.io/data-mover"],
        "list DeleteItemAction": ["example.velero.io/delete"],
        "list ItemBlockAction": ["example.velero.io/block"],
        "list ObjectStore": ["example.velero.io/folder"],
        "list RestoreItemAction": ["example.velero.io/restore-v1"],
        "list RestoreItemActionV2":
            ["example.velero.io/restore-v1", "example.velero.io/data-mover", "example.velero.io/restore"],
        "list VolumeSnapshotter": ["example.velero.io/volumes", "example.velero.io/volumes-v1"],
        "backup applies to": "example.velero.io/plugin",
        "backup additional items": "[secrets]",
        "backup items to update": "[configmaps]",
        "backup progress": "false 100Percenttrue",
        "backup cancel": "done",
        "backup progress after cancel": "true the operation was cancelled",
        "backup progress of nonsense": rpc("Unknown", "operation ID nonsense is invalid"),
        "backup executes fail": rpc("Unknown", "the item asked for a failure"),
        "backup executes panic": rpc("Aborted", "plugin panicked: the item asked for a panic"),
        "restore waits": "true 5s",
        "restore progress": true,
        "restore is ready": false,
        "delete executes": "done",
        "block names": "[pods]",
        "store init": "done",
        "store put": "done",
        "store exists": true,
        "store gets what was put": true,
        "store folders": ["x/"],
        "store objects": ["x/y"],
        "store delete": "done",
        "store gets nothing": rpc("NotFound", "object \"x/y\" does not exist"),
        "volumes init": "done",
        "volumes id": "v1",
        "volumes snapshot": true,
        "volumes restored": true,
        "volumes set": {"csi": {"driver": "example.velero.io", "volumeHandle": "v2"}},
        "volumes delete": "done",
    })
}

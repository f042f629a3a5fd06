//! What this program prints is what the original prints, byte for byte, for the same objects on a real API server.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Once;

use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use velero_testkit::{Edition, TestCluster, cluster_test};

/// Where the second program keeps its settings: nowhere.
const NO_HOME: &str = "/nonexistent";

fn run(program: PathBuf, cluster: &TestCluster, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(["--namespace", &cluster.namespace, "--kubeconfig"])
        .arg(cluster.test_box.kubeconfig())
        .args(arguments)
        .env("HOME", NO_HOME)
        .output()
        .expect("the program must start")
}

fn ours(cluster: &TestCluster, arguments: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_velero").into(), cluster, arguments)
}

fn theirs(cluster: &TestCluster, arguments: &[&str]) -> Output {
    run(Edition::Peer.binary().expect("the peer must build"), cluster, arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs both programs with the same arguments and compares what they print and whether they succeed.
fn assert_same(cluster: &TestCluster, arguments: &[&str]) {
    let (ours, theirs) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| theirs(cluster, arguments));
        (ours(cluster, arguments), theirs.join().expect("the peer must run"))
    });
    let command = format!("velero {}", arguments.join(" "));
    let (our_text, their_text) = (comparable(&ours.stdout), comparable(&theirs.stdout));
    let different = our_text.lines().zip(their_text.lines()).find(|(ours, theirs)| ours != theirs);
    assert_eq!(different, None, "{command}\n{}", text(&ours.stderr));
    assert_eq!(our_text, their_text, "{command}\n{}", text(&ours.stderr));
    assert_eq!(ours.status.code(), theirs.status.code(), "{command}");
}

/// Leaves out what must differ. Without a server no file can be fetched; which of its clocks runs out first is the
/// original's own affair. The version of a list moves with every change in the cluster. The original does not tell how
/// fast a restore was.
fn comparable(output: &[u8]) -> String {
    let shortened = |line: &str| match line.split_once("volume info: ") {
        Some((before, _)) if line.ends_with('>') => format!("{before}volume info: …>\n"),
        None if line.trim_start().trim_start_matches('"').starts_with("resourceVersion") => {
            "resourceVersion: …\n".to_owned()
        }
        _ => format!("{line}\n"),
    };
    let lines = text(output);
    let lines = lines.split_inclusive('\n').filter(|line| !line.starts_with("Restore rate:"));
    lines.map(|line| shortened(line.trim_end_matches('\n'))).collect()
}

/// Installs the custom resource definitions with the program under test, once for all tests of a process.
pub(crate) fn install_definitions(cluster: &TestCluster) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let output = ours(cluster, &["install", "--crds-only"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    });
}

async fn create(cluster: &TestCluster, kind: &str, name: &str, rest: Value) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("velero.io", "v1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource);
    let mut object = json!({ "apiVersion": "velero.io/v1", "kind": kind, "metadata": { "name": name } });
    for (key, value) in rest.as_object().expect("fields") {
        match key.as_str() {
            "labels" | "annotations" => object["metadata"][key] = value.clone(),
            _ => object[key] = value.clone(),
        }
    }
    let object = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("the object must be accepted");
}

/// A spec that uses every section of a description.
fn rich_spec() -> Value {
    json!({
        "includedNamespaces": ["web", "database"],
        "excludedNamespaces": ["kube-system"],
        "includedResources": ["*"],
        "excludedResources": ["events", "pods"],
        "includeClusterResources": false,
        "labelSelector": { "matchLabels": { "app": "web" }, "matchExpressions": [
            { "key": "tier", "operator": "In", "values": ["b", "a"] }, { "key": "old", "operator": "DoesNotExist" },
        ] },
        "storageLocation": "default",
        "snapshotVolumes": true,
        "defaultVolumesToFsBackup": false,
        "ttl": "720h0m0s",
        "csiSnapshotTimeout": "10m0s",
        "itemOperationTimeout": "4h0m0s",
        "orderedResources": { "pods": "web/one,web/two" },
        "resourcePolicy": { "kind": "configmap", "name": "policies" },
        "uploaderConfig": { "parallelFilesUpload": 4 },
        "metadata": {},
        "hooks": { "resources": [{
            "name": "freeze",
            "includedNamespaces": ["database"],
            "labelSelector": { "matchLabels": { "app": "db" } },
            "pre": [{ "exec": { "container": "db", "command": ["/sbin/fsfreeze", "--freeze", "/data"], "onError": "Fail", "timeout": "30s" } }],
            "post": [{ "exec": { "command": ["/sbin/fsfreeze", "--unfreeze", "/data"], "timeout": "0s" } }],
        }] },
    })
}

async fn create_backups(cluster: &TestCluster) {
    create(
        cluster,
        "Backup",
        "daily-20260102030405",
        json!({
            "labels": { "velero.io/schedule-name": "daily", "team": "a" },
            "annotations": { "velero.io/source-cluster-k8s-gitversion": "v1.35.4" },
            "spec": rich_spec(),
            "status": {
                "phase": "Completed", "version": 1, "formatVersion": "1.1.0",
                "startTimestamp": "2026-01-02T03:04:05Z", "completionTimestamp": "2026-01-02T03:05:00Z",
                "expiration": "2046-01-02T03:04:05Z", "progress": { "totalItems": 7, "itemsBackedUp": 7 },
                "hookStatus": { "hooksAttempted": 2 },
            },
        }),
    )
    .await;
    create(cluster, "Backup", "daily-20260103030405", json!({
        "labels": { "velero.io/schedule-name": "daily" },
        "spec": { "includedClusterScopedResources": ["*"], "storageLocation": "default", "ttl": "1h0m0s",
            "orLabelSelectors": [{ "matchLabels": { "a": "b" } }, { "matchLabels": { "c": "d" } }] },
        "status": { "phase": "PartiallyFailed", "startTimestamp": "2026-01-03T03:04:05Z", "expiration": "2026-01-03T04:04:05Z" },
    })).await;
    create(
        cluster,
        "Backup",
        "queued",
        json!({ "spec": { "ttl": "0s" }, "status": { "phase": "Queued", "queuePosition": 3 } }),
    )
    .await;
    create(
        cluster,
        "Backup",
        "refused",
        json!({
            "spec": {},
            "status": { "phase": "FailedValidation", "validationErrors": ["an invalid thing: \"x\"", "another one"] },
        }),
    )
    .await;
    create(cluster, "Backup", "untouched", json!({ "spec": {} })).await;
}

#[test]
fn backups_are_listed_as_the_original_lists_them() {
    cluster_test(async |cluster| {
        install_definitions(&cluster);
        assert_same(&cluster, &["backup", "get"]);
        assert_same(&cluster, &["backup", "get", "-o", "json"]);
        create_backups(&cluster).await;
        for arguments in [
            &["backup", "get"][..],
            &["get", "backups", "-l", "velero.io/schedule-name=daily"],
            &["get", "backup", "-L", "velero.io/schedule-name,team", "--show-labels"],
            &["backup", "get", "queued"],
            &["backup", "get", "queued", "untouched"],
            &["backup", "get", "daily-20260102030405", "-o", "json"],
            &["backup", "get", "daily-20260102030405", "-o", "yaml"],
            &["backup", "get", "-o", "yaml"],
            &["backup", "get", "-o", "json"],
            &["backup", "get", "nothing"],
            &["backup", "get", "-o", "nothing"],
        ] {
            assert_same(&cluster, arguments);
        }
    });
}

/// The original leaves the kind out here, so that its output cannot be applied again.
#[test]
fn several_named_objects_keep_their_kind() {
    cluster_test(async |cluster| {
        install_definitions(&cluster);
        create_backups(&cluster).await;
        let output = ours(&cluster, &["backup", "get", "queued", "untouched", "-o", "json"]);
        let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(list["kind"], "BackupList");
        assert_eq!(list["items"][1]["kind"], "Backup");
        assert_eq!(list["items"][1]["metadata"]["name"], "untouched");
    });
}

#[test]
fn backups_are_described_as_the_original_describes_them() {
    cluster_test(async |cluster| {
        install_definitions(&cluster);
        create_backups(&cluster).await;
        create(&cluster, "PodVolumeBackup", "volume", json!({
            "labels": { "velero.io/backup-name": "queued" },
            "spec": { "node": "n", "pod": { "namespace": "web", "name": "one" }, "volume": "data", "backupStorageLocation": "default",
                "repoIdentifier": "", "uploaderType": "kopia" },
            "status": { "phase": "Completed", "progress": { "totalBytes": 10, "bytesDone": 10 } },
        })).await;
        // Without a server both wait half a minute for each description.
        std::thread::scope(|scope| {
            for arguments in [
                &["backup", "describe", "daily-20260102030405", "--colorized=false"][..],
                &["backup", "describe", "daily-20260102030405", "--colorized=true"],
                &["describe", "backups", "daily-20260103030405", "--colorized=false"],
                &["backup", "describe", "queued", "--colorized=false"],
                &["backup", "describe", "refused", "--colorized=true"],
                &["backup", "describe", "daily-20260102030405", "-o", "json"],
            ] {
                let cluster = &cluster;
                scope.spawn(move || assert_same(cluster, arguments));
            }
        });
    });
}

#[test]
fn schedules_are_shown_as_the_original_shows_them() {
    cluster_test(async |cluster| {
        install_definitions(&cluster);
        create(
            &cluster,
            "Schedule",
            "daily",
            json!({
                "labels": { "team": "a" },
                "spec": { "schedule": "0 3 * * *", "template": rich_spec(), "useOwnerReferencesInBackup": false },
                "status": { "phase": "Enabled", "lastBackup": "2026-01-02T03:04:05Z" },
            }),
        )
        .await;
        create(
            &cluster,
            "Schedule",
            "wrong",
            json!({
                "spec": { "schedule": "@every x", "template": {}, "paused": true },
                "status": { "phase": "FailedValidation", "validationErrors": ["invalid schedule: x"] },
            }),
        )
        .await;
        for arguments in [
            &["schedule", "get", "daily", "wrong"][..],
            &["get", "schedule", "daily", "-o", "json"],
            &["get", "schedules", "daily", "-o", "yaml"],
            &["schedule", "describe", "daily", "--colorized=false"],
            &["describe", "schedule", "daily", "wrong", "--colorized=true"],
        ] {
            assert_same(&cluster, arguments);
        }
    });
}

#[test]
fn locations_are_shown_as_the_original_shows_them() {
    cluster_test(async |cluster| {
        install_definitions(&cluster);
        create(&cluster, "BackupStorageLocation", "default", json!({
            "spec": { "provider": "aws", "default": true, "objectStorage": { "bucket": "velero", "prefix": "a/b", "caCert": "YWJj" },
                "config": { "region": "us-east-1", "s3ForcePathStyle": "true" }, "credential": { "name": "s", "key": "k" } },
            "status": { "phase": "Available", "lastValidationTime": "2026-01-02T03:04:05Z" },
        })).await;
        create(&cluster, "BackupStorageLocation", "other", json!({
            "spec": { "provider": "gcp", "objectStorage": { "bucket": "b" }, "accessMode": "ReadOnly", "backupSyncPeriod": "0s" },
        })).await;
        create(
            &cluster,
            "VolumeSnapshotLocation",
            "disks",
            json!({ "spec": { "provider": "aws", "config": { "region": "x" } } }),
        )
        .await;
        for arguments in [
            &["backup-location", "get"][..],
            &["backup-location", "get", "--default"],
            &["get", "backup-locations", "-o", "json"],
            &["get", "backup-location", "default", "-o", "yaml"],
            &["snapshot-location", "get"],
            &["get", "snapshot-locations", "-o", "yaml"],
        ] {
            assert_same(&cluster, arguments);
        }
    });
}

#[test]
fn restores_are_shown_as_the_original_shows_them() {
    cluster_test(async |cluster| {
        install_definitions(&cluster);
        create(&cluster, "Restore", "first", json!({
            "spec": { "backupName": "b1", "includedNamespaces": ["*"], "excludedResources": ["nodes"], "hooks": {},
                "namespaceMapping": { "a": "b", "c": "d" }, "restorePVs": false, "existingResourcePolicy": "update",
                "itemOperationTimeout": "4h0m0s", "resourceModifier": { "kind": "configmap", "name": "m" },
                "uploaderConfig": { "writeSparseFiles": true, "parallelFilesDownload": 2 } },
            "status": { "phase": "Completed", "startTimestamp": "2026-01-02T03:04:05Z", "completionTimestamp": "2026-01-02T03:04:09Z",
                "progress": { "totalItems": 3, "itemsRestored": 3 }, "hookStatus": { "hooksAttempted": 1, "hooksFailed": 1 } },
        })).await;
        create(
            &cluster,
            "Restore",
            "second",
            json!({ "spec": { "backupName": "gone", "hooks": {}, "itemOperationTimeout": "0s" } }),
        )
        .await;
        std::thread::scope(|scope| {
            for arguments in [
                &["restore", "get"][..],
                &["get", "restores", "first", "-o", "json"],
                &["get", "restore", "-o", "yaml"],
                &["restore", "describe", "first", "--colorized=false"],
                &["describe", "restore", "second", "--colorized=true"],
            ] {
                let cluster = &cluster;
                scope.spawn(move || assert_same(cluster, arguments));
            }
        });
    });
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_create_commands_would_send_is_what_the_original_would_send() {
    cluster_test(async |cluster| {
        install_definitions(&cluster);
        create(
            &cluster,
            "BackupStorageLocation",
            "here",
            json!({ "spec": { "provider": "aws", "objectStorage": { "bucket": "b" } } }),
        )
        .await;
        create(&cluster, "Backup", "b1", json!({ "labels": { "velero.io/schedule-name": "daily" }, "spec": {} })).await;
        create(
            &cluster,
            "Schedule",
            "daily",
            json!({ "labels": { "team": "a" }, "spec": { "schedule": "@daily", "template": rich_spec() } }),
        )
        .await;
        for arguments in [
            &["backup", "create", "b", "-o", "json"][..],
            &[
                "backup",
                "create",
                "b",
                "-o",
                "yaml",
                "--ttl",
                "1h",
                "--include-namespaces",
                "a,b",
                "--exclude-namespaces=c",
                "-l",
                "x=y,z in (1,2)",
                "--snapshot-volumes=false",
                "--include-cluster-resources",
                "--storage-location",
                "here",
                "--labels",
                "a=b",
                "--labels",
                "c=d",
                "--annotations",
                "\"e=f,g\"",
                "--ordered-resources",
                "pods=a/b",
                "--parallel-files-upload",
                "2",
                "--data-mover",
                "x",
                "--resource-policies-configmap",
                "p",
            ],
            &[
                "create",
                "backup",
                "b",
                "-o",
                "json",
                "--or-selector",
                "a=b or c=d",
                "--include-cluster-scoped-resources",
                "*",
                "--csi-snapshot-timeout=20m",
                "--item-operation-timeout",
                "1h30m",
                "--default-volumes-to-fs-backup",
                "--snapshot-move-data=true",
            ],
            &["backup", "create", "b", "--from-schedule", "daily", "-o", "yaml"],
            &["backup", "create", "b", "-o", "table"],
            &[
                "schedule",
                "create",
                "s",
                "--schedule",
                "0 3 * * *",
                "-o",
                "yaml",
                "--paused",
                "--skip-immediately=true",
            ],
            &["schedule", "create", "s", "--schedule", "@every 1h", "-o", "json", "--use-owner-references-in-backup"],
            &[
                "restore",
                "create",
                "r",
                "--from-backup",
                "b1",
                "-o",
                "yaml",
                "--namespace-mappings",
                "a:b,c:d",
                "--restore-volumes=false",
                "--existing-resource-policy",
                "update",
                "--status-include-resources",
                "pods",
                "--resource-modifier-configmap",
                "m",
                "--write-sparse-files",
                "--parallel-files-download",
                "3",
                "--preserve-nodeports",
            ],
            &["restore", "create", "r", "--from-schedule", "daily", "-o", "json"],
            &["restore", "create", "r"],
            &["restore", "create", "r", "--from-backup", "nothing"],
            &["backup", "create"],
            &["backup", "create", "b", "--include-resources", "pods", "--include-cluster-scoped-resources", "*"],
        ] {
            assert_same(&cluster, arguments);
        }
    });
}

#[test]
fn commands_change_what_they_say_they_change() {
    cluster_test(async |cluster| {
        install_definitions(&cluster);
        let succeed = |arguments: &[&str]| {
            let output = ours(&cluster, arguments);
            assert!(output.status.success(), "velero {}: {}", arguments.join(" "), text(&output.stderr));
            text(&output.stdout)
        };
        succeed(&["backup-location", "create", "here", "--provider", "aws", "--bucket", "b", "--default"]);
        succeed(&["backup-location", "set", "here", "--credential", "secret=key"]);
        assert!(
            theirs(&cluster, &["backup-location", "create", "two", "--provider", "aws", "--bucket", "b", "--default"])
                .status
                .code()
                == Some(1)
        );
        succeed(&["schedule", "create", "daily", "--schedule", "@daily"]);
        assert_eq!(succeed(&["schedule", "pause", "daily"]), "Schedule daily paused successfully\n");
        assert_eq!(succeed(&["schedule", "pause", "daily"]), "Schedule daily is already paused, skip\n");
        assert!(text(&theirs(&cluster, &["schedule", "get", "daily"]).stdout).contains("true"));
        let created = succeed(&["backup", "create", "b1", "--storage-location", "here"]);
        assert_eq!(
            created,
            "Backup request \"b1\" submitted successfully.\nRun `velero backup describe b1` or `velero backup logs b1` for more details.\n"
        );
        assert!(
            succeed(&["backup", "delete", "b1", "--confirm"])
                .starts_with("Request to delete backup \"b1\" submitted successfully.")
        );
        assert_eq!(succeed(&["backup", "delete", "nothing", "--confirm"]), "No backups found\n");
        assert_eq!(ours(&cluster, &["backup", "delete"]).status.code(), Some(1));
        assert_eq!(succeed(&["schedule", "delete", "daily", "--confirm"]), "Schedule deleted: daily\n");
        assert!(
            succeed(&["backup-location", "delete", "--all", "--confirm"]).contains("\"here\" deleted successfully.")
        );
    });
}

#[test]
fn with_a_high_verbosity_every_request_is_told_on_standard_error() {
    cluster_test(async |cluster| {
        install_definitions(&cluster);
        let (quiet, loud) = (ours(&cluster, &["backup", "get"]), ours(&cluster, &["backup", "get", "-v", "6"]));
        assert_eq!(text(&quiet.stderr), "");
        let path = format!("/apis/velero.io/v1/namespaces/{}/backups", cluster.namespace);
        assert!(text(&loud.stderr).contains(&path), "{}", text(&loud.stderr));
        assert_eq!(text(&loud.stdout), text(&quiet.stdout));
    });
}

//! From nothing to backups and restores wholly inside a cluster, and back to nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::image::Image;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{BUCKET, Images};
use velero_testkit::server::credentials_file;
use velero_testkit::{BoxKind, Edition, TestBox, harness, load, objects};
use velero_tests::command_line::CommandLine;

/// The image that is installed when no other is named.
const IMAGE: &str = concat!("ghcr.io/velero-rust/velero:v", env!("CARGO_PKG_VERSION"));
/// A volume for the claim, in a folder that every user may write to.
fn make_volume(machine: &Machine) -> PathBuf {
    let folder = machine.folder("backup-volume").unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "for-backups"},
        "spec": {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": folder},
        },
    });
    machine.apply(&volume.to_string()).unwrap();
    folder
}

fn load_image(machine: &Machine) {
    let archive = machine.state().join("velero-image.tar");
    Image::of_velero(IMAGE, &Edition::Ours.binary().unwrap()).unwrap().write(&archive).unwrap();
    Images::load(machine, &archive).unwrap();
    fs::remove_file(&archive).unwrap();
}

/// An application that hands out rights the server does not have itself.
fn shop() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let subject = json!([{"kind": "ServiceAccount", "name": "default", "namespace": "shop"}]);
    let reference = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "shop-all"});
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let urls = json!([{"nonResourceURLs": ["*"], "verbs": ["*"]}, everything[0]]);
    let inside = json!({"name": "shop-all", "namespace": "shop"});
    let cluster = json!({"name": "shop-all"});
    vec![
        objects::namespace("shop"),
        objects::config_map("shop", "stock", "apples", "12"),
        json!({"apiVersion": rbac, "kind": "Role", "metadata": inside, "rules": everything}),
        json!({
            "apiVersion": rbac, "kind": "RoleBinding", "metadata": inside,
            "roleRef": reference("Role"), "subjects": subject,
        }),
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": cluster, "rules": urls}),
        json!({
            "apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": cluster,
            "roleRef": reference("ClusterRole"), "subjects": subject,
        }),
    ]
}

fn wait_for_location(cli: &CommandLine<'_>, namespace: &str) {
    wait_until("the location", Duration::from_secs(60), || {
        let path = format!("/apis/velero.io/v1/namespaces/{namespace}/backupstoragelocations/default");
        let phase = &cli.machine.read(&path)?["status"]["phase"];
        anyhow::ensure!(phase == "Available", "the location is {phase}");
        Ok(())
    })
    .unwrap();
}

/// A backup, a loss and a restore; the server does it all with the rights it was installed with.
fn lose_and_restore(cli: &CommandLine<'_>, namespace: &str, name: &str) {
    wait_for_location(cli, namespace);
    let create = ["--include-namespaces", "shop", "--include-cluster-resources=true", "--wait"];
    let told = cli.velero(&[&["-n", namespace, "backup", "create", name], &create[..]].concat()).unwrap();
    assert!(told.contains("Backup completed with status: Completed"), "{told}");
    cli.machine.kubectl(&["delete", "namespace/shop", "clusterrole/shop-all", "clusterrolebinding/shop-all"]).unwrap();
    let told = cli.velero(&["-n", namespace, "restore", "create", name, "--from-backup", name, "--wait"]).unwrap();
    let log = || cli.velero(&["-n", namespace, "restore", "logs", name]).unwrap();
    assert!(told.contains("Restore completed with status: Completed"), "{told}{}", log());
    let restored =
        "configmap/stock,role/shop-all,rolebinding/shop-all,clusterrole/shop-all,clusterrolebinding/shop-all";
    for object in restored.split(',') {
        cli.machine.kubectl(&["-n", "shop", "get", object]).unwrap();
    }
}

fn server_pod(cli: &CommandLine<'_>, namespace: &str) -> String {
    cli.machine.kubectl(&["-n", namespace, "get", "pods", "-l", "deploy=velero", "-o", "name"]).unwrap()
}

fn backs_up_to_a_claim(cli: &CommandLine<'_>, volume: &Path) {
    let before = cli.cluster_objects().unwrap();
    let told = cli.velero(&["install", "--wait"]).unwrap();
    assert!(told.contains("Velero is installed!"), "{told}");
    lose_and_restore(cli, "velero", "first");
    assert!(volume.join("velero/backups/first/velero-backup.json").exists());

    let pod = server_pod(cli, "velero");
    let told = cli.velero(&["install", "--wait"]).unwrap();
    assert!(told.contains("Deployment/velero: applied"), "{told}");
    assert_eq!(server_pod(cli, "velero"), pod, "an installation that changes nothing must not restart the server");
    let told = cli.velero(&["install", "--garbage-collection-frequency=2h", "--wait"]).unwrap();
    assert_ne!(server_pod(cli, "velero"), pod, "an upgrade must start another server: {told}");
    wait_for_location(cli, "velero");

    // Its grace period is longer: a server that does not end by itself would still be there.
    cli.machine.kubectl(&["-n", "velero", "delete", "pods", "-l", "deploy=velero", "--timeout=30s"]).unwrap();
    cli.velero(&["install", "--wait"]).unwrap();

    let told = cli.velero(&["uninstall", "--force"]).unwrap();
    assert!(told.contains("PersistentVolume for-backups") && told.contains("directory /backups/velero"), "{told}");
    assert_eq!(cli.cluster_objects().unwrap(), before, "{told}");
    assert!(volume.join("velero/backups/first/velero-backup.json").exists());

    cli.velero(&["install", "--wait"]).unwrap();
    wait_until("the backup to be found again", Duration::from_secs(90), || {
        let phase = &cli.machine.read("/apis/velero.io/v1/namespaces/velero/backups/first")?["status"]["phase"];
        anyhow::ensure!(phase == "Completed", "the backup is {phase}");
        Ok(())
    })
    .unwrap();
}

/// The flags for a bucket that pods reach.
fn bucket_flags(machine: &Machine) -> Vec<String> {
    let keys = machine.state().join("keys");
    fs::write(&keys, credentials_file()).unwrap();
    let config = format!("region=us-east-1,s3ForcePathStyle=true,s3Url={}", TestBox::store_url_for_pods());
    vec![
        "--provider=aws".to_owned(),
        format!("--bucket={BUCKET}"),
        format!("--prefix={}", harness::unique_name("install")),
        format!("--secret-file={}", keys.display()),
        format!("--backup-location-config={config}"),
        "--wait".to_owned(),
    ]
}

/// Beside the first one, so that definitions stay when it goes.
fn backs_up_to_a_bucket(cli: &CommandLine<'_>) {
    let before = cli.cluster_objects().unwrap();
    let flags = bucket_flags(cli.machine);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    cli.velero(&[&["install", "-n", "second"], &flags[..]].concat()).unwrap();
    lose_and_restore(cli, "second", "second");

    cli.velero(&["install", "-n", "second", "--wait", "--concurrent-backups=2"]).unwrap();
    wait_for_location(cli, "second");
    let provider = "-o=jsonpath={.spec.provider}";
    assert_eq!(
        cli.machine.kubectl(&["-n", "second", "get", "backupstoragelocation", "default", provider]).unwrap(),
        "aws"
    );
    cli.velero(&["-n", "second", "backup", "create", "again", "--include-namespaces", "shop", "--wait"]).unwrap();

    let told = cli.velero(&["uninstall", "-n", "second", "--force"]).unwrap();
    assert!(told.contains("aws bucket") && told.contains("namespace \"velero\" needs them"), "{told}");
    assert_eq!(cli.cluster_objects().unwrap(), before, "{told}");
}

/// The server runs without rights on its node.
fn is_confined(cli: &CommandLine<'_>) {
    let script = r#"grep -l "^Name:.velero$" /proc/[0-9]*/status | xargs cat"#;
    let status = cli.machine.run("sh", ["-c", script]).unwrap();
    assert_eq!(status.matches("Name:\tvelero\n").count(), 1, "{status}");
    for expected in ["Uid:\t65532\t65532", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(expected), "{expected}: {status}");
    }
    let level = r"-o=jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}";
    assert_eq!(cli.machine.kubectl(&["get", "namespace", "velero", level]).unwrap(), "restricted");
    cli.machine.kubectl(&["-n", "velero", "get", "networkpolicy", "velero"]).unwrap();
}

#[test]
fn an_installed_server_works_wholly_inside_the_cluster_and_leaves_nothing_but_backups() {
    TestBox::down("in-install").unwrap();
    harness::run("in-install", BoxKind::Whole, async |cluster| {
        let cli = CommandLine::new(cluster.test_box.machine(), Edition::Ours);
        load_image(cli.machine);
        load::create_all(&cluster.client, shop().into_iter()).await.unwrap();
        let volume = make_volume(cli.machine);
        backs_up_to_a_claim(&cli, &volume);
        is_confined(&cli);
        backs_up_to_a_bucket(&cli);
    });
    TestBox::down("in-install").unwrap();
}

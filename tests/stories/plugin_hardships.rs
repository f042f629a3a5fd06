//! What plugins and accidents can do to a server: it lives on, leaves nothing behind and loses no operation.

use std::fs;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};
use velero_testkit::machine::wait_until;
use velero_testkit::parts::BUCKET;
use velero_testkit::{
    BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, install, load, objects,
};
use velero_tests::{backups, restores};

const BOX: &str = "hardships";
const MINUTE: Duration = Duration::from_secs(60);
/// What an allocator may keep for itself between two equal pieces of work.
const SLACK_KIB: u64 = 16 * 1024;

fn config_map(namespace: &str, name: &str, annotations: &[(&str, &str)]) -> Value {
    let mut object = objects::config_map(namespace, name, "state", "as it was");
    object["metadata"]["labels"] = json!({"example.velero.io/plugin": "yes"});
    for (key, value) in annotations {
        object["metadata"]["annotations"][format!("example.velero.io/{key}")] = json!(value);
    }
    object
}

/// A namespace with one ConfigMap of each name, all with the same annotations.
async fn fill(cluster: &TestCluster, namespace: &str, count: usize, annotations: &[(&str, &str)]) {
    let items = (0..count).map(|number| config_map(namespace, &format!("item-{number}"), annotations));
    load::create_all(&cluster.client, [objects::namespace(namespace)].into_iter()).await.unwrap();
    load::create_all(&cluster.client, items).await.unwrap();
}

fn server(cluster: &TestCluster, prefix: &str) -> VeleroServer {
    let options = ServerOptions {
        prefix: prefix.to_owned(),
        flags: vec!["--item-operation-sync-frequency=1s".into()],
        plugins: vec![install::package_binary("velero-plugin-example", "velero-plugin-example", "dev").unwrap()],
        ..ServerOptions::default()
    };
    VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap()
}

/// The processes whose parent is the server, dead ones that nobody took leave of included.
fn children(server: u32) -> Vec<String> {
    let is_child = |process: &str| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == server.to_string()))
    };
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    all.filter(|process| process.parse::<u32>().is_ok() && is_child(process)).collect()
}

fn resident_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Waits until the example plugin was asked to cancel as many operations: that a server works on what its predecessor
/// left is known once the end is written.
fn wait_for_cancelled(server: &VeleroServer, expected: usize) {
    let marks = server.folder().unwrap().join("velero-plugin-example/cancelled");
    wait_until("the operations to be cancelled", MINUTE, || {
        let count = fs::read_dir(&marks).map_or(0, Iterator::count);
        let log = server.log();
        anyhow::ensure!(count == expected, "{count} operations were cancelled, the server's log: {}", log.display());
        Ok(())
    })
    .unwrap();
}

/// Waits until all three operations are stored, while the work goes on.
fn wait_for_operations(server: &VeleroServer, key: &str) {
    wait_until("the operations to be stored", MINUTE, || {
        let content = backups::object(server.machine(), BUCKET, key)?.unwrap_or_default();
        let stored: Vec<Value> = serde_json::from_reader(MultiGzDecoder::new(content.as_slice())).unwrap_or_default();
        let log = server.log();
        anyhow::ensure!(stored.len() == 3, "{key} holds {}, the server's log: {}", stored.len(), log.display());
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_server_outlives_crashes_accidents_and_ten_thousand_operations() {
    TestBox::down(BOX).unwrap();
    harness::run(BOX, BoxKind::ControlPlane, async |cluster| {
        let prefix = harness::unique_name("hardships");
        let server = server(&cluster, &prefix);
        crashes(&cluster, &server).await;
        a_killed_server(&cluster, &server, &prefix).await;
        ten_thousand_operations(&cluster, &server).await;
    });
    TestBox::down(BOX).unwrap();
}

/// A plugin that crashes on every item costs neither memory nor processes.
async fn crashes(cluster: &TestCluster, server: &VeleroServer) {
    fill(cluster, "crashing", 50, &[("execute", "crash")]).await;
    let process = server.process().unwrap();
    let mut memory = Vec::new();
    for round in 0..3 {
        let name = format!("crash-{round}");
        backups::create(server, &name, &json!({"includedNamespaces": ["crashing"]})).unwrap();
        let backup = backups::ended(server, &name, 5 * MINUTE).unwrap();
        assert_eq!(backup["status"]["phase"], "PartiallyFailed", "{}", backup["status"]);
        // Each item has its error; so has a question about related items that met the end of the process.
        assert!(backup["status"]["errors"].as_u64() >= Some(50), "{}", backup["status"]);
        assert!(backup["status"]["progress"]["itemsBackedUp"].as_u64() < Some(50), "{}", backup["status"]);
        wait_until("the plugin's processes to end", MINUTE, || {
            let left = children(process);
            anyhow::ensure!(left.is_empty(), "the server has children left: {left:?}");
            Ok(())
        })
        .unwrap();
        memory.push(resident_kib(process));
    }
    assert_eq!(server.process().unwrap(), process, "the server lives on");
    assert!(memory[2] <= memory[1] + SLACK_KIB, "memory after each of three backups, in KiB: {memory:?}");
}

/// The next server cancels what a killed one had started.
async fn a_killed_server(cluster: &TestCluster, server: &VeleroServer, prefix: &str) {
    let courses = [("operation", "never"), ("restore-operation", "never")];
    fill(cluster, "cut", 3, &courses).await;
    let slow = config_map("cut", "slow", &[("execute", "slow=10m")]);
    load::create_all(&cluster.client, [slow].into_iter()).await.unwrap();
    backups::create(server, "cut", &json!({"includedNamespaces": ["cut"]})).unwrap();
    wait_for_operations(server, &format!("{prefix}/backups/cut/cut-itemoperations.json.gz"));
    server.kill().unwrap();
    server.start().unwrap();
    let backup = backups::ended(server, "cut", MINUTE).unwrap();
    assert_eq!(backup["status"]["phase"], "Failed", "{}", backup["status"]);
    wait_for_cancelled(server, 3);

    server.machine().kubectl(&["-n", "cut", "delete", "configmap", "slow"]).unwrap();
    let slow = config_map("cut", "slow", &[("restore-execute", "slow=10m")]);
    load::create_all(&cluster.client, [slow].into_iter()).await.unwrap();
    for number in 0..3 {
        let item = format!("item-{number}");
        let removal = "example.velero.io/operation-";
        server.machine().kubectl(&["-n", "cut", "annotate", "configmap", &item, removal]).unwrap();
    }
    backups::create(server, "whole", &json!({"includedNamespaces": ["cut"]})).unwrap();
    let backup = backups::ended(server, "whole", MINUTE).unwrap();
    assert_eq!(backup["status"]["phase"], "Completed", "{}", backup["status"]);
    let spec = json!({"backupName": "whole", "namespaceMapping": {"cut": "cut-again"}});
    restores::create(server, "cut", &spec).unwrap();
    wait_for_operations(server, &format!("{prefix}/restores/cut/restore-cut-itemoperations.json.gz"));
    server.kill().unwrap();
    server.start().unwrap();
    let restore = restores::ended(server, "cut", MINUTE).unwrap();
    assert_eq!(restore["status"]["phase"], "Failed", "{}", restore["status"]);
    wait_for_cancelled(server, 6);
}

async fn ten_thousand_operations(cluster: &TestCluster, server: &VeleroServer) {
    fill(cluster, "busy", 10_000, &[("operation", "takes=1s")]).await;
    backups::create(server, "busy", &json!({"includedNamespaces": ["busy"]})).unwrap();
    let backup = backups::ended(server, "busy", 5 * MINUTE).unwrap();
    let status = &backup["status"];
    assert_eq!(status["phase"], "Completed", "{status}");
    assert_eq!(status["backupItemOperationsAttempted"], 10_000, "{status}");
    assert_eq!(status["backupItemOperationsCompleted"], 10_000, "{status}");
}

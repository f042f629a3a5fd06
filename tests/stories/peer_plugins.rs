//! The example plugin, unmodified, does the same under both servers: phases, operations, archive, restore.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use velero_testkit::machine::wait_until;
use velero_testkit::parts::BUCKET;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, install, load};
use velero_tests::difference::differences;
use velero_tests::{backups, restores};

const SHOP: &str = "shop";
const MINUTE: Duration = Duration::from_secs(60);

fn config_map(name: &str, annotations: &[(&str, &str)]) -> Value {
    let annotations: BTreeMap<String, &str> =
        annotations.iter().map(|(key, value)| (format!("example.velero.io/{key}"), *value)).collect();
    let metadata = json!({"name": name, "namespace": SHOP, "annotations": annotations,
        "labels": {"example.velero.io/plugin": "yes", "example.velero.io/plugin-v1": "yes", "case": name}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"state": "as it was"}})
}

/// One ConfigMap a case, selected by its label.
fn objects() -> Vec<Value> {
    let update = "configmaps/shop/late";
    let late = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": SHOP}, "data": {"state": "as it was"}});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}}),
        late,
        config_map(
            "waits",
            &[("operation", "takes=6s"), ("items-to-update", update), ("restore-operation", "takes=5s")],
        ),
        config_map("fails", &[("operation", "fails-after=4s")]),
        config_map("cannot-be-asked", &[("operation", "progress-error")]),
        config_map("long", &[("operation", "takes=60s")]),
        config_map("plain", &[]),
    ]
}

fn server(cluster: &TestCluster, edition: Edition, run: &str) -> VeleroServer {
    let namespace = format!("velero-{}", format!("{edition:?}").to_lowercase());
    let options = ServerOptions {
        prefix: format!("{run}/{namespace}"),
        namespace,
        flags: vec!["--item-operation-sync-frequency=1s".into()],
        plugins: vec![install::package_binary("velero-plugin-example", "velero-plugin-example", "dev").unwrap()],
        ..ServerOptions::default()
    };
    VeleroServer::up(&cluster.test_box, edition, options).unwrap()
}

/// Watches an object that is not there yet; gives the phases it has until it has ended.
async fn watched(cluster: &TestCluster, kind: &'static str, namespace: &str, name: &str) -> JoinHandle<Vec<String>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("velero.io", "v1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), namespace, &resource);
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap_or_default();
    tokio::spawn(phases(api, name.to_owned(), version))
}

async fn phases(api: Api<DynamicObject>, name: String, mut version: String) -> Vec<String> {
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut all: Vec<String> = Vec::new();
    loop {
        let mut events = api.watch(&parameters, &version).await.unwrap().boxed();
        while let Some(event) = events.next().await {
            let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event.unwrap() else { continue };
            version = object.metadata.resource_version.clone().unwrap_or_default();
            let phase = object.data["status"]["phase"].as_str().unwrap_or_default().to_owned();
            let ended = backups::ENDED.contains(&phase.as_str());
            if all.last() != Some(&phase) {
                all.push(phase);
            }
            if ended {
                return all;
            }
        }
    }
}

/// The phases from the start of the work on.
fn at_work(mut all: Vec<String>) -> Vec<String> {
    let start = all.iter().position(|phase| phase == "InProgress").unwrap_or_default();
    all.split_off(start)
}

async fn back_up(cluster: &TestCluster, server: &VeleroServer, case: &str) -> Vec<String> {
    set_late(server, "as it was");
    let watcher = watched(cluster, "Backup", server.namespace(), case).await;
    let spec = json!({"includedNamespaces": [SHOP], "labelSelector": {"matchLabels": {"case": case}}});
    backups::create(server, case, &spec).unwrap();
    // What changes while an operation runs is in the backup if the operation says so.
    wait_until("the backup to leave InProgress", MINUTE, || {
        let phase = phase_of(server, case)?;
        anyhow::ensure!(
            !["", "New", "Queued", "ReadyToStart", "InProgress"].contains(&phase.as_str()),
            "it is {phase:?}"
        );
        Ok(())
    })
    .unwrap();
    set_late(server, "changed");
    at_work(watcher.await.unwrap())
}

fn set_late(server: &VeleroServer, state: &str) {
    let patch = json!({"data": {"state": state}}).to_string();
    server.machine().kubectl(&["-n", SHOP, "patch", "configmap", "late", "--type=merge", "-p", &patch]).unwrap();
}

fn phase_of(server: &VeleroServer, backup: &str) -> anyhow::Result<String> {
    Ok(server.object("backups", backup)?["status"]["phase"].as_str().unwrap_or_default().to_owned())
}

/// The operations a backup or restore recorded, without what differs from run to run.
fn operations(server: &VeleroServer, key: &str) -> Vec<Value> {
    let content = backups::object(server.machine(), BUCKET, key).unwrap().unwrap_or_else(|| panic!("no {key}"));
    let mut text = String::new();
    MultiGzDecoder::new(content.as_slice()).read_to_string(&mut text).unwrap();
    let mut all: Vec<Value> = serde_json::from_str(&text).unwrap();
    for operation in &mut all {
        for field in ["operationID", "backupUID", "restoreUID"] {
            if !operation["spec"][field].is_null() {
                operation["spec"][field] = json!("…");
            }
        }
        // Both say what the plugin said; we say first which plugin and which call, the peer that it was an RPC.
        if let Some(error) = operation["status"]["error"].as_str() {
            let said = error.rsplit([':', '=']).next().unwrap_or_default().trim().to_owned();
            operation["status"]["error"] = json!(said);
        }
        for field in ["created", "started", "updated"] {
            if !operation["status"][field].is_null() {
                operation["status"][field] = json!("…");
            }
        }
    }
    all
}

fn archive(server: &VeleroServer, run: &str, case: &str) -> BTreeMap<String, Vec<u8>> {
    let prefix = format!("{run}/{}", server.namespace());
    backups::archive(server.machine(), BUCKET, &prefix, case).unwrap()
}

fn compare_archives(case: &str, ours: &BTreeMap<String, Vec<u8>>, theirs: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{case}");
    for (path, body) in ours.iter().filter(|(path, _)| path.ends_with(".json")) {
        let read = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
        let mut found = differences(&read(body), &read(&theirs[path]));
        found.retain(|line| !line.contains("/resourceVersion:") && !line.contains("/managedFields/"));
        assert!(found.is_empty(), "{case}: {path}: {found:?}");
    }
}

#[test]
fn a_plugin_of_ours_does_the_same_under_both_servers() {
    TestBox::down("plugins").unwrap();
    harness::run("plugins", BoxKind::ControlPlane, async |cluster| {
        load::create_all(&cluster.client, objects().into_iter()).await.unwrap();
        let run = harness::unique_name("plugins");
        let ours = server(&cluster, Edition::Ours, &run);
        let peer = server(&cluster, Edition::Peer, &run);
        for case in ["waits", "fails", "cannot-be-asked"] {
            let our_phases = back_up(&cluster, &ours, case).await;
            let their_phases = back_up(&cluster, &peer, case).await;
            assert_eq!(our_phases, their_phases, "{case}");
            let waits = our_phases.iter().any(|phase| phase.starts_with("Waiting"));
            assert_eq!(waits, case != "cannot-be-asked", "{case}: {our_phases:?}");
            let of = |server: &VeleroServer| {
                operations(
                    server,
                    &format!("{run}/{}/backups/{case}/{case}-itemoperations.json.gz", server.namespace()),
                )
            };
            assert_eq!(of(&ours), of(&peer), "{case}");
            compare_archives(case, &archive(&ours, &run, case), &archive(&peer, &run, case));
        }
        let updated = archive(&ours, &run, "waits");
        let late: Value = serde_json::from_slice(&updated["resources/configmaps/namespaces/shop/late.json"]).unwrap();
        assert_eq!(late["data"]["state"], "changed", "the item to update is stored as it is after the operation");

        for server in [&ours, &peer] {
            let name = format!("of-{}", server.namespace());
            let watcher = watched(&cluster, "Restore", server.namespace(), &name).await;
            let spec = json!({"backupName": "waits", "namespaceMapping": {(SHOP): name}});
            restores::create(server, &name, &spec).unwrap();
            let mut seen = at_work(watcher.await.unwrap());
            // The peer always finalizes; we only when something is left to do.
            seen.retain(|phase| phase != "Finalizing");
            assert_eq!(seen, ["InProgress", "WaitingForPluginOperations", "Completed"], "{name}");
            let live = server.machine().read(&format!("/api/v1/namespaces/{name}/configmaps/waits")).unwrap();
            assert_eq!(live["metadata"]["annotations"]["example.velero.io/restored-by"], name.as_str());
        }
        second_backup_passes_a_waiting_one(&ours);
    });
    TestBox::down("plugins").unwrap();
}

fn second_backup_passes_a_waiting_one(ours: &VeleroServer) {
    for case in ["long", "plain"] {
        let spec = json!({"includedNamespaces": [SHOP], "labelSelector": {"matchLabels": {"case": case}}});
        backups::create(ours, case, &spec).unwrap();
    }
    let plain = backups::ended(ours, "plain", Duration::from_secs(45)).unwrap();
    assert_eq!(plain["status"]["phase"], "Completed", "{}", plain["status"]);
    assert_eq!(phase_of(ours, "long").unwrap(), "WaitingForPluginOperations");
    ours.velero(&["backup", "delete", "long", "--confirm"]).unwrap();
    wait_until("the waiting backup to be deleted", MINUTE, || {
        let left = ours.machine().names_at(&ours.path("backups"))?;
        anyhow::ensure!(!left.iter().any(|name| name.starts_with("long")), "it is still there");
        Ok(())
    })
    .unwrap();
}

//! The commands on restores against our own server: shown first, made, described, read and deleted.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use velero_api::v1::{DownloadRequest, Restore};
use velero_testkit::harness::unique_name;
use velero_testkit::{Edition, ServerOptions, TestCluster, VeleroServer, cluster_test};

use crate::support::{said, velero};

/// A box runs one server of ours at a time.
static THE_SERVER: Mutex<()> = Mutex::new(());

#[track_caller]
fn assert_has(text: &str, pieces: &[&str]) {
    for piece in pieces {
        assert!(text.contains(piece), "{piece:?} is missing in\n{text}");
    }
}

/// A namespace with a ConfigMap and a Secret.
async fn shop(cluster: &TestCluster) -> String {
    let name = unique_name("shop");
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let settings: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "settings"}, "data": {"colour": "red"}})).unwrap();
    let api = Api::namespaced(cluster.client.clone(), &name);
    api.create(&PostParams::default(), &settings).await.unwrap();
    let login: Secret =
        serde_json::from_value(json!({"metadata": {"name": "login"}, "stringData": {"password": "swordfish"}}))
            .unwrap();
    let api = Api::namespaced(cluster.client.clone(), &name);
    api.create(&PostParams::default(), &login).await.unwrap();
    name
}

/// Makes the copies differ from the backup.
async fn change(cluster: &TestCluster, namespace: &str) {
    let settings: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let patch = Patch::Merge(json!({"data": {"colour": "blue"}}));
    settings.patch("settings", &PatchParams::default(), &patch).await.unwrap();
    let login: Api<Secret> = Api::namespaced(cluster.client.clone(), namespace);
    let patch = Patch::Merge(json!({"stringData": {"password": "halibut"}}));
    login.patch("login", &PatchParams::default(), &patch).await.unwrap();
}

async fn assert_untouched(cluster: &TestCluster, copy: &str) {
    let restores: Api<Restore> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    assert!(restores.list(&ListParams::default()).await.unwrap().items.is_empty(), "a restore was made");
    let requests: Api<DownloadRequest> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    assert!(requests.list(&ListParams::default()).await.unwrap().items.is_empty(), "requests are left");
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    assert!(namespaces.get_opt(copy).await.unwrap().is_none(), "something was restored");
}

async fn until_gone(cluster: &TestCluster, restore: &str) {
    let restores: Api<Restore> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    for _ in 0..300 {
        if restores.get_opt(restore).await.unwrap().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("restore {restore} is still there");
}

fn item<'a>(plan: &'a Value, kind: &str, name: &str) -> &'a Value {
    let items = plan["items"].as_array().unwrap();
    items.iter().find(|item| item["kind"] == kind && item["name"] == name).unwrap()
}

#[test]
fn a_restore_is_shown_made_described_read_and_deleted() {
    let _server = THE_SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    cluster_test(async |cluster| {
        let (namespace, prefix) = (cluster.namespace.clone(), cluster.namespace.clone());
        let options = ServerOptions { namespace, prefix, ..ServerOptions::default() };
        let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap();
        let (shop, copy) = (shop(&cluster).await, unique_name("copy"));
        let mapping = format!("{shop}:{copy}");
        said(&cluster, &["backup", "create", "b1", "--include-namespaces", &shop, "--wait"]);

        let from = ["restore", "create", "r1", "--from-backup", "b1", "--namespace-mappings", mapping.as_str()];
        let shown = said(&cluster, &[&from[..], &["--dry-run"]].concat());
        assert_has(&shown, &["ACTION", "create   ConfigMap", "create   Secret", &copy, " create, 0 update, "]);
        assert_untouched(&cluster, &copy).await;
        let absent = velero(&cluster, &["create", "restore", "--from-backup", "absent", "--dry-run"]);
        assert_eq!(absent.status.code(), Some(1), "{absent:?}");

        let made = said(&cluster, &[&from[..], &["--wait"]].concat());
        assert_has(&made, &["Restore request \"r1\" submitted", "\nRestore completed with status: Completed."]);
        let described = said(&cluster, &["describe", "restores", "r1", "--details"]);
        let created = format!("- {copy}/settings(created)");
        assert_has(&described, &["Completed", "Items restored:", "Restore rate:", "Resource List:", &created]);
        assert_has(&said(&cluster, &["restore", "logs", "r1"]), &["level=info", "restore completed"]);
        assert_has(&said(&cluster, &["get", "restores"]), &["r1", "b1", "Completed"]);

        change(&cluster, &copy).await;
        let update = [&from[..], &["--existing-resource-policy", "update", "--dry-run", "-o", "json"]].concat();
        let text = said(&cluster, &update);
        let plan: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(plan["backup"], "b1");
        let settings = item(&plan, "ConfigMap", "settings");
        assert_eq!(settings["action"], "update", "{text}");
        assert_eq!(settings["changes"], json!([{"path": "/data/colour", "from": "blue", "to": "red"}]), "{text}");
        assert_eq!(item(&plan, "Secret", "login")["action"], "update", "{text}");
        for secret in ["c3dvcmRmaXNo", "aGFsaWJ1dA==", "swordfish", "halibut"] {
            assert!(!text.contains(secret), "a secret is shown: {text}");
        }
        assert_eq!(plan["summary"]["update"], 2, "{text}");

        said(&cluster, &["restore", "delete", "r1", "--confirm"]);
        until_gone(&cluster, "r1").await;
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        for namespace in [shop, copy] {
            namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
        }
        server.stop().unwrap();
    });
}

#[test]
fn a_dry_run_follows_the_flags_of_the_server() {
    let _server = THE_SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    cluster_test(async |cluster| {
        let (namespace, prefix) = (cluster.namespace.clone(), cluster.namespace.clone());
        let flags = vec!["--restore-resource-priorities=configmaps,secrets".to_owned()];
        let options = ServerOptions { namespace, prefix, flags, ..ServerOptions::default() };
        let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options).unwrap();
        let (shop, copy) = (shop(&cluster).await, unique_name("copy"));
        let mapping = format!("{shop}:{copy}");
        said(&cluster, &["backup", "create", "b1", "--include-namespaces", &shop, "--wait"]);
        let from = ["restore", "create", "--from-backup", "b1", "--namespace-mappings", mapping.as_str()];
        let text = said(&cluster, &[&from[..], &["--dry-run", "-o", "json"]].concat());
        let plan: Value = serde_json::from_str(&text).unwrap();
        let place =
            |kind: &str| plan["items"].as_array().unwrap().iter().position(|item| item["kind"] == kind).unwrap();
        assert!(place("ConfigMap") < place("Secret"), "{text}");
        assert_untouched(&cluster, &copy).await;
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        namespaces.delete(&shop, &DeleteParams::default()).await.unwrap();
        server.stop().unwrap();
    });
}

//! The server as a pod, as users run it, with stores that only it can reach: its files come through the API server.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use velero_testkit::image::Image;
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{BUCKET, Certificates, Images};
use velero_testkit::server::credentials_file;
use velero_testkit::{BoxKind, Edition, TestBox, harness, load, objects};

const IMAGE: &str = "ghcr.io/velero-rust/velero:in-cluster";
const NAMESPACE: &str = "velero";
/// A port nobody listens on.
const NOWHERE: &str = "http://127.0.0.1:9";
/// What answers there is another host than the store: the kubelet, which knows none of these paths.
const ANOTHER_HOST: &str = "http://127.0.0.1:10248";

/// What the command line prints: standard output, then standard error.
fn velero(machine: &Machine, arguments: &[&str]) -> (String, String) {
    let mut command = machine.command(Edition::Ours.binary().unwrap());
    command.args(["--namespace", NAMESPACE, "--colorized=false"]).args(arguments);
    command.env("KUBECONFIG", Certificates::kubeconfig(machine)).env("HOME", machine.state());
    let output = command.output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "velero {}: {stdout}{stderr}", arguments.join(" "));
    (stdout, stderr)
}

fn kubectl(machine: &Machine, arguments: &[&str]) -> anyhow::Result<String> {
    machine.kubectl(&[&["--namespace", NAMESPACE], arguments].concat())
}

/// The server's pod: no root, nothing to write to but two volumes, and a service account that may do everything.
fn server_objects() -> Vec<Value> {
    let metadata = json!({"name": "velero", "namespace": NAMESPACE});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "velero"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "velero", "namespace": NAMESPACE}],
    });
    let container = json!({
        "name": "velero",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": ["server"],
        "ports": [{"name": "metrics", "containerPort": 8085}],
        "env": [{"name": "VELERO_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8085}, "periodSeconds": 1},
        "securityContext": {
            "runAsNonRoot": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "tmp", "mountPath": "/tmp"}],
    });
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "velero", "namespace": NAMESPACE, "labels": {"deploy": "velero", "component": "velero"}},
        "spec": {
            "serviceAccountName": "velero",
            "terminationGracePeriodSeconds": 5,
            "securityContext": {"runAsUser": 65532, "fsGroup": 65532},
            "containers": [container],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
        },
    });
    vec![account, binding, pod]
}

/// A directory inside the pod, and buckets whose URLs lead nowhere, or to another host, for those outside.
fn locations() -> Vec<Value> {
    let location = |name: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": metadata, "spec": spec})
    };
    let keys = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": NAMESPACE},
        "stringData": {"cloud": credentials_file()},
    });
    let directory = json!({
        "provider": "fs", "default": true, "config": {"path": "/data/backups"}, "objectStorage": {"bucket": "backups"},
    });
    let bucket = |public: &str| {
        json!({
            "provider": "aws",
            "credential": {"name": "keys", "key": "cloud"},
            "objectStorage": {"bucket": BUCKET, "prefix": harness::unique_name("in-cluster")},
            "config": {
                "region": "us-east-1", "s3ForcePathStyle": "true",
                "s3Url": TestBox::store_url_for_pods(), "publicUrl": public,
            },
        })
    };
    vec![
        keys,
        location("default", directory),
        location("far", bucket(NOWHERE)),
        location("hidden", bucket(ANOTHER_HOST)),
    ]
}

fn start_server(machine: &Machine) {
    let archive = machine.state().join("velero-image.tar");
    Image::of_velero(IMAGE, &Edition::Ours.binary().unwrap()).unwrap().write(&archive).unwrap();
    Images::load(machine, &archive).unwrap();
    std::fs::remove_file(&archive).unwrap();
    let (definitions, _) = velero(machine, &["install", "--crds-only", "--dry-run", "-o", "yaml"]);
    machine.apply(&definitions).unwrap();
    machine.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
    machine.apply(&objects::namespace(NAMESPACE).to_string()).unwrap();
    for object in locations().into_iter().chain(server_objects()) {
        machine.apply(&object.to_string()).unwrap();
    }
    let ready = kubectl(machine, &["wait", "--for=condition=Ready", "--timeout=60s", "pod/velero"]);
    ready.unwrap_or_else(|error| panic!("{error:#}\n{}", server_log(machine)));
    wait_until("the locations", Duration::from_secs(30), || {
        let locations = machine.items(&format!("/apis/velero.io/v1/namespaces/{NAMESPACE}/backupstoragelocations"))?;
        let phases: Vec<&Value> = locations.iter().map(|location| &location["status"]["phase"]).collect();
        anyhow::ensure!(phases == ["Available"; 3], "the locations are {phases:?}");
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", server_log(machine)));
}

fn server_log(machine: &Machine) -> String {
    kubectl(machine, &["logs", "velero", "--tail=50"]).unwrap_or_else(|error| error.to_string())
}

/// A backup into that location, and all that the command line shows of it; gives what it said beside.
fn make_and_read(machine: &Machine, name: &str, location: &str) -> String {
    let flags = ["--storage-location", location, "--include-namespaces", "shop", "--wait"];
    let (created, _) = velero(machine, &[&["backup", "create", name], &flags[..]].concat());
    assert!(created.contains("Backup completed with status: Completed"), "{created}\n{}", server_log(machine));

    let (described, notes) = velero(machine, &["backup", "describe", name, "--details"]);
    assert!(described.contains("Phase:  Completed") && described.contains("- shop/stock"), "{described}");

    let (log, _) = velero(machine, &["backup", "logs", name]);
    assert!(log.contains("level=info") && log.contains(&format!("backup=velero/{name}")), "{log}");

    let file = machine.state().join(format!("{name}.tar.gz"));
    velero(machine, &["backup", "download", name, "--output", &file.display().to_string()]);
    assert_eq!(stock_in(machine, &file), "12");
    notes
}

/// What the archive holds of the ConfigMap.
fn stock_in(machine: &Machine, archive: &Path) -> String {
    let archive = archive.display().to_string();
    let wanted = "resources/configmaps/namespaces/shop/stock.json";
    let text = machine.run("tar", ["-xzOf", &archive, wanted]).unwrap();
    let held: Value = serde_json::from_str(&text).unwrap();
    held["data"]["apples"].as_str().unwrap_or_default().to_owned()
}

/// Asks for a file of a backup by hand; gives the path through the API server and the token.
fn ask(machine: &Machine, name: &str, backup: &str) -> (String, String) {
    let request = json!({
        "apiVersion": "velero.io/v1", "kind": "DownloadRequest", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"target": {"kind": "BackupLog", "name": backup}},
    });
    machine.apply(&request.to_string()).unwrap();
    let mut token = String::new();
    wait_until("the answer to a download request", Duration::from_secs(20), || {
        let request = machine.read(&format!("/apis/velero.io/v1/namespaces/{NAMESPACE}/downloadrequests/{name}"))?;
        let annotation = request["metadata"]["annotations"]["velero.io/download-token"].as_str();
        token = annotation.unwrap_or_default().to_owned();
        anyhow::ensure!(!token.is_empty(), "no token yet");
        Ok(())
    })
    .unwrap();
    (format!("/api/v1/namespaces/{NAMESPACE}/pods/velero:8085/proxy/downloads/{name}"), token)
}

/// Only the token of a request opens its file.
fn check_tokens(machine: &Machine, backup: &str) {
    let (path, token) = ask(machine, "mine", backup);
    let (_, other) = ask(machine, "other", backup);
    let get = |token: &str| machine.kubectl(&["get", "--raw", &format!("{path}?token={token}")]);
    assert!(get(&token).unwrap().starts_with('\u{1f}'), "the file is not compressed");
    for wrong in [other.as_str(), "", &token[1..], "0"] {
        let refusal = get(wrong).unwrap_err().to_string();
        assert!(refusal.contains("NotFound"), "{wrong:?}: {refusal}");
    }
}

#[test]
fn a_server_in_a_pod_hands_out_what_only_it_can_reach() {
    // What a run that broke off left would count as this run's.
    TestBox::down("in-cluster").unwrap();
    harness::run("in-cluster", BoxKind::Whole, async |cluster| {
        let machine = cluster.test_box.machine();
        let shop = [objects::namespace("shop"), objects::config_map("shop", "stock", "apples", "12")];
        load::create_all(&cluster.client, shop.into_iter()).await.unwrap();
        start_server(machine);
        let notes = make_and_read(machine, "in-directory", "default");
        assert!(!notes.contains("cannot reach"), "{notes}");
        for (backup, location) in [("in-bucket", "far"), ("in-hidden-bucket", "hidden")] {
            let notes = make_and_read(machine, backup, location);
            let fallbacks = notes.matches("fetching the file through the Kubernetes API server").count();
            assert_eq!(fallbacks, 1, "the store is tried once and then known to be out of reach: {notes}");
        }
        check_tokens(machine, "in-directory");
    });
    TestBox::down("in-cluster").unwrap();
}

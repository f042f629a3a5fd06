//! Does to the records what the backup driver and the data manager of the vSphere plugin do.
//!
//! A Snapshot is taken at once, and gets an Upload named after it. How the Upload goes depends on the claim's name:
//! `good` is completed once its door is open; `failing` fails and is tried again, for good once its door is open;
//! `refused` gets no snapshot; others go on until they are cancelled. None moves a byte before the first door is open.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use velero_cluster::{Cluster, Error, ResourceType, Result};
use velero_plugin_vsphere::{snapshots, uploads};
use velero_testkit::TestCluster;

/// The door before the first byte.
pub(crate) const GATE: &str = "gate";

const TOTAL: i64 = 1 << 30;

/// A running controller; it ends with the test.
pub(crate) struct Controller {
    doors: Arc<Mutex<BTreeSet<String>>>,
    task: JoinHandle<()>,
}

impl Controller {
    pub(crate) fn start(cluster: &Cluster, namespace: &str) -> Self {
        let doors: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let (cluster, namespace, open) = (cluster.clone(), namespace.to_owned(), Arc::clone(&doors));
        let task = tokio::spawn(async move {
            loop {
                let doors = open.lock().unwrap().clone();
                match look(&cluster, &namespace, &doors).await {
                    // Somebody was faster; the next look sees what they did.
                    Ok(()) | Err(Error::Conflict(_) | Error::NotFound(_)) => {}
                    Err(error) => panic!("the controller fails: {error}"),
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self { doors, task }
    }

    pub(crate) fn open(&self, door: &str) {
        self.doors.lock().unwrap().insert(door.to_owned());
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(cluster: &Cluster, namespace: &str, doors: &BTreeSet<String>) -> Result<()> {
    for mut snapshot in list(cluster, &snapshots(), namespace).await? {
        if snapshot["status"]["phase"] == "New" {
            take(cluster, namespace, &mut snapshot).await?;
        }
    }
    for mut upload in list(cluster, &uploads(), namespace).await? {
        let Some(status) = next_status(&upload, doors) else { continue };
        let name = upload["spec"]["snapshotReference"].as_str().unwrap().split_once('/').unwrap().1.to_owned();
        let phase = match status["phase"].as_str().unwrap() {
            "InProgress" => "Uploading",
            "UploadError" => "UploadFailed",
            "Completed" => "Uploaded",
            other => other,
        };
        upload["status"] = status.clone();
        cluster.update(&uploads(), Some(namespace), &upload).await?;
        if let Some(mut snapshot) = cluster.get(snapshots().item(Some(namespace), &name)).await? {
            snapshot["status"]["phase"] = json!(phase);
            cluster.update_status(&snapshots(), Some(namespace), &snapshot).await?;
        }
    }
    Ok(())
}

async fn take(cluster: &Cluster, namespace: &str, snapshot: &mut Value) -> Result<()> {
    let (name, claim) = (text(snapshot, "/metadata/name"), text(snapshot, "/spec/resourceHandle/name"));
    let is_refused = claim == "refused";
    let is_local = text(snapshot, "/spec/backupRepository").is_empty();
    snapshot["status"] = if is_refused {
        json!({"phase": "SnapshotFailed", "message": "the datastore is read-only"})
    } else {
        json!({"phase": "Snapshotted", "snapshotID": format!("pvc:{namespace}/{claim}:1")})
    };
    cluster.update_status(&snapshots(), Some(namespace), snapshot).await?;
    if is_refused || is_local {
        return Ok(());
    }
    let upload = json!({
        "apiVersion": "datamover.cnsdp.vmware.com/v1alpha1",
        "kind": "Upload",
        "metadata": {"name": format!("upload-{name}"), "namespace": namespace, "labels": {"claim": claim}},
        "spec": {"snapshotID": "ivd:1:1", "backupRepository": "br-1", "snapshotReference": format!("{namespace}/{name}")},
        "status": {"phase": "New"},
    });
    cluster.create(&uploads(), Some(namespace), &upload).await.map(drop)
}

/// The next status of an Upload; `None` when it stays as it is.
fn next_status(upload: &Value, doors: &BTreeSet<String>) -> Option<Value> {
    let (phase, claim) = (text(upload, "/status/phase"), text(upload, "/metadata/labels/claim"));
    let (is_open, is_begun) = (doors.contains(&claim), doors.contains(GATE));
    let status = |phase: &str, done: i64, message: &str| {
        let progress = json!({"bytesDone": done, "totalBytes": TOTAL});
        Some(
            json!({"phase": phase, "message": message, "progress": progress, "startTimestamp": "2026-01-02T03:04:05Z"}),
        )
    };
    match (phase.as_str(), claim.as_str()) {
        ("Completed" | "Canceled" | "UploadFailedAfterRetry", _) => None,
        ("Canceling", _) => status("Canceled", TOTAL / 2, ""),
        _ if upload["spec"]["uploadCancel"] == true => status("Canceling", TOTAL / 2, ""),
        ("New", _) => status("InProgress", 0, ""),
        ("InProgress", "good") if is_begun && is_open => status("Completed", TOTAL, ""),
        ("UploadError", "failing") if is_open => status("UploadFailedAfterRetry", TOTAL / 2, "the bucket is full"),
        ("InProgress", "failing") if is_begun => status("UploadError", TOTAL / 2, "the bucket is full"),
        ("InProgress", _) if is_begun && upload["status"]["progress"]["bytesDone"] == 0 => {
            status("InProgress", TOTAL / 2, "")
        }
        _ => None,
    }
}

async fn list(cluster: &Cluster, kind: &ResourceType, namespace: &str) -> Result<Vec<Value>> {
    let pages: Vec<_> = cluster.list_pages(kind, Some(namespace), None, 500).try_collect().await?;
    pages.iter().flat_map(|page: &velero_cluster::Page| &page.items).map(velero_cluster::RawItem::to_value).collect()
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Installs the kinds of the records: as the vSphere plugin defines them, but without the details of their schemas.
pub(crate) fn install_definitions(cluster: &TestCluster) {
    let machine = cluster.test_box.machine();
    for (group, kind, plural, has_status) in [
        ("backupdriver.cnsdp.vmware.com", "Snapshot", "snapshots", true),
        ("backupdriver.cnsdp.vmware.com", "BackupRepositoryClaim", "backuprepositoryclaims", false),
        ("datamover.cnsdp.vmware.com", "Upload", "uploads", false),
    ] {
        let name = format!("{plural}.{group}");
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut version =
            json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        if has_status {
            version["subresources"] = json!({"status": {}});
        }
        let names =
            json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
        });
        machine.apply(&definition.to_string()).unwrap();
        machine.wait_for_definition(&name).unwrap();
    }
}

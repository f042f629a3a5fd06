//! The plugin binary under our host against a real API server, with a controller that does to the records what those of
//! the vSphere plugin do.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod controller;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use velero_api::v1::Backup;
use velero_cluster::{Cluster, ResourceType, types};
use velero_plugin::host::{HostSettings, PluginDirectory, PluginManager};
use velero_plugin::{BackupItemAction, BackupItemOutcome, Error, OperationProgress};
use velero_plugin_vsphere::{snapshots, uploads};
use velero_testkit::{TestCluster, cluster_test};

use crate::controller::{Controller, GATE, install_definitions};

const ACTION: &str = "velero.io/vsphere-upload";

/// The action in its process, and the cluster it works on.
struct Stage {
    cluster: Cluster,
    namespace: String,
    _folder: tempfile::TempDir,
    manager: PluginManager,
    action: Arc<dyn BackupItemAction>,
    backup: Backup,
}

impl Stage {
    async fn set(cluster: &TestCluster) -> Self {
        install_definitions(cluster);
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_velero-plugin-vsphere"), folder.path().join("vsphere")).unwrap();
        let environment = vec![("KUBECONFIG".to_owned(), cluster.test_box.kubeconfig().display().to_string())];
        let settings = HostSettings { environment, ..HostSettings::default() };
        let manager = PluginDirectory::discover(folder.path(), settings).await.unwrap().manager();
        let action = Arc::clone(manager.actions().unwrap().backup_item_action(ACTION).unwrap());
        let namespace = cluster.namespace.clone();
        let metadata = json!({"name": "nightly", "namespace": namespace});
        let spec = json!({"storageLocation": "default"});
        let backup = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let cluster = Cluster::from_client(cluster.client.clone());
        Self { cluster, namespace, _folder: folder, manager, action, backup }
    }

    /// Gives the namespace a repository to upload to, as the vSphere plugin does.
    async fn add_repository(&self) {
        let kind = ResourceType::new(
            "backupdriver.cnsdp.vmware.com/v1alpha1",
            "BackupRepositoryClaim",
            "backuprepositoryclaims",
            true,
        );
        let claim = json!({
            "apiVersion": "backupdriver.cnsdp.vmware.com/v1alpha1",
            "kind": "BackupRepositoryClaim",
            "metadata": {"name": "brc-1", "namespace": self.namespace},
            "allowedNamespaces": [self.namespace],
            "repositoryDriver": "s3repository.astrolabe.vmware-tanzu.com",
            "repopsitoryParameters": {"bucket": ""},
            "backupRepository": "br-1",
        });
        self.cluster.create(&kind, Some(&self.namespace), &claim).await.unwrap();
    }

    /// A claim, whose volume is of that driver; its name says how its upload goes ([`controller`]).
    async fn claim(&self, name: &str, driver: &str) -> Value {
        let volume = format!("{}-{name}", self.namespace);
        let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "csi": {"driver": driver, "volumeHandle": "fcd-1"}});
        let object =
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec});
        self.cluster.create(&volumes(), None, &object).await.unwrap();
        let metadata = json!({"name": name, "namespace": self.namespace});
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {"volumeName": volume}})
    }

    async fn vsphere_claim(&self, name: &str) -> Value {
        self.claim(name, "csi.vsphere.vmware.com").await
    }

    async fn execute(&self, claim: &Value) -> velero_plugin::Result<BackupItemOutcome> {
        self.action.execute(claim, &self.backup).await
    }

    async fn begin(&self, name: &str) -> String {
        self.execute(&self.vsphere_claim(name).await).await.unwrap().operation_id.unwrap()
    }

    /// Asks until the answer is enough.
    async fn follow(&self, id: &str, enough: impl Fn(&OperationProgress) -> bool) -> OperationProgress {
        let mut last = OperationProgress::default();
        for _ in 0..300 {
            last = self.action.progress(id, &self.backup).await.unwrap();
            if enough(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("operation {id} stays {last:?}");
    }

    async fn upload_of(&self, id: &str) -> Value {
        let name = format!("upload-{}", id.split_once('/').unwrap().1);
        self.cluster.get(uploads().item(Some(&self.namespace), &name)).await.unwrap().unwrap()
    }

    async fn remove_volumes(&self, names: &[&str]) {
        for name in names {
            let volume = format!("{}-{name}", self.namespace);
            self.cluster.delete(volumes().item(None, &volume), &Default::default()).await.unwrap();
        }
    }
}

fn volumes() -> ResourceType {
    types::PERSISTENT_VOLUMES.clone()
}

fn completed(progress: &OperationProgress) -> bool {
    progress.completed
}

#[test]
fn an_upload_is_followed_to_its_end() {
    cluster_test(|cluster| async move {
        let stage = Stage::set(&cluster).await;
        stage.add_repository().await;
        let controller = Controller::start(&stage.cluster, &stage.namespace);
        let claim = stage.vsphere_claim("good").await;
        let outcome = stage.execute(&claim).await.unwrap();
        let id = outcome.operation_id.unwrap();
        let stored = outcome.updated_item.unwrap();
        let annotation = &stored["metadata"]["annotations"]["velero-plugin-for-vsphere/item-snapshot-blob"];
        assert!(annotation.is_string(), "{stored}");
        let (namespace, name) = id.split_once('/').unwrap();
        let record = stage.cluster.get(snapshots().item(Some(namespace), name)).await.unwrap().unwrap();
        assert_eq!(record["metadata"]["labels"]["velero.io/backup-name"], "nightly");
        assert_eq!(record["spec"]["backupRepository"], "br-1");

        // The record of this backup is found by whoever comes second, in the cluster or in the item.
        assert_eq!(stage.execute(&claim).await.unwrap().operation_id.as_deref(), Some(id.as_str()));
        let again = stage.execute(&stored).await.unwrap();
        assert_eq!((again.operation_id.as_deref(), again.updated_item), (Some(id.as_str()), None));

        stage.follow(&id, |progress| !progress.completed && progress.started.is_some()).await;
        controller.open(GATE);
        let half = stage.follow(&id, |progress| progress.n_completed > 0).await;
        assert!(!half.completed && half.n_total > half.n_completed && half.operation_units == "Bytes", "{half:?}");
        // The plugin's process may go away in between.
        stage.manager.stop().await;
        controller.open("good");
        let ended = stage.follow(&id, completed).await;
        assert_eq!((ended.error.as_str(), ended.n_completed), ("", ended.n_total));
        stage.remove_volumes(&["good"]).await;
    });
}

#[test]
fn an_upload_that_fails_is_cancelled_or_disappears_is_an_error_with_the_reason() {
    cluster_test(|cluster| async move {
        let stage = Stage::set(&cluster).await;
        stage.add_repository().await;
        let controller = Controller::start(&stage.cluster, &stage.namespace);
        controller.open(GATE);

        // An error that is tried again is no end.
        let failing = stage.begin("failing").await;
        let retried = stage.follow(&failing, |progress| progress.description.contains("UploadError")).await;
        assert!(!retried.completed && retried.description.contains("the bucket is full"), "{retried:?}");
        controller.open("failing");
        let ended = stage.follow(&failing, completed).await;
        assert_eq!(ended.error, "UploadFailedAfterRetry: the bucket is full");

        let long = stage.begin("long").await;
        stage.follow(&long, |progress| progress.n_completed > 0).await;
        stage.action.cancel(&long, &stage.backup).await.unwrap();
        assert_eq!(stage.upload_of(&long).await["spec"]["uploadCancel"], true);
        assert_eq!(stage.follow(&long, completed).await.error, "the upload was canceled");
        stage.action.cancel(&long, &stage.backup).await.unwrap();

        let lost = stage.begin("lost").await;
        stage.follow(&lost, |progress| progress.n_completed > 0).await;
        let upload = stage.upload_of(&lost).await["metadata"]["name"].as_str().unwrap().to_owned();
        stage.cluster.delete(uploads().item(Some(&stage.namespace), &upload), &Default::default()).await.unwrap();
        let ended = stage.follow(&lost, completed).await;
        assert_eq!(ended.error, format!("the Upload of Snapshot record {lost} is gone; take another backup"));
        let (namespace, name) = lost.split_once('/').unwrap();
        stage.cluster.delete(snapshots().item(Some(namespace), name), &Default::default()).await.unwrap();
        let ended = stage.follow(&lost, |progress| progress.error.contains("and its Upload are gone")).await;
        assert!(ended.completed);
        stage.action.cancel(&lost, &stage.backup).await.unwrap();
        stage.remove_volumes(&["failing", "long", "lost"]).await;
    });
}

#[test]
fn what_is_not_for_the_action_is_left_alone_and_what_cannot_work_is_named() {
    cluster_test(|cluster| async move {
        let mut stage = Stage::set(&cluster).await;
        let foreign = stage.claim("foreign", "csi.example.com").await;
        let unbound = json!({"metadata": {"name": "u", "namespace": stage.namespace}, "spec": {}});
        for claim in [&foreign, &unbound] {
            assert_eq!(stage.execute(claim).await.unwrap(), BackupItemOutcome::default(), "{claim}");
        }
        let refused = stage.vsphere_claim("refused").await;
        let error = stage.execute(&refused).await.unwrap_err().to_string();
        assert!(error.contains("no BackupRepositoryClaim") && error.contains("/refused"), "{error}");

        stage.add_repository().await;
        let _controller = Controller::start(&stage.cluster, &stage.namespace);
        let error = stage.execute(&refused).await.unwrap_err().to_string();
        assert!(error.contains("SnapshotFailed: the datastore is read-only"), "{error}");
        let unknown = stage.action.progress("nonsense", &stage.backup).await.unwrap_err();
        assert!(matches!(unknown, Error::InvalidOperationId { .. }), "{unknown}");
        stage.backup.spec.snapshot_volumes = Some(false);
        assert_eq!(stage.execute(&refused).await.unwrap(), BackupItemOutcome::default());
        stage.remove_volumes(&["foreign", "refused"]).await;
    });
}

#[test]
fn in_local_mode_a_snapshot_is_safe_once_it_is_taken() {
    cluster_test(|cluster| async move {
        let stage = Stage::set(&cluster).await;
        let metadata = json!({"name": "velero-vsphere-plugin-feature-states", "namespace": stage.namespace});
        let features =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"local-mode": "true"}});
        stage.cluster.create(&types::CONFIG_MAPS, Some(&stage.namespace), &features).await.unwrap();
        let _controller = Controller::start(&stage.cluster, &stage.namespace);
        let id = stage.begin("local").await;
        let ended = stage.follow(&id, completed).await;
        assert_eq!(ended.error, "");
        stage.remove_volumes(&["local"]).await;
    });
}

#[test]
fn the_binary_copies_itself_beside_the_server() {
    let binary = env!("CARGO_BIN_EXE_velero-plugin-vsphere");
    let folder = tempfile::tempdir().unwrap();
    let installed = std::process::Command::new(binary).arg("install").arg(folder.path()).output().unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let copy = std::fs::metadata(folder.path().join("velero-plugin-vsphere")).unwrap();
    assert_eq!(copy.len(), std::fs::metadata(binary).unwrap().len());
}

//! A backup whose snapshots are moved, with a real CSI driver, and its restore; the test is the data mover.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::metadata::{label, name};
use velero_api::records::ResultsFile;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, BackupSpec, Restore, RestorePhase, RestoreSpec};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_controllers::server::Settings;
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, load, objects};

use crate::operation_table::hasty;
use crate::support::{Server, assert_restore_phase, delete_namespace, read, settings};

/// How often is looked at something that takes time.
pub(crate) const LOOKS: usize = 600;
pub(crate) const PAUSE: Duration = Duration::from_millis(200);

/// A namespace with claims of the box's CSI driver, and a server that moves data.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) namespace: String,
}

impl Scene {
    pub(crate) async fn new(cluster: &TestCluster, claims: &[&str]) -> Self {
        Self::with_settings(cluster, claims, settings(cluster)).await
    }

    /// The same with a server that is set up otherwise.
    pub(crate) async fn with_settings(cluster: &TestCluster, claims: &[&str], settings: Settings) -> Self {
        let (directory, namespace) = (tempfile::tempdir().unwrap(), unique_name("moved"));
        let server = start(cluster, settings).await;
        server.directory_location("default", directory.path()).await;
        let mut made = vec![objects::namespace(&namespace)];
        made.extend(claims.iter().map(|claim| objects::claim(&namespace, claim)));
        load::create_all(&cluster.client, made.into_iter()).await.unwrap();
        let scene = Self { server, directory, namespace };
        for claim in claims {
            scene.until_bound(&scene.namespace, claim).await;
        }
        scene
    }

    pub(crate) fn cluster(&self) -> &TestCluster {
        &self.server.cluster
    }

    pub(crate) fn spec(&self) -> BackupSpec {
        BackupSpec {
            included_namespaces: vec![self.namespace.clone()],
            snapshot_move_data: Some(true),
            ..BackupSpec::default()
        }
    }

    pub(crate) fn claims(&self, namespace: &str) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.cluster().client.clone(), namespace)
    }

    /// Waits until a claim has a volume; gives its name.
    pub(crate) async fn until_bound(&self, namespace: &str, claim: &str) -> String {
        for _ in 0..LOOKS {
            let found = self.claims(namespace).get_opt(claim).await.unwrap();
            let is_bound = |found: &PersistentVolumeClaim| found.status.as_ref()?.phase.clone();
            if found.as_ref().and_then(is_bound).as_deref() == Some("Bound") {
                return found.unwrap().spec.unwrap().volume_name.unwrap();
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("claim {namespace}/{claim} is not bound");
    }

    /// Waits until a backup or restore has as many transfers as wanted; gives them by the claim.
    pub(crate) async fn transfers<K: VeleroResource>(
        &self,
        owner: &str,
        count: usize,
        claim: impl Fn(&K) -> String,
    ) -> BTreeMap<String, K> {
        let mut found = BTreeMap::new();
        for _ in 0..LOOKS {
            let all = self.server.api::<K>().list(&ListParams::default()).await.unwrap();
            let owned = all.into_iter().filter(|transfer| {
                [labels::BACKUP_NAME, labels::RESTORE_NAME].iter().any(|key| label(transfer, key) == owner)
            });
            found = owned.map(|transfer| (claim(&transfer), transfer)).collect();
            if found.len() == count {
                return found;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("{count} transfers of {owner} are wanted, there are {:?}", found.keys());
    }

    pub(crate) async fn uploads(&self, backup: &str, count: usize) -> BTreeMap<String, DataUpload> {
        self.transfers(backup, count, |upload: &DataUpload| upload.spec.source_pvc.clone()).await
    }

    pub(crate) async fn downloads(&self, restore: &str, count: usize) -> BTreeMap<String, DataDownload> {
        self.transfers(restore, count, |download: &DataDownload| download.spec.target_volume.pvc.clone()).await
    }

    pub(crate) async fn write<K: VeleroResource>(&self, transfer: &K, status: Value) {
        self.server.patch::<K>(name(transfer), json!({"status": status})).await;
    }

    /// The VolumeSnapshots of the namespace.
    pub(crate) async fn snapshots(&self) -> Vec<String> {
        let kind = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshot");
        let resource = ApiResource::from_gvk_with_plural(&kind, "volumesnapshots");
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster().client.clone(), &self.namespace, &resource);
        let found = api.list(&ListParams::default()).await.unwrap();
        found.into_iter().map(|snapshot| snapshot.metadata.name.unwrap()).collect()
    }

    pub(crate) async fn until_no_snapshots(&self) {
        for _ in 0..LOOKS {
            if self.snapshots().await.is_empty() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("left are {:?}", self.snapshots().await);
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, path: &str) -> T {
        read(&self.directory.path().join(path))
    }

    pub(crate) fn errors(&self, kind: &str, owner: &str) -> Vec<String> {
        let file =
            if kind == "backups" { format!("{owner}-results.gz") } else { format!("restore-{owner}-results.gz") };
        let results: ResultsFile = self.read(&format!("{kind}/{owner}/{file}"));
        let errors = results.errors;
        errors.namespaces.into_values().flatten().chain(errors.velero).chain(errors.cluster).collect()
    }

    pub(crate) async fn begin(&self, backup: &str, spec: BackupSpec) {
        self.server.create(Backup::new(&self.cluster().namespace, backup, spec)).await;
    }

    pub(crate) async fn ended(&self, backup: &str) -> Backup {
        self.server.ended(backup).await
    }

    pub(crate) async fn restarted(self) -> Self {
        let Self { server, directory, namespace } = self;
        let cluster = server.cluster.clone();
        server.stop().await;
        Self { server: start(&cluster, settings(&cluster)).await, directory, namespace }
    }

    pub(crate) async fn end(self, others: &[&str]) {
        for namespace in others.iter().copied().chain([self.namespace.as_str()]) {
            delete_namespace(self.cluster(), namespace).await;
        }
        self.server.stop().await;
    }
}

async fn start(cluster: &TestCluster, settings: Settings) -> Server {
    let settings = Settings { features: ["EnableCSI"].into_iter().collect(), ..hasty(settings) };
    Server::start_with(cluster.clone(), settings).await
}

pub(crate) fn done(snapshot: &str) -> Value {
    json!({"phase": "Completed", "snapshotID": snapshot, "incrementalBytes": 3, "nodeOS": "linux",
        "progress": {"bytesDone": 9, "totalBytes": 9}, "startTimestamp": "2026-01-01T00:00:00Z",
        "completionTimestamp": "2026-01-01T00:01:00Z"})
}

/// The claim waits for a volume that nobody else has; then it has what the old one had.
pub(crate) async fn check_restore(scene: &Scene) -> String {
    let copy = unique_name("copy");
    let mapping = [(scene.namespace.clone(), copy.clone())].into();
    let spec = RestoreSpec { backup_name: "b".to_owned(), namespace_mapping: mapping, ..RestoreSpec::default() };
    scene.server.create(Restore::new(&scene.cluster().namespace, "r", spec)).await;
    let download = scene.downloads("r", 1).await.remove("data").unwrap();
    assert_eq!((download.spec.snapshot_id.as_str(), download.spec.snapshot_size), ("k1", 9));
    assert_eq!((&download.spec.target_volume.namespace, &download.spec.source_namespace), (&copy, &scene.namespace));
    let notes: Api<ConfigMap> = Api::namespaced(scene.cluster().client.clone(), &scene.cluster().namespace);
    let of_uploads = ListParams::default().labels("velero.io/resource-usage=DataUpload");
    assert_eq!(notes.list(&of_uploads).await.unwrap().items.len(), 1);
    let waits = |restore: &Restore| *restore.status.phase() == RestorePhase::WaitingForPluginOperations;
    scene.server.until("r", waits).await;

    let claim = scene.claims(&copy).get("data").await.unwrap().spec.unwrap();
    let mark = claim.selector.unwrap().match_labels.unwrap().remove(labels::DYNAMIC_PV_RESTORE).unwrap();
    assert!(claim.volume_name.is_none() && mark.starts_with(&format!("{copy}.data.")), "{mark}");
    let filled = unique_name("filled");
    // For this claim alone, as movers make it: any other claim of the cluster would take it as well.
    let owner = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": copy, "name": "data"});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": filled, "labels": {labels::DYNAMIC_PV_RESTORE: mark}},
        "spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "box",
            "claimRef": owner, "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": format!("/tmp/{filled}")}},
    });
    let volumes: Api<PersistentVolume> = Api::all(scene.cluster().client.clone());
    let made = volumes.create(&PostParams::default(), &serde_json::from_value(volume).unwrap()).await.unwrap();
    assert_eq!(Some(scene.until_bound(&copy, "data").await), made.metadata.name);
    scene.write(&download, json!({"phase": "Completed", "progress": {"bytesDone": 9, "totalBytes": 9}})).await;
    let restore = scene.server.restore_ended("r").await;
    assert_restore_phase(&restore, &RestorePhase::Completed);
    let volume = volumes.get(name(&made)).await.unwrap();
    let policy = volume.spec.unwrap().persistent_volume_reclaim_policy;
    assert_eq!(policy.as_deref(), Some("Delete"), "that of the old volume");
    let told: Value = scene.read("restores/r/r-volumeinfo.json.gz");
    assert_eq!((&told[0]["snapshotDataMoved"], &told[0]["pvcNamespace"]), (&json!(true), &json!(copy)), "{told}");
    assert_eq!(told[0]["snapshotDataMovementInfo"]["snapshotHandle"], "k1");
    for _ in 0..LOOKS {
        if notes.list(&of_uploads).await.unwrap().items.is_empty() {
            return copy;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("what was written down for vendors is still there");
}

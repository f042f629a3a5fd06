//! Claims whose volumes are folders, and a place for the snapshots of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use velero_api::v1::{BackupSpec, VolumeSnapshotLocation, VolumeSnapshotLocationSpec};
use velero_archive::gzjson;
use velero_controllers::server::Settings;
use velero_testkit::TestCluster;
use velero_testkit::harness::unique_name;

use crate::plugins::with_example;
use crate::support::{Server, delete_namespace};

/// The snapshotter whose snapshots are complete at once.
pub(crate) const FIRST_VERSION: &str = "example.velero.io/volumes-v1";
/// The snapshotter whose uploads are followed.
pub(crate) const SECOND_VERSION: &str = "example.velero.io/volumes";
/// The file in every volume.
const FILE: &str = "content";

/// The folders of a test: backups, snapshots, volumes and plugins.
pub(crate) struct Folders {
    all: TempDir,
}

impl Folders {
    pub(crate) fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        for name in ["backups", "snapshots", "volumes", "plugins"] {
            fs::create_dir(all.path().join(name)).unwrap();
        }
        Self { all }
    }

    pub(crate) fn settings(&self, cluster: &TestCluster) -> Settings {
        let plugins = self.all.path().join("plugins");
        // A server before may have left its link to the plugin.
        fs::remove_dir_all(&plugins).unwrap();
        fs::create_dir(&plugins).unwrap();
        with_example(cluster, &plugins)
    }

    /// A server with the example plugin, a place for backups, and one for snapshots by a provider.
    pub(crate) async fn serve(&self, cluster: &TestCluster, provider: &str) -> Server {
        let server = Server::start_with(cluster.clone(), self.settings(cluster)).await;
        self.locate(&server, provider).await;
        server
    }

    /// Makes a place for backups, and one for snapshots by a provider.
    pub(crate) async fn locate(&self, server: &Server, provider: &str) {
        server.directory_location("default", &self.all.path().join("backups")).await;
        server.create(self.location(&server.cluster, "folders", provider)).await;
    }

    pub(crate) fn location(&self, cluster: &TestCluster, name: &str, provider: &str) -> VolumeSnapshotLocation {
        let path = self.all.path().join("snapshots").display().to_string();
        let config = BTreeMap::from([("path".to_owned(), path)]);
        let spec = VolumeSnapshotLocationSpec { provider: provider.to_owned(), config, ..Default::default() };
        VolumeSnapshotLocation::new(&cluster.namespace, name, spec)
    }

    /// A file of a backup or restore.
    pub(crate) fn read<T: DeserializeOwned>(&self, path: &str) -> T {
        let content = fs::read(self.all.path().join("backups").join(path));
        gzjson::decode(&content.unwrap_or_else(|error| panic!("{path}: {error}")), 1 << 20).unwrap()
    }

    pub(crate) fn has_backup(&self, backup: &str) -> bool {
        self.all.path().join("backups/backups").join(backup).exists()
    }

    /// The snapshots that exist, as the plugin keeps them.
    pub(crate) fn snapshots(&self) -> Vec<Value> {
        let entries = fs::read_dir(self.all.path().join("snapshots")).unwrap().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| path.is_file());
        files.map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap()).collect()
    }

    fn volume(&self, name: &str) -> PathBuf {
        self.all.path().join("volumes").join(name)
    }
}

/// A namespace with claims.
pub(crate) struct Claims<'a> {
    pub(crate) namespace: String,
    cluster: TestCluster,
    folders: &'a Folders,
}

impl<'a> Claims<'a> {
    pub(crate) async fn new(cluster: &TestCluster, folders: &'a Folders) -> Self {
        let namespace = unique_name("claims");
        let metadata = ObjectMeta { name: Some(namespace.clone()), ..ObjectMeta::default() };
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await.unwrap();
        Self { namespace, cluster: cluster.clone(), folders }
    }

    /// The name of the volume of a claim.
    pub(crate) fn volume(&self, claim: &str) -> String {
        format!("{}-{claim}", self.namespace)
    }

    /// Makes a claim and its volume, with annotations for the snapshotter, and waits until they are bound.
    pub(crate) async fn add(&self, claim: &str, annotations: Value) {
        let (volume, folder) = (self.volume(claim), self.folders.volume(&self.volume(claim)));
        fs::create_dir(&folder).unwrap();
        self.fill(claim, &format!("content of {claim}"));
        let (size, modes) = (json!({"storage": "1Mi"}), json!(["ReadWriteOnce"]));
        let labels = json!({"topology.kubernetes.io/zone": "zone-1"});
        self.create_volume(json!({
            "metadata": {"name": volume, "annotations": annotations, "labels": labels},
            "spec": {"capacity": size, "accessModes": modes, "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "", "hostPath": {"path": folder},
                "claimRef": {"namespace": self.namespace, "name": claim}},
        }))
        .await;
        let object = json!({
            "metadata": {"name": claim},
            "spec": {"accessModes": modes, "storageClassName": "", "volumeName": volume,
                "resources": {"requests": size}},
        });
        let created = claims(&self.cluster, &self.namespace).create(&PostParams::default(), &parse(object)).await;
        created.unwrap();
        bound(&self.cluster, &self.namespace, claim).await;
    }

    /// Makes a volume and waits until it has been noticed: a claim that comes before that is bound much later.
    async fn create_volume(&self, volume: Value) {
        let volumes: Api<PersistentVolume> = Api::all(self.cluster.client.clone());
        let made = volumes.create(&PostParams::default(), &parse(volume)).await.unwrap();
        for _ in 0..300 {
            let found = volumes.get(made.metadata.name.as_deref().unwrap()).await.unwrap();
            if found.status.and_then(|status| status.phase).as_deref() == Some("Available") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("nobody notices {:?}", made.metadata.name);
    }

    /// Writes into the volume of a claim.
    pub(crate) fn fill(&self, claim: &str, content: &str) {
        fs::write(self.folders.volume(&self.volume(claim)).join(FILE), content).unwrap();
    }

    pub(crate) fn spec(&self) -> BackupSpec {
        BackupSpec { included_namespaces: vec![self.namespace.clone()], ..BackupSpec::default() }
    }

    /// Removes the namespace and the volumes, and waits until they are gone.
    pub(crate) async fn remove(&self) {
        remove(&self.cluster, &self.namespace).await;
    }

    /// Removes the namespace and the volumes, for those who need nothing in their place.
    pub(crate) async fn remove_without_waiting(&self) {
        delete_namespace(&self.cluster, &self.namespace).await;
        delete_volumes(&self.cluster, &self.namespace).await;
    }
}

fn parse<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn claims(cluster: &TestCluster, namespace: &str) -> Api<PersistentVolumeClaim> {
    Api::namespaced(cluster.client.clone(), namespace)
}

/// Waits until a claim is bound; gives the name of its volume, the volume, and what is in its folder.
pub(crate) async fn bound(cluster: &TestCluster, namespace: &str, claim: &str) -> (String, PersistentVolume, String) {
    let mut last = None;
    for _ in 0..300 {
        last = claims(cluster, namespace).get_opt(claim).await.unwrap();
        let phase = last.as_ref().and_then(|claim| claim.status.as_ref()?.phase.clone());
        if phase.as_deref() == Some("Bound") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let name = last.as_ref().and_then(|claim| claim.spec.as_ref()?.volume_name.clone());
    let name = name.unwrap_or_else(|| panic!("{namespace}/{claim} is not bound: {last:?}"));
    let volume = Api::<PersistentVolume>::all(cluster.client.clone()).get(&name).await.unwrap();
    let path = volume.spec.as_ref().unwrap().host_path.as_ref().unwrap().path.clone();
    let content = fs::read_to_string(Path::new(&path).join(FILE)).unwrap();
    (name, volume, content)
}

/// Removes a namespace and the volumes of its claims, and waits until they are gone.
pub(crate) async fn remove(cluster: &TestCluster, namespace: &str) {
    delete_namespace(cluster, namespace).await;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    for _ in 0..600 {
        let is_there = namespaces.get_opt(namespace).await.unwrap().is_some();
        if delete_volumes(cluster, namespace).await == 0 && !is_there {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{namespace} or its volumes do not go away");
}

/// Deletes the volumes of the claims of a namespace; gives how many there were. They go when their claims are gone.
async fn delete_volumes(cluster: &TestCluster, namespace: &str) -> usize {
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    let mut count = 0;
    for volume in volumes.list(&Default::default()).await.unwrap() {
        let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()?.namespace.as_deref());
        if claim == Some(namespace) {
            count += 1;
            let _ = volumes.delete(volume.metadata.name.as_deref().unwrap(), &DeleteParams::default()).await;
        }
    }
    count
}

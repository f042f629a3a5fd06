//! What tests of movers share: a repository in the box's store, objects that ask for transfers, and folders to compare.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use velero_api::repository::{self, KOPIA, PASSWORD_KEY, PASSWORD_SECRET};
use velero_api::resource::VeleroResource;
use velero_api::v1::{
    BackupRepository, BackupRepositoryPhase, BackupRepositorySpec, BackupStorageLocation, PodVolumeBackup,
    PodVolumeBackupSpec, PodVolumeRestore, PodVolumeRestoreSpec, Restore, RestoreSpec,
};
use velero_controllers::mover::{MovedKind, Settings, run_until};
use velero_repo::Repository;
use velero_repo::clock::system_clock;
use velero_repo::store::{BlobStore, open_location};
use velero_store::{Credentials, StoreConfig};
use velero_testkit::TestCluster;
use velero_testkit::server::credentials_file;

use crate::s3_support::s3;
use crate::support::{api, install_definitions, secret};

/// The namespace whose volumes are moved.
pub(crate) const SHOP: &str = "shop";
const PASSWORD: &str = "correct horse";

/// A cluster with a location, a repository that is ready, and room for volumes.
pub(crate) struct Movers {
    pub(crate) cluster: TestCluster,
    pub(crate) folder: TempDir,
    /// The UID of the restore whose pods wait; nobody carries it out.
    pub(crate) restore: String,
}

impl Movers {
    pub(crate) async fn new(cluster: &TestCluster) -> Self {
        install_definitions(cluster).await;
        secret(cluster, "cloud-credentials", "cloud", &credentials_file()).await;
        // White space around a password does not belong to it.
        secret(cluster, PASSWORD_SECRET, PASSWORD_KEY, &format!("{PASSWORD}\n")).await;
        let spec = RestoreSpec { backup_name: "b".to_owned(), ..Default::default() };
        let restore = Restore::new(&cluster.namespace, "r", spec);
        let restore = api::<Restore>(cluster).create(&PostParams::default(), &restore).await.unwrap();
        let restore = restore.metadata.uid.unwrap();
        let movers = Self { cluster: cluster.clone(), folder: tempfile::tempdir().unwrap(), restore };
        movers.create(BackupStorageLocation::new(&cluster.namespace, "default", s3(cluster))).await;
        let store = movers.store().await;
        let hour = Duration::from_secs(3600);
        let made =
            tokio::task::spawn_blocking(move || Repository::create(store, PASSWORD, hour, &system_clock()).map(drop));
        made.await.unwrap().unwrap();
        movers.make_repository("default", BackupRepositoryPhase::Ready, "").await;
        movers
    }

    /// How many snapshots the repository has.
    pub(crate) async fn snapshots(&self) -> usize {
        let store = self.store().await;
        let counted = tokio::task::spawn_blocking(move || {
            Repository::open(store, PASSWORD).and_then(|repository| Ok(repository.snapshots()?.len()))
        });
        counted.await.unwrap().unwrap()
    }

    async fn store(&self) -> Arc<dyn BlobStore> {
        let mut config = StoreConfig::from_spec(&s3(&self.cluster));
        config.credentials = Some(Credentials::Content(credentials_file()));
        open_location(&config, &repository::folder(&self.cluster.namespace, SHOP)).await.unwrap()
    }

    /// Makes the BackupRepository of the shop in a location, as its controller would have left it.
    pub(crate) async fn make_repository(&self, location: &str, phase: BackupRepositoryPhase, message: &str) {
        let spec = BackupRepositorySpec {
            volume_namespace: SHOP.to_owned(),
            backup_storage_location: location.to_owned(),
            repository_type: KOPIA.to_owned(),
            ..Default::default()
        };
        let name = repository::name(SHOP, location, KOPIA);
        let mut object = BackupRepository::new(&self.cluster.namespace, &name, spec);
        object.metadata.labels = Some(repository::labels(SHOP, location, KOPIA));
        (object.status.phase, object.status.message) = (Some(phase), message.to_owned());
        self.create(object).await;
    }

    pub(crate) async fn create<K: VeleroResource>(&self, object: K) -> K {
        api::<K>(&self.cluster).create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn patch<K: VeleroResource>(&self, name: &str, patch: serde_json::Value) {
        api::<K>(&self.cluster).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Makes an object that is in progress, as a node agent leaves it.
    pub(crate) async fn begin<K: VeleroResource>(&self, object: K) -> K {
        let name = object.meta().name.clone().unwrap();
        self.create(object).await;
        self.patch::<K>(&name, json!({"status": {"phase": "InProgress"}})).await;
        api::<K>(&self.cluster).get(&name).await.unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An empty folder.
    pub(crate) fn empty(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        path
    }

    pub(crate) fn settings(&self, kind: MovedKind, name: &str, volume: &Path) -> Settings {
        Settings {
            namespace: self.cluster.namespace.clone(),
            kubeconfig: Some(self.cluster.test_box.kubeconfig()),
            resource_timeout: Duration::from_secs(20),
            termination_log: self.path(&format!("{name}.said")),
            progress_period: Duration::from_secs(1),
            node: "node-1".to_owned(),
            ..Settings::new(kind, name, volume)
        }
    }

    /// Runs a mover to its end: whether it succeeded, and its last words.
    pub(crate) async fn run(&self, settings: Settings) -> (bool, String) {
        let said = settings.termination_log.clone();
        let moved = run_until(settings, CancellationToken::new()).await;
        (moved, fs::read_to_string(said).unwrap())
    }

    /// The reasons and messages of the Events on an object, oldest first where their time tells.
    pub(crate) async fn events(&self, name: &str) -> Vec<(String, String)> {
        let events: Api<Event> = Api::namespaced(self.cluster.client.clone(), &self.cluster.namespace);
        let of = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let mut events = events.list(&of).await.unwrap().items;
        events.sort_by_key(|event| event.metadata.resource_version.clone().unwrap().parse::<u64>().unwrap());
        events.into_iter().map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
    }
}

fn pod() -> ObjectReference {
    ObjectReference { namespace: Some(SHOP.to_owned()), name: Some("web-0".to_owned()), ..Default::default() }
}

pub(crate) fn pod_volume_backup(movers: &Movers, name: &str) -> PodVolumeBackup {
    let spec = PodVolumeBackupSpec {
        node: "node-1".to_owned(),
        pod: pod(),
        volume: "data".to_owned(),
        backup_storage_location: "default".to_owned(),
        uploader_type: "kopia".to_owned(),
        ..Default::default()
    };
    PodVolumeBackup::new(&movers.cluster.namespace, name, spec)
}

/// The restore of a snapshot, for a pod that waits for it.
pub(crate) fn pod_volume_restore(movers: &Movers, name: &str, snapshot: &str) -> PodVolumeRestore {
    let spec = PodVolumeRestoreSpec {
        pod: pod(),
        volume: "data".to_owned(),
        backup_storage_location: "default".to_owned(),
        uploader_type: "kopia".to_owned(),
        snapshot_id: snapshot.to_owned(),
        source_namespace: SHOP.to_owned(),
        ..Default::default()
    };
    let mut object = PodVolumeRestore::new(&movers.cluster.namespace, name, spec);
    object.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "velero.io/v1".to_owned(),
        kind: "Restore".to_owned(),
        name: "r".to_owned(),
        uid: movers.restore.clone(),
        ..Default::default()
    }]);
    object
}

/// Fills a folder with what volumes have: folders, links, odd modes, an empty file and one of several pieces.
pub(crate) fn fill(volume: &Path) {
    fs::create_dir_all(volume.join("deep/er/empty")).unwrap();
    fs::write(volume.join("deep/er/text"), "hello").unwrap();
    fs::write(volume.join("none"), "").unwrap();
    let large: Vec<u8> = (0..12_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(volume.join("large"), large).unwrap();
    symlink("deep/er/text", volume.join("link")).unwrap();
    symlink("/nowhere", volume.join("dangling")).unwrap();
    let mode = |path: &str, mode| fs::set_permissions(volume.join(path), fs::Permissions::from_mode(mode)).unwrap();
    mode("deep/er/text", 0o4751);
    mode("none", 0o000);
    mode("deep/er", 0o1777);
    std::os::unix::fs::chown(volume.join("large"), Some(1000), Some(2000)).unwrap();
}

/// What is in a folder: for each path mode, owner, time of files, and content or where a link leads.
pub(crate) fn describe(volume: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![volume.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let look = fs::symlink_metadata(&path).unwrap();
            let content = if look.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if look.is_dir() {
                folders.push(path.clone());
                String::new()
            } else {
                let bytes = fs::read(&path).unwrap();
                let sum = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
                format!("{} bytes, {sum:x}", bytes.len())
            };
            let text = format!(
                "{:o} {}:{} {}.{} {content}",
                look.mode(),
                look.uid(),
                look.gid(),
                look.mtime(),
                look.mtime_nsec()
            );
            found.insert(path.strip_prefix(volume).unwrap().display().to_string(), text);
        }
    }
    found
}

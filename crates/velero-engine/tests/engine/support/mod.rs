//! What the tests of the pipeline share: a backup run against a real API server, read back from its archive.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod lossy_api;
pub mod restore;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use velero_api::FeatureFlags;
use velero_api::v1::{Backup, BackupProgress, BackupSpec};
use velero_archive::ArchiveReader;
use velero_cluster::{Cluster, Discovery, ResourceType, types};
use velero_engine::Journal;
use velero_engine::backup::{self, BackupError, BackupOutcome, BackupRequest};
use velero_engine::journal::{Level, LogFormat};
use velero_plugin::Actions;
use velero_testkit::TestCluster;

/// A cluster, and a namespace of the test's own in it.
pub struct Scene {
    pub cluster: Cluster,
    pub namespace: String,
    pub discovery: Arc<Discovery>,
    pub extra_actions: Actions,
    pub features: FeatureFlags,
    pub page_size: u32,
}

/// A finished backup.
pub struct Taken {
    pub outcome: BackupOutcome,
    pub journal: Journal,
    pub progress: BackupProgress,
    /// Paths in the order of the archive.
    pub paths: Vec<String>,
    pub bodies: BTreeMap<String, Value>,
}

impl Scene {
    pub async fn new(test: &TestCluster) -> Self {
        let cluster = Cluster::from_client(test.client.clone());
        let discovery = Arc::new(cluster.discover().await.unwrap());
        Self {
            cluster,
            namespace: test.namespace.clone(),
            discovery,
            extra_actions: Actions::default(),
            features: FeatureFlags::default(),
            page_size: 500,
        }
    }

    /// Installs Velero's kinds, unless another test has.
    pub async fn install_definitions(&self) {
        let kind = &types::CUSTOM_RESOURCE_DEFINITIONS;
        for definition in velero_api::crd::all() {
            match self.cluster.create(kind, None, &definition).await {
                Err(error) if error.is_already_exists() => {}
                created => drop(created.unwrap()),
            }
            let name = definition["metadata"]["name"].as_str().unwrap();
            let is_served = |live: Option<&Value>| {
                let conditions = live.and_then(|live| live["status"]["conditions"].as_array()).into_iter().flatten();
                conditions.clone().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
            };
            self.cluster.wait_until(kind.item(None, name), Duration::from_secs(30), is_served).await.unwrap();
        }
    }

    /// Creates an object in the namespace of the test.
    pub async fn create(&self, kind: &ResourceType, object: Value) -> Value {
        self.cluster.create(kind, Some(&self.namespace), &object).await.unwrap()
    }

    pub async fn config_map(&self, name: &str, labels: Value) {
        let object = json!({"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}});
        self.create(&config_maps(), object).await;
    }

    /// A spec that takes the namespace of the test.
    pub fn own_namespace(&self) -> BackupSpec {
        BackupSpec { included_namespaces: vec![self.namespace.clone()], ..BackupSpec::default() }
    }

    pub fn request(&self, spec: BackupSpec) -> BackupRequest {
        let mut backup = Backup::new("velero", "b1", spec.clone());
        let problems = velero_rules::resource_filter::validate_and_complete(&mut backup.spec);
        assert!(problems.is_empty(), "{problems:?}");
        let mut actions =
            velero_plugin_core::builtin(&self.cluster, &self.discovery, &self.features, "velero").unwrap();
        actions.append(self.extra_actions.clone()).unwrap();
        BackupRequest {
            backup,
            asked: spec,
            cluster: self.cluster.clone(),
            discovery: Arc::clone(&self.discovery),
            actions,
            policies: None,
            features: self.features.clone(),
            page_size: self.page_size,
            item_block_workers: 1,
            recorder: Default::default(),
            limits: Default::default(),
            owed_hooks: Default::default(),
            copy_means: Default::default(),
        }
    }

    pub async fn try_back_up(&self, request: BackupRequest) -> Result<Taken, BackupError> {
        let journal = Journal::for_backup("velero", "b1", LogFormat::Text, Level::Info);
        let (sender, receiver) = watch::channel(BackupProgress::default());
        let (outcome, bytes) = backup::run(request, Vec::new(), &journal, sender).await?;
        let mut paths = Vec::new();
        let mut bodies = BTreeMap::new();
        ArchiveReader::new(bytes.as_slice())
            .for_each(|entry| -> Result<(), velero_archive::Error> {
                paths.push(entry.path.to_owned());
                if entry.path.ends_with(".json") {
                    bodies.insert(entry.path.to_owned(), serde_json::from_slice(entry.body).unwrap());
                }
                Ok(())
            })
            .unwrap();
        let progress = receiver.borrow().clone();
        Ok(Taken { outcome, journal, progress, paths, bodies })
    }

    pub async fn back_up(&self, spec: BackupSpec) -> Taken {
        self.try_back_up(self.request(spec)).await.unwrap()
    }

    /// Waits until an object looks as expected.
    pub async fn wait(&self, kind: &ResourceType, name: &str, expected: impl Fn(&Value) -> bool + Send + Sync) {
        let is_so = |object: Option<&Value>| object.is_some_and(&expected);
        self.cluster.wait_until(kind.item(Some(&self.namespace), name), Duration::from_secs(30), is_so).await.unwrap();
    }
}

impl Taken {
    pub fn has(&self, path: &str) -> bool {
        self.bodies.contains_key(path)
    }

    /// The names of the items of a namespaced type, in the order of the archive.
    pub fn names(&self, resource: &str, namespace: &str) -> Vec<&str> {
        let folder = format!("resources/{resource}/namespaces/{namespace}/");
        let names = self.paths.iter().filter_map(|path| path.strip_prefix(folder.as_str())?.strip_suffix(".json"));
        names.collect()
    }

    pub fn body(&self, path: &str) -> &Value {
        self.bodies.get(path).unwrap_or_else(|| panic!("{path} is not in {:?}", self.paths))
    }
}

pub fn config_maps() -> ResourceType {
    types::CONFIG_MAPS.clone()
}

pub fn pods() -> ResourceType {
    types::PODS.clone()
}

pub fn claims() -> ResourceType {
    types::PERSISTENT_VOLUME_CLAIMS.clone()
}

pub fn volumes() -> ResourceType {
    types::PERSISTENT_VOLUMES.clone()
}

pub fn service_accounts() -> ResourceType {
    types::SERVICE_ACCOUNTS.clone()
}

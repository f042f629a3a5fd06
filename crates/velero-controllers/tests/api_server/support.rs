//! A server of the test's own, and what tests do with it.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use velero_api::resource::VeleroResource;
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, BackupStorageLocation, BackupStorageLocationSpec, Restore, RestorePhase,
    RestoreSpec,
};
use velero_controllers::server::{MetricsSettings, Settings, run_until_with};
use velero_plugin::Actions;
use velero_testkit::TestCluster;
use velero_testkit::harness::unique_name;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server and the cluster it serves.
pub(crate) struct Server {
    pub(crate) cluster: TestCluster,
    pub(crate) address: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Settings for a server in the test's namespace.
pub(crate) fn settings(cluster: &TestCluster) -> Settings {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    Settings {
        namespace: cluster.namespace.clone(),
        kubeconfig: Some(cluster.test_box.kubeconfig()),
        metrics: MetricsSettings { metrics_address: format!("127.0.0.1:{port}") },
        ..Settings::default()
    }
}

impl Server {
    pub(crate) async fn start(cluster: TestCluster) -> Self {
        let settings = settings(&cluster);
        Self::start_with(cluster, settings).await
    }

    pub(crate) async fn start_with(cluster: TestCluster, settings: Settings) -> Self {
        Self::start_with_actions(cluster, settings, Actions::default()).await
    }

    pub(crate) async fn start_with_actions(cluster: TestCluster, settings: Settings, actions: Actions) -> Self {
        install_definitions(&cluster).await;
        let (stop, address) = (CancellationToken::new(), settings.metrics.metrics_address.clone());
        let running = run_until_with(settings, actions, stop.clone());
        let task = tokio::spawn(async move { running.await.expect("the server must run") });
        let server = Self { cluster, address, stop, task };
        server.until_ready().await;
        server
    }

    async fn until_ready(&self) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.http("/readyz").await.is_none_or(|answer| answer.code != 200) {
            assert!(!self.task.is_finished(), "the server ended");
            assert!(tokio::time::Instant::now() < deadline, "the server is not ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends the server as a signal would.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .expect("the server must end")
            .expect("the server must not panic");
    }

    pub(crate) fn api<K: VeleroResource>(&self) -> Api<K> {
        api(&self.cluster)
    }

    /// Makes a location in a directory and waits until it has been looked at.
    pub(crate) async fn directory_location(&self, name: &str, directory: &Path) -> BackupStorageLocation {
        let mut spec = BackupStorageLocationSpec { provider: "fs".to_owned(), default: true, ..Default::default() };
        spec.object_storage.bucket = directory.display().to_string();
        self.location(name, spec).await
    }

    /// Makes a location and waits until it has been looked at.
    pub(crate) async fn location(&self, name: &str, spec: BackupStorageLocationSpec) -> BackupStorageLocation {
        self.create(BackupStorageLocation::new(&self.cluster.namespace, name, spec)).await;
        self.until(name, |location: &BackupStorageLocation| location.status.phase.is_some()).await
    }

    pub(crate) async fn create<K: VeleroResource>(&self, object: K) -> K {
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    /// Makes a backup and waits for its end.
    pub(crate) async fn backup(&self, name: &str, spec: BackupSpec) -> Backup {
        self.create(Backup::new(&self.cluster.namespace, name, spec)).await;
        self.ended(name).await
    }

    /// Waits for the end of a backup.
    pub(crate) async fn ended(&self, backup: &str) -> Backup {
        self.until(backup, has_ended).await
    }

    /// Waits for the end of a restore.
    pub(crate) async fn restore_ended(&self, restore: &str) -> Restore {
        self.until(restore, |restore: &Restore| restore.status.phase().is_terminal()).await
    }

    /// Makes a restore and waits for its end.
    pub(crate) async fn restore(&self, name: &str, spec: RestoreSpec) -> Restore {
        self.restore_object(Restore::new(&self.cluster.namespace, name, spec)).await
    }

    /// Makes a restore with all it has and waits for its end.
    pub(crate) async fn restore_object(&self, restore: Restore) -> Restore {
        let restore = self.create(restore).await;
        self.restore_ended(restore.metadata.name.as_deref().unwrap_or_default()).await
    }

    /// Waits until an object is as wanted.
    pub(crate) async fn until<K: VeleroResource>(&self, name: &str, wanted: impl Fn(&K) -> bool) -> K {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let found = self.api::<K>().get_opt(name).await.unwrap();
            match found {
                Some(object) if wanted(&object) => return object,
                found => assert!(tokio::time::Instant::now() < deadline, "waited in vain: {found:#?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone<K: VeleroResource>(&self, name: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while let Some(object) = self.api::<K>().get_opt(name).await.unwrap() {
            assert!(tokio::time::Instant::now() < deadline, "still there: {object:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn patch<K: VeleroResource>(&self, name: &str, patch: serde_json::Value) {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn http(&self, path: &str) -> Option<Answer> {
        get(&self.address, path).await
    }

    /// Waits until the metrics have all these lines, or series of these names where the value is left out: an end is
    /// counted a moment after it is written.
    pub(crate) async fn until_metrics(&self, expected: &[impl AsRef<str>]) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let metrics = self.http("/metrics").await.unwrap().text();
            let is = |line: &str, expected: &str| match line.strip_prefix(expected) {
                Some(value) => value.is_empty() || value.starts_with(' '),
                None => false,
            };
            let expected = expected.iter().map(AsRef::as_ref);
            let missing: Vec<&str> =
                expected.filter(|expected| !metrics.lines().any(|line| is(line, expected))).collect();
            if missing.is_empty() {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{missing:?} are missing in\n{metrics}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until no line of the metrics has a piece.
    pub(crate) async fn until_no_metrics(&self, piece: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let metrics = self.http("/metrics").await.unwrap().text();
            if !metrics.contains(piece) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{piece} is still in\n{metrics}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// An answer to an HTTP request.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// Asks an address for a path; `None` when nobody answers.
pub(crate) async fn get(address: &str, path: &str) -> Option<Answer> {
    let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    let head_end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..head_end]).into_owned();
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { code, body: answer[head_end + 4..].to_vec() })
}

pub(crate) fn has_ended(backup: &Backup) -> bool {
    backup.status.phase().is_terminal()
}

/// A restore of a backup whose namespace gets another name.
pub(crate) fn into_copy(backup: &str, namespace: &str, copy: &str) -> RestoreSpec {
    let namespace_mapping = [(namespace.to_owned(), copy.to_owned())].into();
    RestoreSpec { backup_name: backup.to_owned(), namespace_mapping, ..RestoreSpec::default() }
}

/// A file of a backup or restore.
pub(crate) fn read<T: serde::de::DeserializeOwned>(file: &Path) -> T {
    let content = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    velero_archive::gzjson::decode(&content, 1 << 20).unwrap()
}

pub(crate) fn api<K: VeleroResource>(cluster: &TestCluster) -> Api<K> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// Installs Velero's kinds, or brings them up to date where another test has installed the original's.
pub(crate) async fn install_definitions(cluster: &TestCluster) {
    let machine = cluster.test_box.machine().clone();
    let installed = tokio::task::spawn_blocking(move || machine.install_velero_definitions());
    installed.await.unwrap().expect("the definitions must be served");
}

/// A namespace with ConfigMaps in it, to be backed up.
pub(crate) struct Workload {
    pub(crate) namespace: String,
    cluster: TestCluster,
}

impl Workload {
    pub(crate) async fn new(cluster: &TestCluster, config_maps: usize) -> Self {
        let namespace = unique_name("shop");
        let metadata = ObjectMeta { name: Some(namespace.clone()), ..ObjectMeta::default() };
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await.unwrap();
        let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &namespace);
        for number in 0..config_maps {
            let object =
                json!({"metadata": {"name": format!("settings-{number}")}, "data": {"number": number.to_string()}});
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
        Self { namespace, cluster: cluster.clone() }
    }

    /// A backup of this namespace.
    pub(crate) fn spec(&self) -> BackupSpec {
        BackupSpec { included_namespaces: vec![self.namespace.clone()], ..BackupSpec::default() }
    }

    pub(crate) async fn delete(self) {
        delete_namespace(&self.cluster, &self.namespace).await;
    }
}

pub(crate) async fn delete_namespace(cluster: &TestCluster, namespace: &str) {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    namespaces.delete(namespace, &DeleteParams::default()).await.unwrap();
}

/// Makes a Secret with one key in the server's namespace.
pub(crate) async fn secret(cluster: &TestCluster, name: &str, key: &str, value: &str) {
    let api: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let object = json!({"metadata": {"name": name}, "stringData": {key: value}});
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Makes a ConfigMap with one key in the server's namespace.
pub(crate) async fn config_map(cluster: &TestCluster, name: &str, key: &str, value: &str) {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let object = json!({"metadata": {"name": name}, "data": {key: value}});
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Fails unless a backup is in the phase, showing its status.
#[track_caller]
pub(crate) fn assert_phase(backup: &Backup, phase: &BackupPhase) {
    assert_eq!(backup.status.phase(), phase, "{:#?}", backup.status);
}

/// Fails unless a restore is in the phase, showing its status.
#[track_caller]
pub(crate) fn assert_restore_phase(restore: &Restore, phase: &RestorePhase) {
    assert_eq!(restore.status.phase(), phase, "{:#?}", restore.status);
}

/// Fails unless one of the texts holds a piece.
#[track_caller]
pub(crate) fn assert_says<T: AsRef<str> + Debug>(texts: &[T], piece: &str) {
    assert!(texts.iter().any(|text| text.as_ref().contains(piece)), "{piece:?} is not said in {texts:?}");
}

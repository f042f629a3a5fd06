//! Movers of both editions, as processes on the same objects and one repository: what one saved the other restores and
//! continues, and their last words are the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use velero_api::repository::{self, KOPIA, PASSWORD_KEY, PASSWORD_SECRET};
use velero_repo::Repository;
use velero_repo::clock::system_clock;
use velero_repo::store::{BlobStore, open_location};
use velero_store::{Credentials, StoreConfig};
use velero_testkit::harness::TestCluster;
use velero_testkit::parts::BUCKET;
use velero_testkit::server::{Edition, credentials_file};
use velero_testkit::{TestBox, cluster_test};

use crate::repository_peer::as_velero_restores;
use crate::sample::PASSWORD;
use crate::trees::{Random, describe};

/// The namespace whose volumes are moved.
const SHOP: &str = "shop";
/// Runs a mover with a `/dev` of its own, which has the file its last words go to, and copies that. Its most memory is noted
/// too.
const IN_A_CONTAINER: &str = r#"
dev=$(mktemp -d) && mount -t tmpfs tmpfs "$dev" || exit 90
for name in null zero random urandom; do : > "$dev/$name"; mount --bind "/dev/$name" "$dev/$name" || exit 91; done
: > "$dev/termination-log"
mount --move "$dev" /dev || exit 92
said=$1; shift
[ -z "$SMALL_VOLUME" ] || mount -t tmpfs -o size=1m tmpfs "$SMALL_VOLUME" || exit 93
"$@" & mover=$!
while grep Rss "/proc/$mover/status" >> "$said.memory" 2> /dev/null; do sleep 0.05; done
wait $mover; code=$?
cat /dev/termination-log > "$said"
exit $code
"#;

struct Movers {
    cluster: TestCluster,
    folder: tempfile::TempDir,
    /// The UID of the restore whose pods wait; nobody carries it out.
    restore: String,
}

impl Movers {
    async fn new(cluster: &TestCluster) -> Self {
        let machine = cluster.test_box.machine();
        machine.install_velero_definitions().unwrap();
        TestBox::make_bucket(BUCKET).unwrap();
        let mut movers =
            Self { cluster: cluster.clone(), folder: tempfile::tempdir().unwrap(), restore: String::new() };
        let secret = |name: &str, key: &str, value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: value}});
        movers.apply(secret("cloud-credentials", "cloud", &credentials_file()));
        movers.apply(secret(PASSWORD_SECRET, PASSWORD_KEY, PASSWORD));
        movers.apply(json!({
            "apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": "r"}, "spec": {"backupName": "b"},
        }));
        let path = format!("/apis/velero.io/v1/namespaces/{}/restores/r", cluster.namespace);
        movers.restore = machine.read(&path).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        let config = movers.config();
        movers.apply(json!({
            "apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": {"name": "default"},
            "spec": {
                "provider": "aws",
                "objectStorage": {"bucket": BUCKET, "prefix": cluster.namespace},
                "config": config.config,
                "credential": {"name": "cloud-credentials", "key": "cloud"},
            },
        }));
        let folder = repository::folder(&cluster.namespace, SHOP);
        let store: Arc<dyn BlobStore> = open_location(&config, &folder).await.unwrap();
        let hour = Duration::from_secs(3600);
        let made =
            tokio::task::spawn_blocking(move || Repository::create(store, PASSWORD, hour, &system_clock()).map(drop));
        made.await.unwrap().unwrap();
        movers.apply(json!({
            "apiVersion": "velero.io/v1", "kind": "BackupRepository",
            "metadata": {"name": repository::name(SHOP, "default", KOPIA), "labels": repository::labels(SHOP, "default", KOPIA)},
            "spec": {
                "volumeNamespace": SHOP, "backupStorageLocation": "default", "repositoryType": KOPIA,
                "maintenanceFrequency": "1h0m0s",
            },
            "status": {"phase": "Ready"},
        }));
        movers
    }

    fn config(&self) -> StoreConfig {
        let config = StoreConfig::new("aws", BUCKET)
            .with("region", "us-east-1")
            .with("s3ForcePathStyle", "true")
            .with("s3Url", TestBox::store_url_for_pods());
        StoreConfig { credentials: Some(Credentials::Content(credentials_file())), ..config }
    }

    fn apply(&self, mut object: Value) {
        object["metadata"]["namespace"] = json!(self.cluster.namespace);
        self.cluster.test_box.machine().apply(&object.to_string()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the mover of an edition; whether it succeeded, and its last words.
    async fn run(&self, edition: Edition, arguments: &[&str]) -> (bool, String) {
        self.run_in(edition, arguments, None).await
    }

    /// The same, with a volume of one MiB mounted onto a folder.
    async fn run_in(&self, edition: Edition, arguments: &[&str], small: Option<&Path>) -> (bool, String) {
        let said = self.path("said");
        let home = self.path(&format!("{edition:?}"));
        fs::create_dir_all(&home).unwrap();
        let mut command = self.cluster.test_box.machine().command("unshare");
        command.args(["-m", "sh", "-c", IN_A_CONTAINER, "sh"]).arg(&said).arg(edition.binary().unwrap());
        command.args(arguments).arg("--resource-timeout=1m0s").args(["--namespace", &self.cluster.namespace]);
        command.env("KUBECONFIG", self.cluster.test_box.kubeconfig()).env("HOME", home).env("NODE_NAME", "node-1");
        command.env("SMALL_VOLUME", small.unwrap_or(Path::new("")));
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let log = [output.stdout, output.stderr].concat();
        println!("{edition:?} {arguments:?}: {}", String::from_utf8_lossy(&log));
        (output.status.success(), fs::read_to_string(said).unwrap())
    }

    async fn back_up(&self, edition: Edition, name: &str, volume: &Path) -> Value {
        self.apply(json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": {"name": name},
            "spec": {
                "node": "node-1", "pod": {"kind": "Pod", "namespace": SHOP, "name": "web-0"}, "volume": "data",
                "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": KOPIA,
            },
            "status": {"phase": "InProgress"},
        }));
        let path = format!("--volume-path={}", volume.display());
        let object = format!("--pod-volume-backup={name}");
        let (moved, said) = self.run(edition, &["pod-volume", "backup", &path, &object]).await;
        assert!(moved, "{said}");
        serde_json::from_str(&said).unwrap()
    }

    /// The most memory of the mover that ran last, in MiB; the pages of the binary, which is not built for size here, aside.
    fn peak(&self) -> u64 {
        let file = self.path("said.memory");
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(file).unwrap();
        println!("RssFile {:?}", text.lines().rfind(|line| line.starts_with("RssFile")));
        let lines = text.lines().filter_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next());
        lines.map(|number| number.parse::<u64>().unwrap() / 1024).max().unwrap()
    }

    fn ask_for_restore(&self, name: &str, snapshot: &Value) -> PathBuf {
        self.apply(json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeRestore",
            "metadata": {"name": name, "ownerReferences": [
                {"apiVersion": "velero.io/v1", "kind": "Restore", "name": "r", "uid": self.restore},
            ]},
            "spec": {
                "pod": {"kind": "Pod", "namespace": SHOP, "name": "web-0"}, "volume": "data", "snapshotID": snapshot,
                "sourceNamespace": SHOP, "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": KOPIA,
            },
            "status": {"phase": "InProgress"},
        }));
        let target = self.path(name);
        fs::create_dir(&target).unwrap();
        target
    }

    async fn restore(&self, edition: Edition, name: &str, snapshot: &Value) -> (PathBuf, Value) {
        let target = self.ask_for_restore(name, snapshot);
        let path = format!("--volume-path={}", target.display());
        let object = format!("--pod-volume-restore={name}");
        let (moved, said) = self.run(edition, &["pod-volume", "restore", &path, &object, "--cache-volume-path="]).await;
        assert!(moved, "{said}");
        assert!(target.join(".velero").join(&self.restore).is_file());
        fs::remove_dir_all(target.join(".velero")).unwrap();
        (target, serde_json::from_str(&said).unwrap())
    }
}

fn keys(record: &Value) -> Vec<&String> {
    record.as_object().unwrap().keys().collect()
}

#[test]
fn each_edition_restores_and_continues_what_the_other_saved() {
    cluster_test(|cluster| async move {
        let movers = Movers::new(&cluster).await;
        let volume = movers.path("volume");
        fs::create_dir(&volume).unwrap();
        let mut random = Random::new(16);
        random.tree(&volume);
        fs::write(volume.join("large"), random.bytes(6_000_000)).unwrap();

        let ours = movers.back_up(Edition::Ours, "b-ours", &volume).await;
        let (target, said) = movers.restore(Edition::Peer, "r-peer", &ours["snapshotID"]).await;
        // The root of the target had its file for the pod put in and taken out.
        let without_root = |folder: &Path| {
            let mut tree = as_velero_restores(describe(folder));
            tree.remove("");
            tree
        };
        assert_eq!(without_root(&target), without_root(&volume));
        assert_eq!(said["totalBytes"], ours["totalBytes"]);

        fs::write(volume.join("new"), random.bytes(1000)).unwrap();
        let theirs = movers.back_up(Edition::Peer, "b-peer", &volume).await;
        assert_eq!(keys(&theirs), keys(&ours));
        assert!(theirs["incrementalBytes"].as_i64().unwrap() <= 1000, "it goes on from ours: {theirs}");
        let (target, said) = movers.restore(Edition::Ours, "r-ours", &theirs["snapshotID"]).await;
        assert_eq!(without_root(&target), without_root(&volume));
        assert_eq!(said["target"]["volumeMode"], "Filesystem");

        fs::write(volume.join("newer"), random.bytes(500)).unwrap();
        let again = movers.back_up(Edition::Ours, "b-again", &volume).await;
        assert_eq!(again["incrementalBytes"], 500, "it goes on from theirs: {again}");
    });
}

#[test]
fn a_mover_takes_at_most_128_mib_and_says_when_a_volume_is_full() {
    cluster_test(|cluster| async move {
        let movers = Movers::new(&cluster).await;
        let volume = movers.path("volume");
        let mut random = Random::new(17);
        fs::create_dir_all(volume.join("small")).unwrap();
        for number in 0..20 {
            fs::write(volume.join(format!("large-{number}")), random.bytes(25 << 20)).unwrap();
        }
        for number in 0..10_000 {
            fs::write(volume.join(format!("small/{number}")), random.bytes(300)).unwrap();
        }
        let saved = movers.back_up(Edition::Ours, "b-1", &volume).await;
        // With what the binary needs once it is built for size, about 20 MiB, a pod has 128.
        let backup = movers.peak();
        let (target, _) = movers.restore(Edition::Ours, "r-1", &saved["snapshotID"]).await;
        let restore = movers.peak();
        println!("peak MiB: backup {backup}, restore {restore}");
        assert!(backup <= 108 && restore <= 108, "backup {backup} MiB, restore {restore} MiB");
        assert_eq!(describe(&target).len(), describe(&volume).len());

        let target = movers.ask_for_restore("r-2", &saved["snapshotID"]);
        let path = format!("--volume-path={}", target.display());
        let arguments = ["pod-volume", "restore", &path, "--pod-volume-restore=r-2"];
        let (moved, said) = movers.run_in(Edition::Ours, &arguments, Some(&target)).await;
        assert!(!moved && said.contains(r#"volume "data" of pod "shop/web-0" was not restored"#), "{said}");
        assert!(said.contains("the volume is full") && said.contains("asks for more storage"), "{said}");
    });
}

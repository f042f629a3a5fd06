//! What a person at a terminal sees while waiting for a backup or restore with the data of volumes. The test plays the server
//! and the node agents.

use std::io::{BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::metadata::uid;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, PodVolumeBackup, PodVolumeRestore, Restore};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_testkit::{TestCluster, cluster_test};

const PATIENCE: Duration = Duration::from_secs(30);

/// A command at a terminal, and what it has shown so far.
struct Terminal {
    command: Child,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn run(cluster: &TestCluster, arguments: &str) -> Self {
        let velero = format!(
            "{} --namespace {} --kubeconfig {} {arguments}",
            env!("CARGO_BIN_EXE_velero"),
            cluster.namespace,
            cluster.test_box.kubeconfig().display()
        );
        let mut command = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", &velero, "/dev/null"])
            .env("HOME", "/nonexistent")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let shown = Arc::<Mutex<String>>::default();
        let (mut output, kept) = (BufReader::new(command.stdout.take().unwrap()), shown.clone());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut piece) {
                kept.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        });
        Self { command, shown }
    }

    async fn until_shown(&self, text: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !self.shown.lock().unwrap().contains(text) {
            let shown = self.shown.lock().unwrap().clone();
            assert!(tokio::time::Instant::now() < deadline, "{text:?} is not shown:\n{shown}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn ends_well(&mut self) {
        let status = self.command.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.shown.lock().unwrap());
    }
}

fn api<K: VeleroResource>(cluster: &TestCluster) -> Api<K> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

async fn patch<K: VeleroResource>(cluster: &TestCluster, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    api::<K>(cluster).patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Waits for the object the command has made; gives its UID.
async fn made<K: VeleroResource>(cluster: &TestCluster, name: &str) -> String {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = api::<K>(cluster).get_opt(name).await.unwrap() {
            return uid(&found).to_owned();
        }
        assert!(tokio::time::Instant::now() < deadline, "{name} was not made");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn transfer<K: VeleroResource>(cluster: &TestCluster, name: &str, owner: (&str, &str), spec: Value) {
    let (label, uid) = owner;
    let object = json!({
        "apiVersion": K::api_version_text(), "kind": K::KIND, "spec": spec,
        "metadata": {"name": name, "namespace": cluster.namespace, "labels": {label: uid}},
        "status": {"phase": "InProgress", "progress": {"bytesDone": 1 << 20, "totalBytes": 4 << 20}},
    });
    let object: K = serde_json::from_value(object).unwrap();
    api::<K>(cluster).create(&PostParams::default(), &object).await.unwrap();
}

fn of_pod(volume: &str) -> Value {
    json!({
        "pod": {"namespace": "shop", "name": "web"}, "volume": volume, "node": "n", "backupStorageLocation": "default",
        "repoIdentifier": "", "snapshotID": "", "sourceNamespace": "shop",
    })
}

#[test]
fn a_person_who_waits_sees_how_far_each_volume_is() {
    cluster_test(|cluster| async move {
        for definition in velero_api::crd::all() {
            cluster.test_box.machine().apply(&definition.to_string()).unwrap();
        }
        let mut terminal = Terminal::run(&cluster, "backup create b --wait");
        let backup = made::<Backup>(&cluster, "b").await;
        let owner = (labels::BACKUP_UID, backup.as_str());
        patch::<Backup>(&cluster, "b", json!({"phase": "InProgress"})).await;
        transfer::<PodVolumeBackup>(&cluster, "b-1", owner, of_pod("data")).await;
        let snapshot = json!({"volumeSnapshot": "s", "storageClass": "c", "snapshotClass": "c"});
        let upload = json!({
            "sourceNamespace": "shop", "sourcePVC": "orders", "snapshotType": "CSI", "csiSnapshot": snapshot,
            "backupStorageLocation": "default", "operationTimeout": "1m",
        });
        transfer::<DataUpload>(&cluster, "b-2", owner, upload).await;
        transfer::<PodVolumeBackup>(&cluster, "other-1", (labels::BACKUP_UID, "another"), of_pod("of-another")).await;
        terminal.until_shown("shop/web/data [======>").await;
        terminal.until_shown("shop/orders ").await;
        terminal.until_shown("25% 1.00 MiB of 4.00 MiB").await;
        patch::<PodVolumeBackup>(&cluster, "b-1", json!({"phase": "Completed", "progress": {"bytesDone": 4 << 20}}))
            .await;
        terminal.until_shown("Volumes: 1 of 2 done, 1 moving").await;
        patch::<Backup>(&cluster, "b", json!({"phase": "Completed"})).await;
        terminal.ends_well();
        terminal.until_shown("Backup completed with status: Completed").await;
        assert!(!terminal.shown.lock().unwrap().contains("of-another"), "that is for another backup");

        let mut terminal = Terminal::run(&cluster, "restore create r --from-backup b --wait");
        let restore = made::<Restore>(&cluster, "r").await;
        let owner = (labels::RESTORE_UID, restore.as_str());
        patch::<Restore>(&cluster, "r", json!({"phase": "InProgress"})).await;
        transfer::<PodVolumeRestore>(&cluster, "r-1", owner, of_pod("logs")).await;
        let download = json!({
            "targetVolume": {"namespace": "copy", "pvc": "orders", "pv": ""}, "backupStorageLocation": "default",
            "snapshotID": "k", "sourceNamespace": "shop", "operationTimeout": "1m",
        });
        transfer::<DataDownload>(&cluster, "r-2", owner, download).await;
        terminal.until_shown("shop/web/logs [======>").await;
        terminal.until_shown("copy/orders ").await;
        patch::<Restore>(&cluster, "r", json!({"phase": "Completed"})).await;
        terminal.ends_well();
        terminal.until_shown("Restore completed with status: Completed").await;
    });
}

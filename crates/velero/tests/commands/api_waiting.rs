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
use velero_api::v1::{Backup, PodVolumeBackup, PodVolumeRestore, Restore, Schedule, ScheduleSpec};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_testkit::{TestCluster, cluster_test};

use crate::support::with_rights;

const PATIENCE: Duration = Duration::from_secs(30);

/// A command at a terminal, and what it has shown so far.
struct Terminal {
    command: Child,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn run(cluster: &TestCluster, arguments: &str) -> Self {
        Self::run_in("xterm", 80, cluster, arguments)
    }

    /// A command at a terminal of this kind and width.
    fn run_in(kind: &str, columns: u16, cluster: &TestCluster, arguments: &str) -> Self {
        let velero = format!(
            "stty columns {columns} rows 24; TERM={kind} {} --namespace {} --kubeconfig {} {arguments}",
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
        cluster.test_box.machine().install_velero_definitions().unwrap();
        let mut terminal = Terminal::run(&cluster, "backup create b --wait");
        let backup = made::<Backup>(&cluster, "b").await;
        let owner = (labels::BACKUP_UID, backup.as_str());
        terminal.until_shown("New, ").await;
        let figures = json!({"totalItems": 400, "itemsBackedUp": 100});
        patch::<Backup>(&cluster, "b", json!({"phase": "InProgress", "progress": figures})).await;
        terminal.until_shown("InProgress [==").await;
        terminal.until_shown("25%, 100/400 items").await;
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
        terminal.until_shown("Errors: 0, warnings: 0").await;
        assert!(!terminal.shown.lock().unwrap().contains("0/0 items"), "nothing is not all");
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

/// Plays the server: lets the backup that a command makes end as said.
async fn ends(cluster: &TestCluster, name: &str, status: Value) {
    made::<Backup>(cluster, name).await;
    patch::<Backup>(cluster, name, status).await;
}

/// A command in a pipe, and what became of it: its code, and all it said.
async fn piped(kubeconfig: std::path::PathBuf, namespace: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_velero"));
    command
        .args(["--namespace", namespace, "--kubeconfig"])
        .arg(kubeconfig)
        .args(arguments)
        .env("HOME", "/nonexistent");
    let output = tokio::time::timeout(2 * PATIENCE, command.output()).await.unwrap().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), format!("{out}{err}"))
}

#[test]
fn a_narrow_or_dumb_terminal_shows_what_matters() {
    cluster_test(|cluster| async move {
        cluster.test_box.machine().install_velero_definitions().unwrap();
        let figures = json!({"totalItems": 40_000, "itemsBackedUp": 10_000});
        for (kind, columns, name) in [("xterm", 60, "narrow"), ("dumb", 80, "dumb")] {
            let arguments = format!("backup create {name} --wait");
            let mut terminal = Terminal::run_in(kind, columns, &cluster, &arguments);
            made::<Backup>(&cluster, name).await;
            patch::<Backup>(&cluster, name, json!({"phase": "InProgress", "progress": figures})).await;
            terminal.until_shown("InProgress").await;
            let more = json!({"totalItems": 40_000, "itemsBackedUp": 10_001});
            terminal.until_shown("/40000 items").await;
            patch::<Backup>(&cluster, name, json!({"progress": more})).await;
            if kind == "dumb" {
                terminal.until_shown("InProgress: 10000/40000 items (25%)").await;
                assert!(!terminal.shown.lock().unwrap().contains('\u{1b}'), "a dumb terminal knows no escapes");
            }
            patch::<Backup>(&cluster, name, json!({"phase": "Completed"})).await;
            terminal.ends_well();
            let shown = terminal.shown.lock().unwrap().clone();
            assert!(shown.contains("25%") && shown.contains("/40000 items"), "{shown}");
            for line in shown.split(['\r', '\n']).filter(|line| line.contains("InProgress")) {
                let plain: String = line
                    .split('\u{1b}')
                    .map(|piece| piece.split_once(['K', 'A']).map_or(piece, |(_, rest)| rest))
                    .collect();
                assert!(plain.trim_end().chars().count() <= usize::from(columns), "{plain:?}");
            }
        }
    });
}

#[test]
fn colours_are_for_terminals_that_know_them_and_people_who_want_them() {
    cluster_test(|cluster| async move {
        cluster.test_box.machine().install_velero_definitions().unwrap();
        let spec = ScheduleSpec { schedule: "@daily".to_owned(), ..Default::default() };
        let schedule = Schedule::new(&cluster.namespace, "daily", spec);
        api::<Schedule>(&cluster).create(&PostParams::default(), &schedule).await.unwrap();
        let describe = "schedule describe daily";
        for (settings, arguments, has_colour) in [
            ("xterm", describe.to_owned(), true),
            ("xterm NO_COLOR=1", describe.to_owned(), false),
            ("dumb", describe.to_owned(), false),
            ("xterm", format!("{describe} --colorized=false"), false),
            ("xterm", format!("{describe} | cat"), false),
        ] {
            let mut terminal = Terminal::run_in(settings, 60, &cluster, &arguments);
            terminal.until_shown("Storage Location:").await;
            terminal.ends_well();
            let shown = terminal.shown.lock().unwrap().clone();
            assert_eq!(shown.contains("\u{1b}["), has_colour, "{settings} {arguments}: {shown:?}");
        }
    });
}

#[test]
fn the_exit_status_tells_scripts_how_it_ended_only_if_they_ask() {
    cluster_test(|cluster| async move {
        cluster.test_box.machine().install_velero_definitions().unwrap();
        let kubeconfig = cluster.test_box.kubeconfig();
        for (name, phase, flags, code) in [
            ("a", "Completed", &["--wait", "--exit-status"][..], 0),
            ("b", "PartiallyFailed", &["--wait", "--exit-status"], 2),
            ("c", "Failed", &["--wait", "--exit-status"], 3),
            ("d", "FailedValidation", &["--wait", "--exit-status"], 4),
            ("e", "Failed", &["--wait"], 0),
        ] {
            let arguments: Vec<&str> = ["backup", "create", name].iter().chain(flags).copied().collect();
            let status = json!({"phase": phase, "failureReason": if code == 3 { "the store is away" } else { "" }});
            let (ended, ()) =
                tokio::join!(piped(kubeconfig.clone(), &cluster.namespace, &arguments), ends(&cluster, name, status));
            assert_eq!(ended.0, Some(code), "{phase}: {}", ended.1);
            assert!(ended.1.contains(&format!("Backup completed with status: {phase}")), "{}", ended.1);
            assert!(ended.1.contains("Errors: 0, warnings: 0"), "{}", ended.1);
            assert_eq!(ended.1.contains("  Reason: the store is away"), code == 3, "{}", ended.1);
        }
        let (code, said) = piped(kubeconfig, &cluster.namespace, &["backup", "create", "f", "--exit-status"]).await;
        assert!(code == Some(1) && said.contains("--wait must be given too"), "{said}");
        assert!(api::<Backup>(&cluster).get_opt("f").await.unwrap().is_none(), "nothing was begun");
    });
}

#[test]
fn who_may_not_fetch_files_is_told_so_and_still_sees_how_it_ended() {
    cluster_test(|cluster| async move {
        cluster.test_box.machine().install_velero_definitions().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let rights = [("create,get,list", "backups.velero.io")];
        let kubeconfig = with_rights(&cluster, folder.path(), "reader", &rights);
        let arguments = ["backup", "create", "b", "--wait", "--exit-status"];
        let status = json!({"phase": "PartiallyFailed", "errors": 2, "warnings": 1});
        let ((code, said), ()) =
            tokio::join!(piped(kubeconfig, &cluster.namespace, &arguments), ends(&cluster, "b", status));
        assert_eq!(code, Some(2), "{said}");
        for words in [
            "Backup completed with status: PartiallyFailed",
            "Errors: 2, warnings: 1",
            "The messages cannot be shown: ",
            "may create and get downloadrequests.velero.io",
        ] {
            assert!(said.contains(words), "{words:?} is missing in {said}");
        }

        let blind = with_rights(&cluster, folder.path(), "blind", &[("create", "backups.velero.io")]);
        let (code, said) = piped(blind, &cluster.namespace, &["backup", "create", "unseen", "--wait"]).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("goes on, but you may not see how it ends"), "{said}");
    });
}

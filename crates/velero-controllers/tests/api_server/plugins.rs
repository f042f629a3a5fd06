//! Plugin binaries under the server: found, used, killed.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::json;
use velero_api::v1::{
    Backup, BackupPhase, BackupStorageLocationSpec, DeleteBackupRequest, DeleteBackupRequestSpec, DownloadTargetKind,
    Restore, RestorePhase, RestoreSpec, ServerStatusRequest,
};
use velero_controllers::server::Settings;
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, cluster_test, install};

use crate::downloads::download;
use crate::operation_table::hasty;
use crate::s3_support::{s3, s3_keys};
use crate::steered::Courses;
use crate::support::{
    Server, assert_phase, assert_restore_phase, assert_says, delete_namespace, get, secret, settings,
};

/// How often a plugin is killed at most while somebody waits for its operation.
const MOST_KILLS: usize = 8;

/// The example plugin, built once.
fn example() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
        install::package_binary("velero-plugin-example", "velero-plugin-example", "dev")
            .expect("the example must build")
    });
    &BINARY
}

/// Settings of a server with the example plugin.
pub(crate) fn with_example(cluster: &TestCluster, folder: &Path) -> Settings {
    symlink(example(), folder.join("velero-plugin-example")).unwrap();
    Settings { plugin_dir: folder.to_owned(), ..hasty(settings(cluster)) }
}

/// The processes of the example plugin that belong to a folder of plugins.
fn processes(folder: &Path) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let of_folder = |pid: &i32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).starts_with(folder.to_str().unwrap())
    };
    numbers.filter(of_folder).collect()
}

fn kill(processes: &[i32]) {
    for pid in processes {
        Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    }
}

/// A ConfigMap for the example: its label, and annotations.
async fn item(courses: &Courses, name: &str, annotations: serde_json::Value) {
    let object = json!({
        "metadata": {"name": name, "labels": {"example.velero.io/plugin": "yes"}, "annotations": annotations},
    });
    let object = serde_json::from_value(object).unwrap();
    courses.config_maps().create(&Default::default(), &object).await.unwrap();
}

#[test]
fn a_plugin_that_is_killed_or_ends_itself_ends_in_what_it_was_asked_and_nothing_else() {
    cluster_test(|cluster| async move {
        let (directory, plugins) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = Server::start_with(cluster.clone(), with_example(&cluster, plugins.path())).await;
        server.directory_location("default", directory.path()).await;
        // name, operation, behaviour in the call, phase at the end, errors, counters
        let rows = [
            ("well", "takes=1s", None, BackupPhase::Completed, 0, (1, 1, 0)),
            ("dies-in-the-call", "takes=1s", Some("crash"), BackupPhase::PartiallyFailed, 1, (0, 0, 0)),
            ("dies-when-asked", "progress-crash", None, BackupPhase::PartiallyFailed, 1, (1, 0, 1)),
            ("cannot-be-asked", "progress-error", None, BackupPhase::PartiallyFailed, 1, (1, 0, 1)),
            ("fails", "fails-after=2s", None, BackupPhase::PartiallyFailed, 1, (1, 0, 1)),
        ];
        for (name, operation, behaviour, phase, errors, counters) in rows {
            let courses = Courses::new(&cluster, "unused", &[]).await;
            let mut annotations = json!({"example.velero.io/operation": operation});
            if let Some(behaviour) = behaviour {
                annotations["example.velero.io/execute"] = json!(behaviour);
            }
            item(&courses, "steered", annotations).await;
            let backup = server.backup(name, courses.spec()).await;
            assert_phase(&backup, &phase);
            let status = &backup.status;
            let counted = (
                status.backup_item_operations_attempted,
                status.backup_item_operations_completed,
                status.backup_item_operations_failed,
            );
            assert_eq!((status.errors, counted), (errors, counters), "{name}");
            courses.delete().await;
        }
        server.stop().await;
        assert!(processes(plugins.path()).is_empty(), "a plugin outlived its server");
    });
}

#[test]
fn a_plugin_that_is_killed_while_backup_and_restore_wait_is_started_again() {
    cluster_test(|cluster| async move {
        let (directory, plugins) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = Server::start_with(cluster.clone(), with_example(&cluster, plugins.path())).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, "unused", &[]).await;
        let annotations = json!({
            "example.velero.io/operation": "takes=4s",
            "example.velero.io/restore-operation": "takes=4s",
        });
        item(&courses, "steered", annotations).await;
        server.create(Backup::new(&cluster.namespace, "robust", courses.spec())).await;
        let waits = |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations;
        server.until("robust", waits).await;
        let mut killed = 0;
        let ended = |backup: &Backup| backup.status.phase().is_terminal();
        while !ended(&server.api::<Backup>().get("robust").await.unwrap()) {
            // Where the machine is busy, a plugin that is killed again and again is never asked.
            if killed < MOST_KILLS {
                let found = processes(plugins.path());
                killed += found.len();
                kill(&found);
            }
            tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        }
        assert!(killed > 0, "there was nothing to kill");
        assert_phase(&server.until("robust", ended).await, &BackupPhase::Completed);

        let copy = unique_name("copy");
        let spec = RestoreSpec {
            backup_name: "robust".to_owned(),
            namespace_mapping: [(courses.namespace.clone(), copy.clone())].into(),
            ..RestoreSpec::default()
        };
        server.create(Restore::new(&cluster.namespace, "robust", spec)).await;
        let waits = |restore: &Restore| *restore.status.phase() == RestorePhase::WaitingForPluginOperations;
        server.until("robust", waits).await;
        kill(&processes(plugins.path()));
        let restore = server.restore_ended("robust").await;
        assert_restore_phase(&restore, &RestorePhase::Completed);
        courses.delete().await;
        delete_namespace(&cluster, &copy).await;
        server.stop().await;
        assert!(processes(plugins.path()).is_empty(), "a plugin outlived its server");
    });
}

#[test]
fn a_plugin_serves_as_object_store_and_is_listed() {
    cluster_test(|cluster| async move {
        let (directory, plugins) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = Server::start_with(cluster.clone(), with_example(&cluster, plugins.path())).await;
        let mut spec = BackupStorageLocationSpec {
            provider: "example.velero.io/folder".to_owned(),
            default: true,
            config: [("path".to_owned(), directory.path().display().to_string())].into(),
            ..Default::default()
        };
        spec.object_storage.bucket = "bucket".to_owned();
        let location = server.location("default", spec).await;
        assert!(location.is_available(), "{:?}", location.status);
        let courses = Courses::new(&cluster, "unused", &[]).await;
        courses.add("plain", json!({})).await;
        assert_phase(&server.backup("kept", courses.spec()).await, &BackupPhase::Completed);
        assert!(directory.path().join("bucket/backups/kept/velero-backup.json").exists());

        server.create(ServerStatusRequest::new(&cluster.namespace, "ask", Default::default())).await;
        let answered = |request: &ServerStatusRequest| request.status.processed_timestamp.is_some();
        let status = server.until("ask", answered).await.status;
        let listed: Vec<String> =
            status.plugins.iter().map(|plugin| format!("{} {}", plugin.kind, plugin.name)).collect();
        for expected in [
            "BackupItemAction velero.io/pod",
            "BackupItemActionV2 example.velero.io/backup",
            "BackupItemAction example.velero.io/backup-v1",
            "RestoreItemActionV2 example.velero.io/restore",
            "DeleteItemAction example.velero.io/delete",
            "ItemBlockAction example.velero.io/block",
            "ObjectStore example.velero.io/folder",
            "ObjectStore velero.io/aws",
            "VolumeSnapshotter velero.io/aws",
        ] {
            assert_says(&listed, expected);
        }
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn veleros_own_aws_plugin_serves_as_object_store() {
    cluster_test(|cluster| async move {
        let plugins = tempfile::tempdir().unwrap();
        let binary = velero_testkit::Tool::VeleroPluginForAws.path().unwrap();
        symlink(binary, plugins.path().join("velero-plugin-for-aws")).unwrap();
        let settings = Settings { plugin_dir: plugins.path().to_owned(), ..hasty(settings(&cluster)) };
        let server = Server::start_with(cluster.clone(), settings).await;
        secret(&cluster, "cloud-credentials", "cloud", &s3_keys()).await;
        let location = server.location("default", s3(&cluster)).await;
        assert!(location.is_available(), "{:?}", location.status);
        assert!(!processes(plugins.path()).is_empty(), "the plugin must serve, not what is built in");

        let courses = Courses::new(&cluster, "unused", &[]).await;
        courses.add("plain", json!({})).await;
        assert_phase(&server.backup("first", courses.spec()).await, &BackupPhase::Completed);
        let copy = unique_name("copy");
        let spec = RestoreSpec {
            backup_name: "first".to_owned(),
            namespace_mapping: [(courses.namespace.clone(), copy.clone())].into(),
            ..RestoreSpec::default()
        };
        assert_restore_phase(&server.restore("first", spec).await, &RestorePhase::Completed);
        let request = download(&server, "log", DownloadTargetKind::BackupLog, "first").await;
        let (address, path) = request.status.download_url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let log = get(address, &format!("/{path}")).await.unwrap();
        let log = velero_archive::gzjson::decompress(&log.body, 10_000_000).unwrap();
        assert!(String::from_utf8(log).unwrap().contains("Backed up item"));

        let spec = DeleteBackupRequestSpec { backup_name: "first".to_owned(), ..Default::default() };
        server.create(DeleteBackupRequest::new(&cluster.namespace, "delete-first", spec)).await;
        server.until_gone::<Backup>("first").await;
        assert!(server.api::<Restore>().get_opt("first").await.unwrap().is_none());
        courses.delete().await;
        delete_namespace(&cluster, &copy).await;
        server.stop().await;
        assert!(processes(plugins.path()).is_empty(), "the plugin outlived its server");
    });
}

//! Restores that run: what comes back, what is told on the way, and what is refused before anything is written.

use std::fs;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use velero_api::labels;
use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase, RestoreProgress, RestoreSpec};
use velero_controllers::server::Settings;
use velero_testkit::cluster_test;
use velero_testkit::harness::unique_name;

use crate::support::{Server, Workload, assert_phase, assert_restore_phase, assert_says, delete_namespace, settings};

fn into(workload: &Workload, backup: &str, namespace: &str) -> RestoreSpec {
    let mapping = [(workload.namespace.clone(), namespace.to_owned())].into();
    RestoreSpec { backup_name: backup.to_owned(), namespace_mapping: mapping, ..Default::default() }
}

#[test]
fn a_restore_brings_back_a_namespace_under_another_name_and_leaves_its_files() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let (workload, copy) = (Workload::new(&cluster, 5).await, unique_name("copy"));
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("whole", workload.spec()).await, &BackupPhase::Completed);

        let restore = server.restore("again", into(&workload, "whole", &copy)).await;
        assert_restore_phase(&restore, &RestorePhase::Completed);
        let status = &restore.status;
        let progress = status.progress.clone().unwrap();
        assert!(progress.total_items >= 5 && progress.items_restored == progress.total_items, "{status:#?}");
        assert!(status.start_timestamp.is_some() && status.completion_timestamp.is_some());
        assert!(restore.spec.excluded_resources.iter().any(|excluded| excluded == "nodes"));
        let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &copy);
        for number in 0..5 {
            let found = api.get(&format!("settings-{number}")).await.unwrap();
            assert_eq!(found.data.unwrap()["number"], number.to_string());
        }
        for file in [
            "restore-again-logs.gz",
            "restore-again-results.gz",
            "restore-again-resource-list.json.gz",
            "restore-again-itemoperations.json.gz",
            "again-volumeinfo.json.gz",
        ] {
            assert!(directory.path().join("restores/again").join(file).exists(), "{file}");
        }
        let counted =
            ["velero_restore_attempt_total{schedule=\"\"} 1", "velero_restore_success_total{schedule=\"\"} 1"];
        server.until_metrics(&counted).await;
        delete_namespace(&cluster, &copy).await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_restore_whose_files_the_store_refuses_for_a_while_ends_with_all_of_them() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let (workload, copy) = (Workload::new(&cluster, 1).await, unique_name("copy"));
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("whole", workload.spec()).await, &BackupPhase::Completed);

        // Where the folder of its files is to be, nothing can be stored.
        let folder = directory.path().join("restores/late");
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        fs::write(&folder, "in the way").unwrap();
        server.create(Restore::new(&cluster.namespace, "late", into(&workload, "whole", &copy))).await;
        let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &copy);
        server.until_metrics(&["velero_restore_attempt_total{schedule=\"\"} 1"]).await;
        while api.get_opt("settings-0").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let waiting = server.api::<Restore>().get("late").await.unwrap();
        assert_restore_phase(&waiting, &RestorePhase::InProgress);
        fs::remove_file(&folder).unwrap();
        let restore = server.restore_ended("late").await;
        assert_restore_phase(&restore, &RestorePhase::Completed);
        assert_eq!((restore.status.errors, restore.status.failure_reason.as_str()), (0, ""));
        for file in ["restore-late-logs.gz", "restore-late-results.gz", "restore-late-resource-list.json.gz"] {
            assert!(folder.join(file).exists(), "{file}");
        }
        delete_namespace(&cluster, &copy).await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_schedule_is_restored_from_its_newest_completed_backup() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let (workload, copy) = (Workload::new(&cluster, 1).await, unique_name("copy"));
        server.directory_location("default", directory.path()).await;
        let mut backup = Backup::new(&cluster.namespace, "daily-1", workload.spec());
        backup.metadata.labels = Some([(labels::SCHEDULE_NAME.to_owned(), "daily".to_owned())].into());
        server.create(backup).await;
        server.ended("daily-1").await;
        let spec = RestoreSpec { schedule_name: "daily".to_owned(), ..into(&workload, "", &copy) };
        let restore = server.restore("newest", spec).await;
        assert_restore_phase(&restore, &RestorePhase::Completed);
        assert_eq!(restore.spec.backup_name, "daily-1");
        delete_namespace(&cluster, &copy).await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_watcher_sees_the_total_from_the_first_update_and_no_step_back() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let slow = Settings { client_qps: Some(40.0), client_burst: Some(40), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), slow).await;
        let (workload, copy) = (Workload::new(&cluster, 150).await, unique_name("copy"));
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("many", workload.spec()).await, &BackupPhase::Completed);

        let watching = watcher(server.api::<Restore>(), watcher::Config::default()).applied_objects();
        let seen = tokio::spawn(async move {
            let mut watching = std::pin::pin!(watching);
            let mut seen: Vec<RestoreProgress> = Vec::new();
            while let Some(Ok(restore)) = watching.next().await {
                seen.extend(restore.status.progress.clone());
                if restore.status.phase().is_terminal() {
                    break;
                }
            }
            seen
        });
        let restore = server.restore("slow", into(&workload, "many", &copy)).await;
        assert_restore_phase(&restore, &RestorePhase::Completed);
        let seen = seen.await.unwrap();
        let total = restore.status.progress.unwrap().total_items;
        assert!(seen.len() >= 3, "{seen:?}");
        assert!(seen.iter().all(|progress| progress.total_items == total), "{seen:?}");
        assert!(seen.is_sorted_by_key(|progress| progress.items_restored), "{seen:?}");
        assert_eq!(seen.last().unwrap().items_restored, total);
        delete_namespace(&cluster, &copy).await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_damaged_archive_fails_the_restore_and_nothing_is_applied() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 20).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("hurt", workload.spec()).await, &BackupPhase::Completed);
        let archive = directory.path().join("backups/hurt/hurt.tar.gz");
        let whole = fs::read(&archive).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 0x10;
        let cases = [
            ("cut", whole[..whole.len() - 9].to_vec()),
            ("flipped", flipped),
            ("foreign", b"this is no archive".to_vec()),
        ];
        for (name, bytes) in cases {
            fs::write(&archive, bytes).unwrap();
            let copy = unique_name("copy");
            let restore = server.restore(name, into(&workload, "hurt", &copy)).await;
            assert_restore_phase(&restore, &RestorePhase::Failed);
            assert_says(&[&restore.status.failure_reason], "restore execution failed: the archive of the backup");
            assert!(restore.status.completion_timestamp.is_some());
            let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
            assert!(namespaces.get_opt(&copy).await.unwrap().is_none(), "{name}: something was applied");
            let folder = directory.path().join("restores").join(name);
            assert!(folder.join(format!("restore-{name}-logs.gz")).exists());
            assert!(folder.join(format!("restore-{name}-results.gz")).exists());
        }
        fs::remove_file(&archive).unwrap();
        let restore = server.restore("gone", into(&workload, "hurt", &unique_name("copy"))).await;
        assert_restore_phase(&restore, &RestorePhase::Failed);
        assert_says(&[&restore.status.failure_reason], "error downloading backup");
        workload.delete().await;
        server.stop().await;
    });
}

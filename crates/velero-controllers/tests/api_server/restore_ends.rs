//! Restores whose server is stopped, and restores that are deleted.

use std::fs;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use velero_api::annotations::AWAITED;
use velero_api::finalizers::RESTORE_EXTERNAL_RESOURCES;
use velero_api::records::ResultsFile;
use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase, RestoreSpec};
use velero_controllers::server::{Controller, Settings};
use velero_testkit::cluster_test;
use velero_testkit::harness::unique_name;

use crate::support::{
    Server, Workload, api, assert_phase, assert_restore_phase, assert_says, delete_namespace, install_definitions,
    settings,
};

fn of(backup: &str) -> RestoreSpec {
    RestoreSpec { backup_name: backup.to_owned(), ..RestoreSpec::default() }
}

#[test]
fn a_new_server_fails_what_ran_and_ends_what_was_left_to_finish() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        let mut backup = Backup::new(&cluster.namespace, "b", Default::default());
        backup.spec.storage_location = "default".to_owned();
        backup.status.phase = Some(BackupPhase::Completed);
        api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        let phases = [("ran", RestorePhase::InProgress), ("hooked", RestorePhase::Finalizing)];
        for (name, phase) in phases {
            let mut restore = Restore::new(&cluster.namespace, name, of("b"));
            restore.status.phase = Some(phase);
            api::<Restore>(&cluster).create(&PostParams::default(), &restore).await.unwrap();
        }
        let paused = Settings { disable_controllers: [Controller::Restore].into(), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), paused).await;
        server.directory_location("default", directory.path()).await;
        server.stop().await;

        let server = Server::start(cluster.clone()).await;
        let failed = server.restore_ended("ran").await;
        assert_restore_phase(&failed, &RestorePhase::Failed);
        assert_says(&[failed.status.failure_reason], "found a restore with status \"InProgress\" during the server");
        let ended = server.restore_ended("hooked").await;
        assert_restore_phase(&ended, &RestorePhase::PartiallyFailed);
        assert_eq!(ended.status.errors, 1);
        let file = fs::read(directory.path().join("restores/hooked/restore-hooked-results.gz")).unwrap();
        let mut text = String::new();
        MultiGzDecoder::new(file.as_slice()).read_to_string(&mut text).unwrap();
        let results: ResultsFile = serde_json::from_str(&text).unwrap();
        assert_says(&results.errors.velero, "hooks in restored pods may not have run");
        server.stop().await;

        // As if the server had been killed after it had stored the error and before it said so.
        let before = json!({"status": {"phase": "Finalizing", "errors": 0, "completionTimestamp": null}});
        let patch = kube::api::Patch::Merge(before);
        api::<Restore>(&cluster).patch("hooked", &Default::default(), &patch).await.unwrap();
        let server = Server::start(cluster.clone()).await;
        let ended = server.restore_ended("hooked").await;
        assert_restore_phase(&ended, &RestorePhase::PartiallyFailed);
        assert_eq!(ended.status.errors, 1, "the same error is not another one");
        server.stop().await;
    });
}

#[test]
fn a_server_that_is_stopped_fails_the_running_restore() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let slow = Settings { client_qps: Some(30.0), client_burst: Some(30), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), slow).await;
        let (workload, copy) = (Workload::new(&cluster, 300).await, unique_name("copy"));
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("many", workload.spec()).await, &BackupPhase::Completed);
        let mapping = [(workload.namespace.clone(), copy.clone())].into();
        let spec = RestoreSpec { namespace_mapping: mapping, ..of("many") };
        server.create(Restore::new(&cluster.namespace, "cut", spec)).await;
        let begun = |restore: &Restore| restore.status.progress.as_ref().is_some_and(|it| it.items_restored > 0);
        server.until("cut", begun).await;
        server.stop().await;

        let restore = api::<Restore>(&cluster).get("cut").await.unwrap();
        assert_restore_phase(&restore, &RestorePhase::Failed);
        assert_says(&[&restore.status.failure_reason], "the server was stopped while the restore ran");
        let progress = restore.status.progress.unwrap();
        assert!(progress.items_restored > 0 && progress.items_restored < progress.total_items, "{progress:?}");
        assert!(directory.path().join("restores/cut/restore-cut-logs.gz").exists());
        delete_namespace(&cluster, &copy).await;
        workload.delete().await;
    });
}

#[test]
fn a_deleted_restore_takes_its_files_along_even_if_its_backup_is_gone() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("b", workload.spec()).await, &BackupPhase::Completed);
        for name in ["one", "one-more", "orphan"] {
            let restore = server.restore(name, of("b")).await;
            assert_restore_phase(&restore, &RestorePhase::Completed);
            assert_eq!(restore.metadata.finalizers.unwrap(), [RESTORE_EXTERNAL_RESOURCES]);
        }
        server.api::<Restore>().delete("one", &DeleteParams::default()).await.unwrap();
        server.until_gone::<Restore>("one").await;
        let folder = directory.path().join("restores");
        assert!(!folder.join("one").exists() && folder.join("one-more").exists());
        assert!(server.api::<Restore>().get_opt("one-more").await.unwrap().is_some());

        server.api::<Backup>().delete("b", &DeleteParams::default()).await.unwrap();
        server.until_gone::<Backup>("b").await;
        server.api::<Restore>().delete("orphan", &DeleteParams::default()).await.unwrap();
        server.until_gone::<Restore>("orphan").await;
        assert!(server.api::<Restore>().get_opt("one-more").await.unwrap().is_some(), "a restore outlives its backup");
        server.api::<Restore>().delete("one-more", &DeleteParams::default()).await.unwrap();
        server.until_gone::<Restore>("one-more").await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_restore_that_waited_for_volumes_only_is_not_said_to_have_missed_hooks() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        let mut backup = Backup::new(&cluster.namespace, "b", Default::default());
        backup.spec.storage_location = "default".to_owned();
        backup.status.phase = Some(BackupPhase::Completed);
        api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        let mut restore = Restore::new(&cluster.namespace, "volumes", of("b"));
        restore.metadata.annotations = Some([(AWAITED.to_owned(), "volumes".to_owned())].into());
        restore.status.phase = Some(RestorePhase::Finalizing);
        api::<Restore>(&cluster).create(&PostParams::default(), &restore).await.unwrap();
        let paused = Settings { disable_controllers: [Controller::Restore].into(), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), paused).await;
        server.directory_location("default", directory.path()).await;
        server.stop().await;

        let server = Server::start(cluster.clone()).await;
        let ended = server.restore_ended("volumes").await;
        assert_restore_phase(&ended, &RestorePhase::Completed);
        assert_eq!((ended.status.warnings, ended.status.errors), (1, 0));
        assert!(!ended.metadata.annotations.unwrap_or_default().contains_key(AWAITED));
        server.stop().await;
    });
}

#[test]
fn restores_that_wait_for_hooks_are_in_nobodys_way() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("plain", workload.spec()).await, &BackupPhase::Completed);
        // No node runs the pod, so its hook waits as long as it may.
        let pod = json!({
            "metadata": {"name": "web", "annotations": {
                "post.hook.restore.velero.io/command": "[\"/bin/true\"]",
                "post.hook.restore.velero.io/wait-timeout": "10m",
            }},
            "spec": {"containers": [{"name": "web", "image": "web:v1"}]},
        });
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &workload.namespace);
        pods.create(&Default::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        assert_phase(&server.backup("hooked", workload.spec()).await, &BackupPhase::Completed);
        let copies: Vec<String> = (0..5).map(|_| unique_name("copy")).collect();
        let into = |backup: &str, copy: &String| RestoreSpec {
            namespace_mapping: [(workload.namespace.clone(), copy.clone())].into(),
            ..of(backup)
        };
        for copy in &copies[..4] {
            server.create(Restore::new(&cluster.namespace, copy, into("hooked", copy))).await;
            server.until(copy, |restore: &Restore| *restore.status.phase() == RestorePhase::Finalizing).await;
        }
        let fifth = server.restore("fifth", into("plain", &copies[4])).await;
        assert_restore_phase(&fifth, &RestorePhase::Completed);
        server.stop().await;
        for copy in &copies {
            delete_namespace(&cluster, copy).await;
        }
        workload.delete().await;
    });
}

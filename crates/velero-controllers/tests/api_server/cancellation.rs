//! Backups and restores that somebody cancels, at every stage of their life.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use velero_api::annotations::{CANCEL_REQUESTED, CLEAN_UP_OWED};
use velero_api::metadata::annotation;
use velero_api::records::{ResourceList, ResultsFile};
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase, RestoreSpec};
use velero_controllers::server::Settings;
use velero_testkit::cluster_test;
use velero_testkit::faulty_proxy::{Action, Request};
use velero_testkit::harness::unique_name;

use crate::s3_support::s3_behind;
use crate::steered::{BACKUP_ACTION, Courses, RESTORE_ACTION, Steering};
use crate::support::{
    Server, Workload, api, assert_phase, assert_restore_phase, assert_says, delete_namespace, has_ended,
    install_definitions, into_copy, read, settings,
};

const MOMENT: &str = "2026-11-17T02:03:04Z";
const REASON: &str = "cancelled by request at 2026-11-17T02:03:04Z";

async fn cancel<K: VeleroResource>(server: &Server, name: &str) {
    server.patch::<K>(name, json!({"metadata": {"annotations": {CANCEL_REQUESTED: MOMENT}}})).await;
}

fn cancelled<K: VeleroResource>(mut object: K) -> K {
    object.meta_mut().annotations = Some([(CANCEL_REQUESTED.to_owned(), MOMENT.to_owned())].into());
    object
}

#[test]
fn what_is_cancelled_while_no_server_runs_never_begins_or_ends_with_that_reason() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 1).await;
        let phases = [
            ("new", BackupPhase::New, BackupPhase::FailedValidation),
            ("queued", BackupPhase::Queued, BackupPhase::FailedValidation),
            ("ready", BackupPhase::ReadyToStart, BackupPhase::FailedValidation),
            ("ran", BackupPhase::InProgress, BackupPhase::Failed),
            ("done", BackupPhase::Completed, BackupPhase::Completed),
        ];
        for (name, phase, _) in &phases {
            let mut backup = cancelled(Backup::new(&cluster.namespace, name, workload.spec()));
            backup.spec.storage_location = "default".to_owned();
            backup.status.phase = Some(phase.clone());
            api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        }
        let restores = [
            ("new", RestorePhase::New, RestorePhase::FailedValidation),
            ("ran", RestorePhase::InProgress, RestorePhase::Failed),
            ("hooked", RestorePhase::Finalizing, RestorePhase::PartiallyFailed),
        ];
        for (name, phase, _) in &restores {
            let spec = RestoreSpec { backup_name: "done".to_owned(), ..RestoreSpec::default() };
            let mut restore = cancelled(Restore::new(&cluster.namespace, name, spec));
            restore.status.phase = Some(phase.clone());
            api::<Restore>(&cluster).create(&PostParams::default(), &restore).await.unwrap();
        }
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        for (name, _, phase) in &phases {
            let backup = server.ended(name).await;
            assert_phase(&backup, phase);
            let reason = if *phase == BackupPhase::Completed { "" } else { REASON };
            assert_eq!(backup.status.failure_reason, reason, "{name}");
            assert!(!directory.path().join("backups").join(name).exists(), "{name}");
        }
        for (name, _, phase) in &restores {
            let restore = server.restore_ended(name).await;
            assert_restore_phase(&restore, phase);
            assert_eq!(restore.status.failure_reason, REASON, "{name}");
        }
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_that_is_cancelled_while_it_runs_leaves_its_log_and_nothing_else() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["never"]).await;
        courses.add_slow("slow", "never", 10).await;
        server.create(Backup::new(&cluster.namespace, "cut", courses.spec())).await;
        while steering.started("cut").len() < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        cancel::<Backup>(&server, "cut").await;
        let backup = server.ended("cut").await;
        assert_phase(&backup, &BackupPhase::Failed);
        assert_eq!(backup.status.failure_reason, REASON);
        assert_eq!(steering.cancelled("cut"), steering.started("cut"), "also what was told only after that");
        let folder = directory.path().join("backups/cut");
        assert!(folder.join("cut-logs.gz").exists());
        assert!(!folder.join("cut.tar.gz").exists(), "nothing that could be restored");
        // The next one has its turn.
        let quick = Courses::new(&cluster, BACKUP_ACTION, &["takes=1"]).await;
        assert_phase(&server.backup("next", quick.spec()).await, &BackupPhase::Completed);
        courses.delete().await;
        quick.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_is_cancelled_while_its_store_does_not_even_take_the_reservation() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        let takes_nothing = |request: &Request| match request.is_upload() {
            true => Action::AskAgain(Duration::from_millis(50)),
            false => Action::Forward,
        };
        server.location("default", s3_behind(&cluster, takes_nothing).await).await;
        server.create(Backup::new(&cluster.namespace, "held", workload.spec())).await;
        server.until("held", |backup: &Backup| *backup.status.phase() == BackupPhase::InProgress).await;
        cancel::<Backup>(&server, "held").await;
        let backup = server.ended("held").await;
        assert_phase(&backup, &BackupPhase::Failed);
        assert_eq!(backup.status.failure_reason, REASON);
        assert_eq!(annotation(&backup, CLEAN_UP_OWED), "", "nothing was stored");
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_that_is_cancelled_while_it_waits_or_is_finished_owns_nothing_any_more() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server_without_finalizer(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let endless = Courses::new(&cluster, BACKUP_ACTION, &["never", "takes=1"]).await;
        let quick = Courses::new(&cluster, BACKUP_ACTION, &["takes=1"]).await;
        server.create(Backup::new(&cluster.namespace, "waits", endless.spec())).await;
        server.create(Backup::new(&cluster.namespace, "stands", quick.spec())).await;
        let waits = |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations;
        server.until("waits", waits).await;
        server.until("stands", |backup: &Backup| *backup.status.phase() == BackupPhase::Finalizing).await;
        for name in ["waits", "stands"] {
            cancel::<Backup>(&server, name).await;
        }
        let paid = |backup: &Backup| has_ended(backup) && annotation(backup, CLEAN_UP_OWED).is_empty();
        assert_phase(&server.until("waits", paid).await, &BackupPhase::Failed);
        assert_eq!(steering.cancelled("waits").len(), 1, "{:?}", steering.cancelled("waits"));
        server.stop().await;

        let server = steering.server(&cluster).await;
        for name in ["waits", "stands"] {
            let backup = server.until(name, paid).await;
            assert_phase(&backup, &BackupPhase::Failed);
            assert_eq!(backup.status.failure_reason, REASON, "{name}");
            assert!(!directory.path().join("backups").join(name).exists(), "{name} owns files");
        }
        endless.delete().await;
        quick.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_restore_that_is_cancelled_while_it_waits_keeps_what_it_made_and_names_its_operations() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, RESTORE_ACTION, &["never", "takes=1"]).await;
        assert_phase(&server.backup("source", courses.spec()).await, &BackupPhase::Completed);
        let copy = unique_name("copy");
        let spec = into_copy("source", &courses.namespace, &copy);
        server.create(Restore::new(&cluster.namespace, "waits", spec)).await;
        let waits = |restore: &Restore| *restore.status.phase() == RestorePhase::WaitingForPluginOperations;
        server.until("waits", waits).await;
        cancel::<Restore>(&server, "waits").await;
        let restore = server.restore_ended("waits").await;
        assert_restore_phase(&restore, &RestorePhase::PartiallyFailed);
        assert_eq!(restore.status.failure_reason, REASON);
        assert_eq!(steering.cancelled("waits").len(), 1);
        assert_eq!((restore.status.restore_item_operations_failed, restore.status.errors), (1, 2));
        let results: ResultsFile = read(&directory.path().join("restores/waits/restore-waits-results.gz"));
        assert_says(&results.errors.namespaces[&copy], REASON);
        assert_says(&results.errors.velero, "cancelled while it waited");
        let copies: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &copy);
        assert!(copies.get_opt("item-0").await.unwrap().is_some(), "what was restored stays");
        courses.delete().await;
        delete_namespace(&cluster, &copy).await;
        server.stop().await;
    });
}

#[test]
fn a_restore_that_is_cancelled_while_it_runs_says_what_it_made_and_what_it_did_not() {
    const ITEMS: usize = 700;
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, ITEMS).await;
        // Few requests a second make the restore last.
        let slow = Settings { client_qps: Some(30.0), client_burst: Some(30), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), slow).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("source", workload.spec()).await, &BackupPhase::Completed);
        let copy = unique_name("copy");
        let spec = into_copy("source", &workload.namespace, &copy);
        server.create(Restore::new(&cluster.namespace, "cut", spec)).await;
        server.until("cut", |restore: &Restore| *restore.status.phase() == RestorePhase::InProgress).await;
        cancel::<Restore>(&server, "cut").await;
        let restore = server.restore_ended("cut").await;
        assert_restore_phase(&restore, &RestorePhase::Failed);
        assert_eq!(restore.status.failure_reason, REASON);
        let progress = restore.status.progress.clone().unwrap_or_default();
        let (done, total) = (progress.items_restored, progress.total_items);
        assert!(0 < done && done < total, "{done} of {total}");

        let folder = directory.path().join("restores/cut");
        let results: ResultsFile = read(&folder.join("restore-cut-results.gz"));
        assert_says(&results.errors.namespaces[&copy], "not restored, since the restore was ended before");
        assert_eq!(results.errors.len() as i64, restore.status.errors);
        let list: ResourceList = read(&folder.join("restore-cut-resource-list.json.gz"));
        let told =
            list.get("v1/ConfigMap").map_or(0, |items| items.iter().filter(|item| item.contains("settings-")).count());
        let copies: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &copy);
        let made = copies.list(&ListParams::default()).await.unwrap().items;
        let made = made.iter().filter(|item| item.metadata.name.as_ref().unwrap().starts_with("settings-")).count();
        assert_eq!(told, made, "all that was made is told");
        assert!(made < ITEMS);
        workload.delete().await;
        delete_namespace(&cluster, &copy).await;
        server.stop().await;
    });
}

//! Deletions that are refused before anything is touched, wait for others, or are entered again.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, BackupStorageLocation, BackupStorageLocationSpec, DeleteBackupRequest,
    DeleteBackupRequestPhase, DeleteBackupRequestSpec, Restore, RestorePhase, RestoreSpec,
};
use velero_archive::gzjson;
use velero_controllers::server::{Controller, Settings};
use velero_testkit::cluster_test;
use velero_testkit::harness::unique_name;

use crate::operation_table::hasty;
use crate::steered::{BACKUP_ACTION, Courses, RESTORE_ACTION, Steering};
use crate::support::{
    Server, Workload, api, assert_phase, assert_restore_phase, assert_says, delete_namespace, install_definitions,
    secret, settings,
};

fn request(namespace: &str, backup: &str) -> DeleteBackupRequest {
    let spec = DeleteBackupRequestSpec { backup_name: backup.to_owned(), ..Default::default() };
    DeleteBackupRequest::new(namespace, &format!("delete-{backup}"), spec)
}

fn processed(request: &DeleteBackupRequest) -> bool {
    *request.status.phase() == DeleteBackupRequestPhase::Processed
}

fn of(backup: &str) -> RestoreSpec {
    RestoreSpec { backup_name: backup.to_owned(), ..RestoreSpec::default() }
}

/// Lets the time of a backup be over.
async fn expire(server: &Server, backup: &str) {
    let past = Timestamp::now() - Duration::from_secs(60);
    let past = past.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    server.patch::<Backup>(backup, json!({"status": {"expiration": past}})).await;
}

/// Changes an object so that it is looked at.
async fn touch<K: velero_api::resource::VeleroResource>(server: &Server, name: &str) {
    server.patch::<K>(name, json!({"metadata": {"annotations": {"test.velero.io/touched": unique_name("t")}}})).await;
}

#[test]
fn a_backup_with_data_that_cannot_be_deleted_is_refused_untouched_and_is_not_asked_for_again() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("kept", workload.spec()).await, &BackupPhase::Completed);
        assert_restore_phase(&server.restore("earlier", of("kept")).await, &RestorePhase::Completed);
        let volumes =
            json!([{"pvcName": "data", "pvName": "pv", "backupMethod": "PodVolumeBackup", "result": "succeeded"}]);
        let file = directory.path().join("backups/kept/kept-volumeinfo.json.gz");
        fs::write(file, gzjson::encode(&volumes).unwrap()).unwrap();

        server.create(request(&cluster.namespace, "kept")).await;
        let refused = server.until("delete-kept", processed).await;
        assert_says(&refused.status.errors, "no record says where it is");
        let backup = server.api::<Backup>().get("kept").await.unwrap();
        assert_phase(&backup, &BackupPhase::Completed);
        assert!(server.api::<Restore>().get_opt("earlier").await.unwrap().is_some(), "it stays with its backup");
        assert!(directory.path().join("restores/earlier").exists());
        server.api::<DeleteBackupRequest>().delete("delete-kept", &DeleteParams::default()).await.unwrap();

        expire(&server, "kept").await;
        let told = |backup: &Backup| backup.metadata.labels.iter().flatten().any(|(key, _)| key == labels::GC_FAILURE);
        let told = server.until("kept", told).await;
        assert_eq!(told.metadata.labels.unwrap()[labels::GC_FAILURE], "NotDeletable");
        let requests = server.api::<DeleteBackupRequest>().list(&ListParams::default()).await.unwrap();
        assert!(requests.items.is_empty(), "it would be refused: {requests:?}");
        assert_restore_phase(&server.restore("later", of("kept")).await, &RestorePhase::Completed);
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn an_expired_backup_waits_for_its_restores_and_an_explicit_deletion_says_what_it_ends() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, RESTORE_ACTION, &["never"]).await;
        for name in ["restored", "other"] {
            assert_phase(&server.backup(name, courses.spec()).await, &BackupPhase::Completed);
        }
        let copy = unique_name("copy");
        let mapping = [(courses.namespace.clone(), copy.clone())].into();
        let spec = RestoreSpec { namespace_mapping: mapping, ..of("restored") };
        server.create(Restore::new(&cluster.namespace, "running", spec)).await;
        let waits = |restore: &Restore| *restore.status.phase() == RestorePhase::WaitingForPluginOperations;
        server.until("running", waits).await;
        expire(&server, "restored").await;
        expire(&server, "other").await;
        server.until_gone::<Backup>("other").await;
        assert_phase(&server.api().get("restored").await.unwrap(), &BackupPhase::Completed);
        assert!(steering.cancelled("running").is_empty());

        server.create(request(&cluster.namespace, "restored")).await;
        server.until_gone::<Backup>("restored").await;
        assert!(server.api::<Restore>().get_opt("running").await.unwrap().is_none());
        assert_eq!(steering.cancelled("running"), steering.started("running"));
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let events = events.list(&ListParams::default()).await.unwrap();
        let notes: Vec<String> = events.items.into_iter().filter_map(|event| event.note).collect();
        assert_says(&notes, "restores that run from the backup end with its deletion: running");
        courses.delete().await;
        delete_namespace(&cluster, &copy).await;
        server.stop().await;
    });
}

#[test]
fn a_deletion_is_entered_again_wherever_it_was_left() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        // Where the server died: after the beginning, after the mark, when the files were gone, when all was gone.
        let names = ["begun", "marked", "emptied", "gone"];
        let mut left = Vec::new();
        for name in names {
            let backup = server.backup(name, workload.spec()).await;
            assert_phase(&backup, &BackupPhase::Completed);
            let mut begun = request(&cluster.namespace, name);
            begun.status.phase = Some(DeleteBackupRequestPhase::InProgress);
            let marks = [(labels::BACKUP_NAME, name.to_owned()), (labels::BACKUP_UID, backup.metadata.uid.unwrap())];
            begun.metadata.labels = Some(marks.map(|(key, value)| (key.to_owned(), value)).into());
            left.push(begun);
        }
        server.stop().await;
        for begun in &left {
            api::<DeleteBackupRequest>(&cluster).create(&PostParams::default(), begun).await.unwrap();
        }
        let deleting = kube::api::Patch::Merge(json!({"status": {"phase": "Deleting"}}));
        for name in ["marked", "emptied"] {
            api::<Backup>(&cluster).patch(name, &Default::default(), &deleting).await.unwrap();
        }
        fs::remove_dir_all(directory.path().join("backups/emptied")).unwrap();
        fs::remove_dir_all(directory.path().join("backups/gone")).unwrap();
        api::<Backup>(&cluster).delete("gone", &DeleteParams::default()).await.unwrap();

        let server = Server::start(cluster.clone()).await;
        for name in names {
            server.until_gone::<Backup>(name).await;
            server.until_gone::<DeleteBackupRequest>(&format!("delete-{name}")).await;
            assert!(!directory.path().join("backups").join(name).exists(), "{name}");
        }
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_that_never_ran_is_deleted_without_a_location() {
    cluster_test(|cluster| async move {
        let paused = [Controller::BackupQueue, Controller::Backup].into();
        let settings = Settings { disable_controllers: paused, ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        for (name, location, phase) in [
            ("queued", "", BackupPhase::Queued),
            ("unknown-place", "nowhere", BackupPhase::Queued),
            ("refused", "nowhere", BackupPhase::FailedValidation),
        ] {
            let spec = BackupSpec { storage_location: location.to_owned(), ..BackupSpec::default() };
            let mut backup = Backup::new(&cluster.namespace, name, spec);
            backup.status.phase = Some(phase);
            server.create(backup).await;
            server.create(request(&cluster.namespace, name)).await;
            server.until_gone::<Backup>(name).await;
            server.until_gone::<DeleteBackupRequest>(&format!("delete-{name}")).await;
        }
        server.stop().await;
    });
}

#[test]
fn another_backup_of_the_same_name_is_not_touched() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let without_sync = Settings { disable_controllers: [Controller::BackupSync].into(), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), without_sync).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        // The one in the cluster is not the one that was to be deleted.
        assert_phase(&server.backup("again", workload.spec()).await, &BackupPhase::Completed);
        let mut old = request(&cluster.namespace, "again");
        old.metadata.labels = Some([(labels::BACKUP_UID.to_owned(), "another".to_owned())].into());
        server.create(old).await;
        let refused = server.until("delete-again", processed).await;
        assert_says(&refused.status.errors, "another one has its name");
        assert_phase(&server.api().get("again").await.unwrap(), &BackupPhase::Completed);

        // The one in the location is of another cluster.
        let folder = directory.path().join("backups/taken");
        fs::create_dir_all(&folder).unwrap();
        let mut theirs = Backup::new("velero", "taken", BackupSpec::default());
        theirs.metadata.uid = Some("theirs".to_owned());
        theirs.status.phase = Some(BackupPhase::Completed);
        fs::write(folder.join("velero-backup.json"), serde_json::to_vec(&theirs).unwrap()).unwrap();
        fs::write(folder.join("taken.tar.gz"), "theirs").unwrap();
        assert_phase(&server.backup("taken", workload.spec()).await, &BackupPhase::Failed);
        server.create(request(&cluster.namespace, "taken")).await;
        server.until_gone::<Backup>("taken").await;
        assert!(folder.join("velero-backup.json").exists() && folder.join("taken.tar.gz").exists());
        workload.delete().await;
        server.stop().await;
    });
}

/// A location whose credentials are in a Secret.
fn with_secret(directory: &Path) -> BackupStorageLocationSpec {
    let mut spec: BackupStorageLocationSpec =
        serde_json::from_value(json!({"provider": "fs", "default": true, "objectStorage": {"bucket": ""},
            "credential": {"name": "cloud", "key": "key"}}))
        .unwrap();
    spec.object_storage.bucket = directory.display().to_string();
    spec
}

async fn remove_secret(cluster: &velero_testkit::TestCluster) {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    secrets.delete("cloud", &DeleteParams::default()).await.unwrap();
}

#[test]
fn a_secret_that_is_missing_for_a_moment_holds_nothing_up() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        secret(&cluster, "cloud", "key", "x").await;
        server.location("default", with_secret(directory.path())).await;
        let (quick, slow) = (
            Courses::new(&cluster, BACKUP_ACTION, &[]).await,
            Courses::new(&cluster, BACKUP_ACTION, &["takes=4"]).await,
        );
        assert_phase(&server.backup("unwanted", quick.spec()).await, &BackupPhase::Completed);
        server.create(Backup::new(&cluster.namespace, "waiting", slow.spec())).await;
        let waits = |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations;
        server.until("waiting", waits).await;
        remove_secret(&cluster).await;
        server.create(request(&cluster.namespace, "unwanted")).await;
        // Longer than from one question to the next, so that both have met the gap.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert!(server.api::<Backup>().get_opt("unwanted").await.unwrap().is_some());
        secret(&cluster, "cloud", "key", "x").await;
        let ended = server.ended("waiting").await;
        assert_phase(&ended, &BackupPhase::Completed);
        server.until_gone::<Backup>("unwanted").await;
        quick.delete().await;
        slow.delete().await;
        server.stop().await;
    });
}

fn owes(metadata: &kube::api::ObjectMeta) -> bool {
    metadata.annotations.iter().flatten().any(|(key, _)| key == "velero.io/clean-up-owed")
}

#[test]
fn what_interrupted_work_owes_is_done_when_the_store_is_back() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        secret(&cluster, "cloud", "key", "x").await;
        let start = || Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions());
        let server = start().await;
        server.location("default", with_secret(directory.path())).await;
        let out = Courses::new(&cluster, BACKUP_ACTION, &["never"]).await;
        let back = Courses::new(&cluster, RESTORE_ACTION, &["never"]).await;
        assert_phase(&server.backup("source", back.spec()).await, &BackupPhase::Completed);
        let copy = unique_name("copy");
        let mapping = [(back.namespace.clone(), copy.clone())].into();
        server.create(Backup::new(&cluster.namespace, "killed", out.spec())).await;
        let spec = RestoreSpec { namespace_mapping: mapping, ..of("source") };
        server.create(Restore::new(&cluster.namespace, "cut", spec)).await;
        server
            .until("killed", |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations)
            .await;
        server
            .until("cut", |restore: &Restore| *restore.status.phase() == RestorePhase::WaitingForPluginOperations)
            .await;
        // As if the server had been killed after it had stored the operations and before it said so.
        server.patch::<Backup>("killed", json!({"status": {"phase": "InProgress"}})).await;
        server.patch::<Restore>("cut", json!({"status": {"phase": "InProgress"}})).await;
        server.stop().await;
        remove_secret(&cluster).await;

        // Two servers, one after the other, without the store.
        for _ in 0..2 {
            let server = start().await;
            let killed = server.api::<Backup>().get("killed").await.unwrap();
            assert_phase(&killed, &BackupPhase::Failed);
            let cut = server.api::<Restore>().get("cut").await.unwrap();
            assert_restore_phase(&cut, &RestorePhase::Failed);
            assert!(owes(&killed.metadata) && owes(&cut.metadata), "{killed:?} {cut:?}");
            server.stop().await;
        }
        assert!(steering.cancelled("killed").is_empty() && steering.cancelled("cut").is_empty());
        assert!(directory.path().join("backups/killed").exists());

        let server = start().await;
        secret(&cluster, "cloud", "key", "x").await;
        let killed = server.until("killed", |backup: &Backup| !owes(&backup.metadata)).await;
        assert_phase(&killed, &BackupPhase::Failed);
        server.until("cut", |restore: &Restore| !owes(&restore.metadata)).await;
        assert_eq!(steering.cancelled("killed"), steering.started("killed"));
        assert_eq!(steering.cancelled("cut"), steering.started("cut"));
        assert!(!directory.path().join("backups/killed").exists(), "nobody can restore from it");
        out.delete().await;
        back.delete().await;
        delete_namespace(&cluster, &copy).await;
        server.stop().await;
    });
}

#[test]
fn a_restore_that_waits_is_cancelled_when_it_is_deleted_though_its_location_is_away() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), steering.actions()).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, RESTORE_ACTION, &["never"]).await;
        assert_phase(&server.backup("source", courses.spec()).await, &BackupPhase::Completed);
        let copy = unique_name("copy");
        let mapping = [(courses.namespace.clone(), copy.clone())].into();
        let spec = RestoreSpec { namespace_mapping: mapping, ..of("source") };
        server.create(Restore::new(&cluster.namespace, "unwanted", spec)).await;
        let waits = |restore: &Restore| *restore.status.phase() == RestorePhase::WaitingForPluginOperations;
        server.until("unwanted", waits).await;
        let phase = |phase: &str| -> Value { json!({"status": {"phase": phase}}) };
        server.patch::<BackupStorageLocation>("default", phase("Unavailable")).await;
        server.api::<Restore>().delete("unwanted", &DeleteParams::default()).await.unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while steering.cancelled("unwanted").is_empty() {
            assert!(tokio::time::Instant::now() < deadline, "its operations go on");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(server.api::<Restore>().get_opt("unwanted").await.unwrap().is_some(), "its files are still there");
        server.patch::<BackupStorageLocation>("default", phase("Available")).await;
        touch::<Restore>(&server, "unwanted").await;
        server.until_gone::<Restore>("unwanted").await;
        courses.delete().await;
        delete_namespace(&cluster, &copy).await;
        server.stop().await;
    });
}

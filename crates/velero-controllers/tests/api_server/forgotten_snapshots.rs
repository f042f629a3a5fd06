//! Backups that are deleted take their snapshots in repositories along.

use std::fs;

use kube::api::PostParams;
use serde_json::{Value, json};
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestPhase, DeleteBackupRequestSpec,
    PodVolumeBackup,
};
use velero_api::v2alpha1::DataUpload;
use velero_archive::gzjson;
use velero_repo::Repository;
use velero_repo::upload::{Counters, SnapshotRequest, UploadOptions, upload_folder};
use velero_testkit::cluster_test;

use crate::repositories::{blobs, is_ready, of, password};
use crate::support::{Server, Workload, assert_phase, assert_says};

fn request(namespace: &str, backup: &str) -> DeleteBackupRequest {
    let spec = DeleteBackupRequestSpec { backup_name: backup.to_owned(), ..Default::default() };
    DeleteBackupRequest::new(namespace, &format!("delete-{backup}"), spec)
}

/// A PodVolumeBackup of a backup whose snapshot has this id.
fn copy(namespace: &str, backup: &Backup, snapshot: &str, uploader: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
        "metadata": {
            "name": format!("{}-1", backup.metadata.name.as_ref().unwrap()), "namespace": namespace,
            "finalizers": ["velero.io/pod-volume-finalizer"],
            "labels": {
                "velero.io/backup-name": backup.metadata.name, "velero.io/backup-uid": backup.metadata.uid,
            },
        },
        "spec": {"node": "n", "pod": {"kind": "Pod", "namespace": "shop", "name": "web"}, "volume": "data",
            "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": uploader},
        "status": {"phase": "Completed", "snapshotID": snapshot},
    })
}

/// Saves a folder into a repository; gives the id of the snapshot.
fn save(repository: &Repository, volume: &str) -> String {
    save_for(repository, volume, None)
}

/// The same, for the backup of a UID.
fn save_for(repository: &Repository, volume: &str, backup: Option<&str>) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), volume).unwrap();
    let tags = backup.into_iter().map(|uid| ("backup-uid".to_owned(), uid.to_owned())).collect();
    let request = SnapshotRequest::of_velero("snapshot-pod-volume", &format!("shop/web/{volume}"), tags);
    upload_folder(repository, folder.path(), &request, &UploadOptions::default(), &Counters::default()).unwrap().id
}

#[test]
fn the_snapshots_of_a_deleted_backup_are_forgotten_and_those_of_others_stay() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;
        let password = password(&cluster).await.unwrap();
        let repository = Repository::open(blobs(directory.path(), "shop"), &password).unwrap();
        let [copied, moved, live, kept] = ["copied", "moved", "live", "kept"].map(|volume| save(&repository, volume));

        let backup = server.backup("old", workload.spec()).await;
        assert_phase(&backup, &BackupPhase::Completed);
        let folder = directory.path().join("backups/old");
        let mut record = copy(&cluster.namespace, &backup, &copied, "kopia");
        // The bucket may have been copied from a place where the location has another name.
        record["spec"]["backupStorageLocation"] = json!("elsewhere");
        let records = json!([record]);
        fs::write(folder.join("old-podvolumebackups.json.gz"), gzjson::encode(&records).unwrap()).unwrap();
        let volumes = json!([{"pvcName": "c", "pvcNamespace": "shop", "backupMethod": "CSISnapshot",
            "snapshotDataMoved": true, "result": "succeeded",
            "snapshotDataMovementInfo": {"dataMover": "velero", "uploaderType": "kopia", "snapshotHandle": moved}}]);
        fs::write(folder.join("old-volumeinfo.json.gz"), gzjson::encode(&volumes).unwrap()).unwrap();
        let object: PodVolumeBackup =
            serde_json::from_value(copy(&cluster.namespace, &backup, &live, "kopia")).unwrap();
        server.api::<PodVolumeBackup>().create(&PostParams::default(), &object).await.unwrap();
        let upload = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
            "metadata": {"name": "old-u", "namespace": cluster.namespace,
                "finalizers": ["velero.io/data-upload-download-finalizer"],
                "labels": {"velero.io/backup-name": "old", "velero.io/backup-uid": backup.metadata.uid}},
            "spec": {"snapshotType": "CSI", "sourcePVC": "c", "sourceNamespace": "shop",
                "backupStorageLocation": "default", "operationTimeout": "1m0s"},
            "status": {"phase": "Completed", "snapshotID": moved},
        });
        let upload: DataUpload = serde_json::from_value(upload).unwrap();
        server.api::<DataUpload>().create(&PostParams::default(), &upload).await.unwrap();

        server.create(request(&cluster.namespace, "old")).await;
        server.until_gone::<Backup>("old").await;
        server.until_gone::<PodVolumeBackup>("old-1").await;
        server.until_gone::<DataUpload>("old-u").await;
        repository.refresh().unwrap();
        let left: Vec<String> = repository.snapshots().unwrap().into_iter().map(|(id, _)| id).collect();
        assert_eq!(left, [kept]);
        assert!(!folder.exists());
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn what_a_killed_mover_has_saved_goes_with_its_backup_and_keeps_none_that_cannot_be_looked_into() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;
        let password = password(&cluster).await.unwrap();
        let repository = Repository::open(blobs(directory.path(), "shop"), &password).unwrap();
        let kept = [save(&repository, "untold"), save_for(&repository, "of-another", Some("another"))];
        // The mover was killed between the last byte that it saved and its word: no record has the snapshot.
        let broken_off = |backup: &Backup| {
            let mut record = copy(&cluster.namespace, backup, "", "kopia");
            record["status"] = json!({"phase": "Failed", "message": "the pod was removed"});
            let file = format!("{0}/{0}-podvolumebackups.json.gz", backup.metadata.name.as_ref().unwrap());
            fs::write(directory.path().join("backups").join(file), gzjson::encode(&json!([record])).unwrap()).unwrap();
        };
        let backup = server.backup("old", workload.spec()).await;
        broken_off(&backup);
        save_for(&repository, "data", backup.metadata.uid.as_deref());
        server.create(request(&cluster.namespace, "old")).await;
        server.until_gone::<Backup>("old").await;
        repository.refresh().unwrap();
        let left: Vec<String> = repository.snapshots().unwrap().into_iter().map(|(id, _)| id).collect();
        assert_eq!(left, kept);

        broken_off(&server.backup("locked", workload.spec()).await);
        fs::write(directory.path().join("kopia/shop/kopia.repository.f"), "nonsense").unwrap();
        server.create(request(&cluster.namespace, "locked")).await;
        server.until_gone::<Backup>("locked").await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_repository_that_cannot_be_opened_keeps_its_backup_and_one_that_is_gone_does_not() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;
        let processed = |request: &DeleteBackupRequest| *request.status.phase() == DeleteBackupRequestPhase::Processed;
        for (name, uploader) in [("locked", "kopia"), ("restic", "restic"), ("gone", "kopia")] {
            let backup = server.backup(name, workload.spec()).await;
            let records = json!([copy(&cluster.namespace, &backup, "0123", uploader)]);
            let file = directory.path().join(format!("backups/{name}/{name}-podvolumebackups.json.gz"));
            fs::write(file, gzjson::encode(&records).unwrap()).unwrap();
        }
        let format = directory.path().join("kopia/shop/kopia.repository.f");
        let content = fs::read(&format).unwrap();
        fs::write(&format, "nonsense").unwrap();
        server.create(request(&cluster.namespace, "locked")).await;
        let told = server.until("delete-locked", processed).await;
        assert_says(&told.status.errors, "the repository of namespace \"shop\"");
        assert!(directory.path().join("backups/locked/velero-backup.json").exists());

        server.create(request(&cluster.namespace, "restic")).await;
        let told = server.until("delete-restic", processed).await;
        assert_says(&told.status.errors, "was saved by restic");
        fs::write(&format, content).unwrap();
        fs::remove_dir_all(directory.path().join("kopia/shop")).unwrap();
        server.create(request(&cluster.namespace, "gone")).await;
        server.until_gone::<Backup>("gone").await;
        workload.delete().await;
        server.stop().await;
    });
}

/// A DataUpload of a backup whose snapshot has this id, made where its location has another name.
fn upload(namespace: &str, backup: &str, snapshot: &str) -> DataUpload {
    let upload = json!({
        "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
        "metadata": {"name": format!("{backup}-u"), "namespace": namespace, "labels": {"velero.io/backup-name": backup}},
        "spec": {"snapshotType": "CSI", "sourcePVC": "c", "sourceNamespace": "shop",
            "backupStorageLocation": "elsewhere", "operationTimeout": "1m0s"},
        "status": {"phase": "Completed", "snapshotID": snapshot},
    });
    serde_json::from_value(upload).unwrap()
}

/// A backup that holds the namespace of the server holds the DataUploads of all backups.
#[test]
fn the_moved_data_of_other_backups_stays_though_the_archive_tells_of_it() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        server.create(of(&cluster, "shop")).await;
        server.until("shop-default-kopia", is_ready).await;
        let password = password(&cluster).await.unwrap();
        let repository = Repository::open(blobs(directory.path(), "shop"), &password).unwrap();
        let [own, others] = ["own", "others"].map(|volume| save(&repository, volume));
        for (backup, snapshot) in [("whole", &own), ("daily", &others)] {
            server.create(upload(&cluster.namespace, backup, snapshot)).await;
        }
        let spec = BackupSpec { included_namespaces: vec![cluster.namespace.clone()], ..BackupSpec::default() };
        assert_phase(&server.backup("whole", spec).await, &BackupPhase::Completed);
        // It does not say which snapshot it is, so the archive is asked.
        let volumes = json!([{"pvcName": "c", "pvcNamespace": "shop", "backupMethod": "CSISnapshot",
            "snapshotDataMoved": true}]);
        let file = directory.path().join("backups/whole/whole-volumeinfo.json.gz");
        fs::write(file, gzjson::encode(&volumes).unwrap()).unwrap();

        server.create(request(&cluster.namespace, "whole")).await;
        server.until_gone::<Backup>("whole").await;
        repository.refresh().unwrap();
        let left: Vec<String> = repository.snapshots().unwrap().into_iter().map(|(id, _)| id).collect();
        assert_eq!(left, [others]);
        server.stop().await;
    });
}

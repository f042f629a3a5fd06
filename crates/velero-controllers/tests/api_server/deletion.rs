//! Backups that go away: asked for, or because their time is over.

use std::fs;

use kube::api::DeleteParams;
use velero_api::GoDuration;
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestPhase, DeleteBackupRequestSpec, Restore,
    RestorePhase, RestoreSpec,
};
use velero_testkit::cluster_test;

use crate::support::{Server, Workload, assert_phase, assert_restore_phase, assert_says};

fn request(namespace: &str, backup: &str) -> DeleteBackupRequest {
    let spec = DeleteBackupRequestSpec { backup_name: backup.to_owned(), ..Default::default() };
    DeleteBackupRequest::new(namespace, &format!("delete-{backup}"), spec)
}

#[test]
fn a_deleted_backup_takes_its_files_and_restores_along_and_nothing_else() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        for name in ["first", "first-neighbour"] {
            assert_phase(&server.backup(name, workload.spec()).await, &BackupPhase::Completed);
        }
        for (name, backup) in [("of-first", "first"), ("of-neighbour", "first-neighbour")] {
            let spec = RestoreSpec { backup_name: backup.to_owned(), ..Default::default() };
            assert_restore_phase(&server.restore(name, spec).await, &RestorePhase::Completed);
        }

        server.create(request(&cluster.namespace, "first")).await;
        server.until_gone::<Backup>("first").await;
        server.until_gone::<DeleteBackupRequest>("delete-first").await;
        assert!(server.api::<Restore>().get_opt("of-first").await.unwrap().is_none());
        assert!(server.api::<Restore>().get_opt("of-neighbour").await.unwrap().is_some());
        assert!(!directory.path().join("backups/first").exists());
        assert!(!directory.path().join("restores/of-first").exists());
        assert!(directory.path().join("restores/of-neighbour").exists());
        assert!(directory.path().join("backups/first-neighbour/velero-backup.json").exists());
        server.until_metrics(&["velero_backup_deletion_success_total{schedule=\"\"} 1"]).await;

        server.api::<Restore>().delete("of-neighbour", &DeleteParams::default()).await.unwrap();
        server.until_gone::<Restore>("of-neighbour").await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_failed_backup_can_be_deleted() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        fs::write(directory.path().join("backups"), "in the way").unwrap();
        assert_phase(&server.backup("failed", BackupSpec::default()).await, &BackupPhase::Failed);
        fs::remove_file(directory.path().join("backups")).unwrap();
        server.create(request(&cluster.namespace, "failed")).await;
        server.until_gone::<Backup>("failed").await;
        server.stop().await;
    });
}

#[test]
fn a_deletion_that_cannot_be_carried_out_says_why() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        server.create(request(&cluster.namespace, "absent")).await;
        let processed = |request: &DeleteBackupRequest| *request.status.phase() == DeleteBackupRequestPhase::Processed;
        let request = server.until("delete-absent", processed).await;
        assert_says(&request.status.errors, "backup not found");
        server.stop().await;
    });
}

#[test]
fn an_expired_backup_is_deleted() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        let spec = BackupSpec { ttl: GoDuration::from_secs(5), ..workload.spec() };
        assert_phase(&server.backup("short", spec).await, &BackupPhase::Completed);
        assert_phase(&server.backup("long", workload.spec()).await, &BackupPhase::Completed);
        server.until_gone::<Backup>("short").await;
        assert!(!directory.path().join("backups/short").exists());
        assert!(server.api::<Backup>().get_opt("long").await.unwrap().is_some());
        workload.delete().await;
        server.stop().await;
    });
}

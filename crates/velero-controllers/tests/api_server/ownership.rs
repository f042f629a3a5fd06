//! Two who work on one name: servers beside each other, objects made again, clusters that share a bucket.

use std::fs;
use std::path::Path;

use kube::api::DeleteParams;
use velero_api::v1::{Backup, BackupPhase, DeleteBackupRequest, DeleteBackupRequestSpec};
use velero_archive::ArchiveReader;
use velero_controllers::server::Settings;
use velero_testkit::{TestCluster, cluster_test};

use crate::support::{Server, Workload, api, assert_phase, assert_says, settings};

/// Settings that make a backup last: one object a page and few requests a second.
fn slow(cluster: &TestCluster) -> Settings {
    Settings { client_qps: Some(8.0), client_burst: Some(8), client_page_size: 1, ..settings(cluster) }
}

fn runs(backup: &Backup) -> bool {
    *backup.status.phase() == BackupPhase::InProgress
}

fn stored(directory: &Path, name: &str) -> Option<Backup> {
    let text = fs::read(directory.join("backups").join(name).join("velero-backup.json")).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

fn is_whole(directory: &Path, name: &str) -> bool {
    let archive = fs::File::open(directory.join("backups").join(name).join(format!("{name}.tar.gz"))).unwrap();
    ArchiveReader::new(archive).for_each(|_| Ok::<_, velero_archive::Error>(())).is_ok()
}

#[test]
fn what_somebody_else_has_ended_is_not_completed_by_the_server() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 40).await;
        let first = Server::start_with(cluster.clone(), slow(&cluster)).await;
        first.directory_location("default", directory.path()).await;
        first.create(Backup::new(&cluster.namespace, "twice", workload.spec())).await;
        first.until("twice", runs).await;

        // As the next holder of the Lease would, or a person.
        let end = serde_json::json!({
            "metadata": {"annotations": {"velero.io/holder-identity": null}},
            "status": {"phase": "Failed", "failureReason": "its server is gone"},
        });
        first.patch::<Backup>("twice", end).await;
        let failed = first.ended("twice").await;
        // The server takes another one when it is done with this.
        assert_phase(&first.backup("after", workload.spec()).await, &BackupPhase::Completed);
        let still = api::<Backup>(&cluster).get("twice").await.unwrap();
        assert_eq!(still.status.phase(), failed.status.phase());
        assert_eq!(still.status.failure_reason, "its server is gone");
        assert!(stored(directory.path(), "twice").is_none_or(|stored| *stored.status.phase() == BackupPhase::Failed));
        assert!(!directory.path().join("backups/twice/twice.tar.gz").exists());
        workload.delete().await;
        first.stop().await;
    });
}

#[test]
fn a_backup_made_again_under_the_same_name_is_another_one() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 40).await;
        let server = Server::start_with(cluster.clone(), slow(&cluster)).await;
        server.directory_location("default", directory.path()).await;
        server.create(Backup::new(&cluster.namespace, "again", workload.spec())).await;
        server.until("again", runs).await;
        server.api::<Backup>().delete("again", &DeleteParams::default()).await.unwrap();
        let mut spec = workload.spec();
        spec.included_resources = vec!["secrets".to_owned()];
        let made = server.create(Backup::new(&cluster.namespace, "again", spec)).await;

        let backup = server.ended("again").await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(backup.metadata.uid, made.metadata.uid);
        let stored = stored(directory.path(), "again").unwrap();
        assert_eq!(stored.metadata.uid, made.metadata.uid, "the files are those of the second");
        assert_eq!(stored.spec.included_resources, ["secrets"]);
        assert!(is_whole(directory.path(), "again"));
        workload.delete().await;
        server.stop().await;
    });
}

/// Another namespace with a server, as good as another cluster for a bucket.
async fn neighbour(cluster: &TestCluster, namespace: &str) -> Server {
    let neighbour = TestCluster { namespace: namespace.to_owned(), ..cluster.clone() };
    Server::start(neighbour).await
}

#[test]
fn of_two_clusters_with_one_bucket_and_one_name_the_first_wins_and_its_files_stay_whole() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 40).await;
        let other = Workload::new(&cluster, 1).await;
        let first = Server::start_with(cluster.clone(), slow(&cluster)).await;
        first.directory_location("default", directory.path()).await;
        let second = neighbour(&cluster, &other.namespace).await;
        second.directory_location("default", directory.path()).await;

        first.create(Backup::new(&cluster.namespace, "same", workload.spec())).await;
        first.until("same", runs).await;
        let reservation = directory.path().join("backups/same/velero-backup-reservation.json");
        while !reservation.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let loser = second.backup("same", workload.spec()).await;
        assert_phase(&loser, &BackupPhase::Failed);
        assert_says(&[&loser.status.failure_reason], "another cluster is writing a backup \"same\"");
        let winner = first.ended("same").await;
        assert_phase(&winner, &BackupPhase::Completed);
        assert!(!reservation.exists(), "a complete backup needs no reservation");
        assert_eq!(stored(directory.path(), "same").unwrap().metadata.uid, winner.metadata.uid);

        // The loser owns nothing of it, whatever becomes of the loser.
        let spec = DeleteBackupRequestSpec { backup_name: "same".to_owned(), ..Default::default() };
        second.create(DeleteBackupRequest::new(&other.namespace, "delete-same", spec)).await;
        second.until_gone::<Backup>("same").await;
        assert_eq!(stored(directory.path(), "same").unwrap().metadata.uid, winner.metadata.uid);
        assert!(is_whole(directory.path(), "same"));
        for server in [first, second] {
            server.stop().await;
        }
        workload.delete().await;
        other.delete().await;
    });
}

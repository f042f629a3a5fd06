//! Snapshots that are uploaded after they are taken: the backup waits for them.

use std::time::Duration;

use serde_json::json;
use velero_api::GoDuration;
use velero_api::records::{BackupOperation, BackupVolumeInfo, ResultsFile, Snapshot};
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestSpec, RestorePhase, RestoreSpec,
};
use velero_testkit::cluster_test;

use crate::steered::PhaseWatch;
use crate::support::{Server, assert_phase, assert_restore_phase, assert_says};
use crate::volumes::{Claims, Folders, SECOND_VERSION};

const WAITING: &str = "WaitingForPluginOperations";
const FINALIZING: &str = "Finalizing";
const FINALIZING_FAILED: &str = "FinalizingPartiallyFailed";
const COMPLETED: &str = "Completed";
const FAILED: &str = "PartiallyFailed";

/// The course of an upload, the phases after InProgress, and a piece of the error if there is one.
const ROWS: [(&str, &str, &[&str], Option<&str>); 6] = [
    ("at-once", "takes=0s", &[FINALIZING, COMPLETED], None),
    ("slow", "takes=5s", &[WAITING, FINALIZING, COMPLETED], None),
    ("fails-late", "fails-after=5s", &[WAITING, FINALIZING_FAILED, FAILED], Some("asked for a failing operation")),
    ("progress-error", "progress-error", &[FINALIZING_FAILED, FAILED], Some("asked for progress to fail")),
    ("progress-crash", "progress-crash", &[FINALIZING_FAILED, FAILED], Some("Progress")),
    ("timeout", "never", &[WAITING, FINALIZING_FAILED, FAILED], Some("Asynchronous action timed out")),
];

fn waits(backup: &Backup) -> bool {
    *backup.status.phase() == BackupPhase::WaitingForPluginOperations
}

#[test]
fn every_course_of_an_upload_ends_as_the_table_says() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        let server = folders.serve(&cluster, SECOND_VERSION).await;
        let watch = PhaseWatch::start(&cluster, |backup: &Backup| backup.status.phase().to_string());
        for row in ROWS {
            check(row, &server, &folders, &watch).await;
        }
        let cancelled = folders.snapshots().iter().filter(|snapshot| snapshot["cancelled"] == true).count();
        assert_eq!(cancelled, 3, "the upload that took too long, and those that cannot be asked about");
        server.stop().await;
    });
}

async fn check(
    (name, course, phases, error): (&str, &str, &[&str], Option<&str>),
    server: &Server,
    folders: &Folders,
    watch: &PhaseWatch,
) {
    let claims = Claims::new(&server.cluster, folders).await;
    claims.add("data", json!({"example.velero.io/upload": course})).await;
    let timeout = if name == "timeout" { GoDuration::from_secs(4) } else { GoDuration::ZERO };
    let backup = server.backup(name, BackupSpec { item_operation_timeout: timeout, ..claims.spec() }).await;
    let mut expected = vec!["InProgress"];
    expected.extend(phases);
    assert_eq!(watch.of(name, phases.last().unwrap()).await, expected, "{name}");
    let (status, good) = (&backup.status, i64::from(error.is_none()));
    let counters = (status.volume_snapshots_attempted, status.volume_snapshots_completed, status.errors);
    assert_eq!(counters, (1, good, 1 - good), "{name}");
    let of_operations = (status.backup_item_operations_attempted, status.backup_item_operations_completed);
    assert_eq!(of_operations, (1, good), "{name}");

    let operations: Vec<BackupOperation> = folders.read(&format!("backups/{name}/{name}-itemoperations.json.gz"));
    let spec = &operations[0].spec;
    assert_eq!((spec.backup_item_action.as_str(), spec.volume_snapshot_location.as_str()), (SECOND_VERSION, "folders"));
    assert_eq!(spec.resource_identifier.group_resource(), "persistentvolumes");
    assert_eq!(spec.resource_identifier.name, claims.volume("data"));
    let snapshots: Vec<Snapshot> = folders.read(&format!("backups/{name}/{name}-volumesnapshots.json.gz"));
    assert_eq!(snapshots[0].status.provider_snapshot_id, spec.operation_id, "{name}");
    assert_eq!((snapshots[0].is_complete(), snapshots[0].is_unfinished()), (good == 1, false), "{name}");
    let infos: Vec<BackupVolumeInfo> = folders.read(&format!("backups/{name}/{name}-volumeinfo.json.gz"));
    assert_eq!(infos[0].result, snapshots[0].result(), "{name}");
    if let Some(piece) = error {
        let results: ResultsFile = folders.read(&format!("backups/{name}/{name}-results.gz"));
        assert_says(&results.errors.cluster, piece);
        assert_says(&results.errors.cluster, "plugin: example.velero.io/volumes");
        let spec = RestoreSpec { backup_name: name.to_owned(), ..RestoreSpec::default() };
        claims.remove().await;
        let restore = server.restore(name, spec).await;
        assert_restore_phase(&restore, &RestorePhase::PartiallyFailed);
    }
    claims.remove_without_waiting().await;
}

#[test]
fn the_snapshots_of_a_backup_that_is_deleted_while_it_waits_go_with_it() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        let server = folders.serve(&cluster, SECOND_VERSION).await;
        let claims = Claims::new(&cluster, &folders).await;
        claims.add("endless", json!({"example.velero.io/upload": "never"})).await;
        claims.add("quick", json!({})).await;
        server.create(Backup::new(&cluster.namespace, "b", claims.spec())).await;
        server.until("b", waits).await;
        assert_eq!(folders.snapshots().len(), 2);
        let spec = DeleteBackupRequestSpec { backup_name: "b".to_owned(), ..Default::default() };
        server.create(DeleteBackupRequest::new(&cluster.namespace, "delete-b", spec)).await;
        server.until_gone::<Backup>("b").await;
        assert!(folders.snapshots().is_empty() && !folders.has_backup("b"));
        claims.remove_without_waiting().await;
        server.stop().await;
    });
}

#[test]
fn an_upload_goes_on_with_the_next_server() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        let server = folders.serve(&cluster, SECOND_VERSION).await;
        let watch = PhaseWatch::start(&cluster, |backup: &Backup| backup.status.phase().to_string());
        let claims = Claims::new(&cluster, &folders).await;
        claims.add("slow", json!({"example.velero.io/upload": "takes=8s"})).await;
        claims.add("failing", json!({"example.velero.io/upload": "fails-after=6s"})).await;
        server.create(Backup::new(&cluster.namespace, "b", claims.spec())).await;
        server.until("b", waits).await;
        server.stop().await;
        let server = Server::start_with(cluster.clone(), folders.settings(&cluster)).await;
        let backup = server.ended("b").await;
        assert_phase(&backup, &BackupPhase::PartiallyFailed);
        let phases = watch.of("b", FAILED).await;
        assert_eq!(phases.first().map(String::as_str), Some("InProgress"));
        assert!(phases.iter().any(|phase| phase == FINALIZING_FAILED), "{phases:?}");
        let status = &backup.status;
        assert_eq!((status.volume_snapshots_attempted, status.volume_snapshots_completed, status.errors), (2, 1, 1));
        claims.remove_without_waiting().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_that_is_stopped_leaves_no_snapshots() {
    cluster_test(|cluster| async move {
        let folders = Folders::new();
        let server = folders.serve(&cluster, SECOND_VERSION).await;
        let claims = Claims::new(&cluster, &folders).await;
        claims.add("quick", json!({"example.velero.io/upload": "never"})).await;
        claims.add("slow", json!({"example.velero.io/snapshot": "slow=60s"})).await;
        server.create(Backup::new(&cluster.namespace, "b", claims.spec())).await;
        for _ in 0..300 {
            if !folders.snapshots().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(folders.snapshots().len(), 1, "the other one takes its time");
        server.stop().await;
        assert!(folders.snapshots().is_empty());
        let server = Server::start_with(cluster.clone(), folders.settings(&cluster)).await;
        let backup = server.ended("b").await;
        assert_phase(&backup, &BackupPhase::Failed);
        claims.remove_without_waiting().await;
        server.stop().await;
    });
}

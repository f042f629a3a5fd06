//! Servers that are stopped while operations run, and what the next one makes of it.

use std::fs;
use std::path::Path;

use serde_json::json;
use velero_api::annotations::CLEAN_UP_OWED;
use velero_api::metadata::annotation;
use velero_api::records::{BackupOperation, OperationPhase, RestoreOperation, ResultsFile};
use velero_api::v1::{Backup, BackupPhase, DeleteBackupRequest, DeleteBackupRequestSpec, Restore, RestorePhase};
use velero_archive::gzjson;
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, cluster_test};

use crate::steered::{BACKUP_ACTION, Courses, PhaseWatch, RESTORE_ACTION, Steering};
use crate::support::{
    api, assert_phase, assert_restore_phase, assert_says, delete_namespace, has_ended, into_copy, read,
};

fn waits(backup: &Backup) -> bool {
    *backup.status.phase() == BackupPhase::WaitingForPluginOperations
}

fn operations_file(directory: &Path, backup: &str) -> std::path::PathBuf {
    directory.join("backups").join(backup).join(format!("{backup}-itemoperations.json.gz"))
}

#[test]
fn a_backup_that_waits_goes_on_with_the_next_server() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let watch = PhaseWatch::start(&cluster, |backup: &Backup| backup.status.phase().to_string());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["takes=4", "fails=5", "takes=1"]).await;
        server.create(Backup::new(&cluster.namespace, "patient", courses.spec())).await;
        server.until("patient", waits).await;
        server.stop().await;
        assert!(waits(&api::<Backup>(&cluster).get("patient").await.unwrap()), "a stop is no failure");
        assert!(steering.cancelled("patient").is_empty());

        let server = steering.server(&cluster).await;
        let backup = server.ended("patient").await;
        assert_phase(&backup, &BackupPhase::PartiallyFailed);
        assert_eq!((backup.status.backup_item_operations_completed, backup.status.errors), (2, 1));
        let seen = watch.of("patient", "PartiallyFailed").await;
        assert_eq!(seen.first().map(String::as_str), Some("InProgress"));
        assert_eq!(seen.last().map(String::as_str), Some("PartiallyFailed"));
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_is_finalized_by_the_next_server() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server_without_finalizer(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["takes=1"]).await;
        server.create(Backup::new(&cluster.namespace, "left", courses.spec())).await;
        server.until("left", |backup: &Backup| *backup.status.phase() == BackupPhase::Finalizing).await;
        server.stop().await;
        assert!(!directory.path().join("backups/left/velero-backup.json").exists());

        let server = steering.server(&cluster).await;
        assert_phase(&server.ended("left").await, &BackupPhase::Completed);
        assert!(directory.path().join("backups/left/velero-backup.json").exists());
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_over_whose_files_another_was_written_fails_and_leaves_them_alone() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server_without_finalizer(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["takes=1"]).await;
        server.create(Backup::new(&cluster.namespace, "same", courses.spec())).await;
        server.until("same", |backup: &Backup| *backup.status.phase() == BackupPhase::Finalizing).await;
        server.stop().await;
        let folder = directory.path().join("backups/same");
        let reservation = folder.join("velero-backup-reservation.json");
        assert!(reservation.exists());
        // As Velero of another cluster does, which takes no notice of reservations.
        let mut other = Backup::new("elsewhere", "same", Default::default());
        other.metadata.uid = Some("of-another".to_owned());
        other.status.phase = Some(BackupPhase::Completed);
        let files = [("velero-backup.json", serde_json::to_vec(&other).unwrap()), ("same.tar.gz", b"theirs".to_vec())];
        for (file, content) in &files {
            fs::write(folder.join(file), content).unwrap();
        }

        let server = steering.server(&cluster).await;
        let paid = |backup: &Backup| has_ended(backup) && annotation(backup, CLEAN_UP_OWED).is_empty();
        let backup = server.until("same", paid).await;
        assert_phase(&backup, &BackupPhase::Failed);
        assert_says(&[&backup.status.failure_reason], "another backup of this name has appeared in its location");
        assert!(!reservation.exists(), "it would make the files pass for its own");
        let spec = DeleteBackupRequestSpec { backup_name: "same".to_owned(), ..Default::default() };
        server.create(DeleteBackupRequest::new(&cluster.namespace, "delete-same", spec)).await;
        server.until_gone::<Backup>("same").await;
        for (file, content) in files {
            assert_eq!(fs::read(folder.join(file)).unwrap(), content, "{file}");
        }
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_server_that_is_stopped_cancels_the_operations_of_what_it_fails() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["never"]).await;
        courses.add_slow("slow", "never", 4).await;
        server.create(Backup::new(&cluster.namespace, "cut", courses.spec())).await;
        while steering.started("cut").len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        server.stop().await;
        let backup = api::<Backup>(&cluster).get("cut").await.unwrap();
        assert_phase(&backup, &BackupPhase::Failed);
        assert_says(&[&backup.status.failure_reason], "the server was stopped");
        assert_eq!(steering.cancelled("cut"), steering.started("cut"), "also what was told only after the stop");
        courses.delete().await;
    });
}

#[test]
fn a_server_that_is_stopped_cancels_the_operations_of_a_restore_that_it_fails() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let (courses, copy) = (Courses::new(&cluster, RESTORE_ACTION, &["never"]).await, unique_name("copy"));
        courses.add_slowly_restored("slow", "never", 4).await;
        assert_phase(&server.backup("good", courses.spec()).await, &BackupPhase::Completed);
        let spec = into_copy("good", &courses.namespace, &copy);
        server.create(Restore::new(&cluster.namespace, "cut", spec)).await;
        while steering.started("cut").len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        server.stop().await;
        let restore = api::<Restore>(&cluster).get("cut").await.unwrap();
        assert_restore_phase(&restore, &RestorePhase::Failed);
        assert_says(&[&restore.status.failure_reason], "the server was stopped");
        assert_eq!(steering.cancelled("cut"), steering.started("cut"), "also what was told only after the stop");
        let stored: Vec<RestoreOperation> =
            read(&directory.path().join("restores/cut/restore-cut-itemoperations.json.gz"));
        assert!(stored.len() == 2 && stored.iter().all(|one| one.status.error.contains("was stopped")), "{stored:?}");
        delete_namespace(&cluster, &copy).await;
        courses.delete().await;
    });
}

#[test]
fn a_server_that_is_stopped_does_not_wait_for_ever_for_what_an_action_has_started() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["never"]).await;
        courses.add_slow("slow", "never", 300).await;
        server.create(Backup::new(&cluster.namespace, "cut", courses.spec())).await;
        while steering.started("cut").len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        server.stop().await;
        assert_phase(&api::<Backup>(&cluster).get("cut").await.unwrap(), &BackupPhase::Failed);
        assert_eq!(steering.cancelled("cut").len(), 1, "what had been told");
        let results: ResultsFile = read(&directory.path().join("backups/cut/cut-results.gz"));
        assert_says(&results.errors.velero, "may be left");
        courses.delete().await;
    });
}

#[test]
fn a_new_server_cancels_what_an_interrupted_backup_had_recorded() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["never", "takes=1"]).await;
        server.create(Backup::new(&cluster.namespace, "killed", courses.spec())).await;
        server.until("killed", waits).await;
        // As if the server had been killed after it had stored the operations and before it said so.
        server.patch::<Backup>("killed", serde_json::json!({"status": {"phase": "InProgress"}})).await;
        server.stop().await;

        let server = steering.server(&cluster).await;
        let paid = |backup: &Backup| has_ended(backup) && annotation(backup, CLEAN_UP_OWED).is_empty();
        let backup = server.until("killed", paid).await;
        assert_phase(&backup, &BackupPhase::Failed);
        let cancelled = steering.cancelled("killed");
        assert!(cancelled.len() == 1 && cancelled.iter().all(|id| id.contains("never")), "{cancelled:?}");
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_whose_operations_are_lost_never_completes() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["never", "never"]).await;
        let names = ["missing", "broken", "emptied"];
        for name in names {
            server.create(Backup::new(&cluster.namespace, name, courses.spec())).await;
            server.until(name, waits).await;
        }
        server.stop().await;
        for name in names {
            let file = operations_file(directory.path(), name);
            match name {
                "missing" => fs::remove_file(file).unwrap(),
                "broken" => fs::write(file, "no gzip").unwrap(),
                _ => fs::write(file, gzjson::encode(&Vec::<()>::new()).unwrap()).unwrap(),
            }
        }
        let server = steering.server(&cluster).await;
        for name in names {
            let backup = server.ended(name).await;
            assert_phase(&backup, &BackupPhase::PartiallyFailed);
            assert_says(&[&backup.status.failure_reason], "the file of its operations");
            let results = directory.path().join("backups").join(name).join(format!("{name}-results.gz"));
            let results: ResultsFile = read(&results);
            assert_eq!(results.errors.len() as i64, backup.status.errors, "{name}");
            assert!(directory.path().join("backups").join(name).join("velero-backup.json").exists());
        }
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_restore_that_waits_goes_on_with_the_next_server() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, RESTORE_ACTION, &["takes=4", "takes=1"]).await;
        assert_phase(&server.backup("source", courses.spec()).await, &BackupPhase::Completed);
        let copies = [unique_name("copy"), unique_name("copy")];
        for (name, copy) in ["patient", "lost"].iter().zip(&copies) {
            let spec = into_copy("source", &courses.namespace, copy);
            server.create(Restore::new(&cluster.namespace, name, spec)).await;
        }
        for name in ["patient", "lost"] {
            let waits = |restore: &Restore| *restore.status.phase() == RestorePhase::WaitingForPluginOperations;
            server.until(name, waits).await;
        }
        server.stop().await;
        fs::remove_file(directory.path().join("restores/lost/restore-lost-itemoperations.json.gz")).unwrap();

        let server = steering.server(&cluster).await;
        let patient = server.restore_ended("patient").await;
        assert_restore_phase(&patient, &RestorePhase::Completed);
        assert_eq!(patient.status.restore_item_operations_completed, 2);
        let lost = server.restore_ended("lost").await;
        assert_restore_phase(&lost, &RestorePhase::PartiallyFailed);
        assert_says(&[&lost.status.failure_reason], "the file of its operations is not in the location");
        courses.delete().await;
        for copy in copies {
            delete_namespace(&cluster, &copy).await;
        }
        server.stop().await;
    });
}

#[test]
fn what_a_server_stored_and_did_not_tell_any_more_is_told_by_the_next() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server_without_finalizer(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let endless = Courses::new(&cluster, BACKUP_ACTION, &["never", "never"]).await;
        let quick = Courses::new(&cluster, BACKUP_ACTION, &["takes=1"]).await;
        server.create(Backup::new(&cluster.namespace, "untold", endless.spec())).await;
        server.create(Backup::new(&cluster.namespace, "stored", quick.spec())).await;
        server.until("untold", waits).await;
        let finalizing = |backup: &Backup| *backup.status.phase() == BackupPhase::Finalizing;
        let mut stored: Backup = server.until("stored", finalizing).await;
        server.stop().await;
        // One server had noticed that both operations failed, another had written the end of its backup.
        let file = operations_file(directory.path(), "untold");
        let mut operations: Vec<BackupOperation> = read(&file);
        for operation in &mut operations {
            operation.status.phase = Some(OperationPhase::Failed);
            operation.status.error = "lost power".to_owned();
        }
        fs::write(&file, gzjson::encode(&operations).unwrap()).unwrap();
        stored.status.phase = Some(BackupPhase::PartiallyFailed);
        stored.status.errors = 7;
        let metadata = directory.path().join("backups/stored/velero-backup.json");
        fs::write(&metadata, serde_json::to_vec(&stored).unwrap()).unwrap();

        let server = steering.server(&cluster).await;
        let untold = server.ended("untold").await;
        assert_phase(&untold, &BackupPhase::PartiallyFailed);
        assert_eq!((untold.status.errors, untold.status.backup_item_operations_failed), (2, 2));
        let results = directory.path().join("backups/untold/untold-results.gz");
        let results: ResultsFile = read(&results);
        assert_eq!(results.errors.len(), 2, "{results:?}");
        assert_says(&results.errors.namespaces[&endless.namespace], "lost power, plugin: test.velero.io/backup");
        let stored = server.ended("stored").await;
        assert_phase(&stored, &BackupPhase::PartiallyFailed);
        assert_eq!(stored.status.errors, 7, "what is stored is the truth");
        endless.delete().await;
        quick.delete().await;
        server.stop().await;
    });
}

/// The backup `twice` of a server that is gone, as if that had been killed after it had stored a warning of the last step and before it
/// said so.
async fn killed_in_the_last_step(cluster: &TestCluster, directory: &Path, steering: &Steering) -> Courses {
    let server = steering.server(cluster).await;
    server.directory_location("default", directory).await;
    let courses = Courses::new(cluster, BACKUP_ACTION, &[]).await;
    courses.add_updating("seeker", "takes=1", "absent").await;
    let backup = server.backup("twice", courses.spec()).await;
    assert_phase(&backup, &BackupPhase::Completed);
    assert_eq!(backup.status.warnings, 1, "an item that is gone is a warning");
    server.stop().await;
    fs::remove_file(directory.join("backups/twice/velero-backup.json")).unwrap();
    let before = json!({"status": {"phase": "Finalizing", "warnings": 0, "completionTimestamp": null}});
    let patch = kube::api::Patch::Merge(before);
    api::<Backup>(cluster).patch("twice", &Default::default(), &patch).await.unwrap();
    courses
}

#[test]
fn a_last_step_that_is_taken_again_says_nothing_twice_and_forgets_nothing() {
    for is_better in [false, true] {
        cluster_test(move |cluster| async move {
            let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
            let courses = killed_in_the_last_step(&cluster, directory.path(), &steering).await;
            if is_better {
                courses.add("absent", json!({})).await;
            }
            let server = steering.server(&cluster).await;
            let backup = server.ended("twice").await;
            assert_phase(&backup, &BackupPhase::Completed);
            assert_eq!(backup.status.warnings, 1);
            let results: ResultsFile = read(&directory.path().join("backups/twice/twice-results.gz"));
            assert_eq!(results.warnings.len(), 1, "{results:?}");
            courses.delete().await;
            server.stop().await;
        });
    }
}

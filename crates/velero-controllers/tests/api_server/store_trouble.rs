//! A store that refuses or damages what it is asked for, for a while.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::json;
use velero_api::records::ResultsFile;
use velero_api::v1::{Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestSpec};
use velero_archive::gzjson;
use velero_controllers::server::Settings;
use velero_testkit::{cluster_test, storage_box_test};

use crate::lossy_proxy::{Fate, open_for};
use crate::moved_scene::{LOOKS, Scene};
use crate::steered::{BACKUP_ACTION, Courses, Steering};
use crate::support::{assert_phase, read, settings};

/// How long a file is not as it should be: for more than one try.
const A_WHILE: Duration = Duration::from_secs(3);

/// A file with a wrong bit.
struct Damaged {
    path: PathBuf,
    whole: Vec<u8>,
}

impl Damaged {
    fn new(path: PathBuf) -> Self {
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[whole.len() / 8] ^= 4;
        fs::write(&path, damaged).unwrap();
        Self { path, whole }
    }

    fn mend(self) {
        fs::write(self.path, self.whole).unwrap();
    }
}

#[test]
fn an_operation_whose_failure_could_not_be_told_whole_is_told_of_once() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &["fails=4"]).await;
        server.create(Backup::new(&cluster.namespace, "told", courses.spec())).await;
        let waits = |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations;
        server.until("told", waits).await;
        // The results can be stored, the log cannot.
        let (log, aside) = (directory.path().join("backups/told/told-logs.gz"), directory.path().join("aside"));
        fs::rename(&log, &aside).unwrap();
        fs::create_dir(&log).unwrap();
        let results = || read::<ResultsFile>(&directory.path().join("backups/told/told-results.gz"));
        for _ in 0..LOOKS {
            if !results().errors.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(A_WHILE).await;
        fs::remove_dir(&log).unwrap();
        fs::rename(&aside, &log).unwrap();
        let backup = server.ended("told").await;
        assert_phase(&backup, &BackupPhase::PartiallyFailed);
        assert_eq!((backup.status.errors, backup.status.backup_item_operations_failed), (1, 1));
        assert_eq!(results().errors.len(), 1, "{:?}", results());
        let logged = gzjson::decompress(&fs::read(&log).unwrap(), 1 << 20).unwrap();
        let lines = String::from_utf8(logged).unwrap().lines().filter(|line| line.contains(" level=error ")).count();
        assert!(lines >= 1, "the log says nothing of it");
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn an_archive_that_comes_damaged_for_a_while_takes_what_operations_have_changed_all_the_same() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let courses = Courses::new(&cluster, BACKUP_ACTION, &[]).await;
        courses.add("changing", json!({})).await;
        courses.add_updating("mover", "takes=4", "changing").await;
        server.create(Backup::new(&cluster.namespace, "b", courses.spec())).await;
        let waits = |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations;
        server.until("b", waits).await;
        let archive = Damaged::new(directory.path().join("backups/b/b.tar.gz"));
        let finalizing = |backup: &Backup| *backup.status.phase() == BackupPhase::Finalizing;
        server.until("b", finalizing).await;
        tokio::time::sleep(A_WHILE).await;
        archive.mend();
        let backup = server.ended("b").await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(backup.status.errors, 0);
        courses.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_whose_archive_comes_damaged_for_a_while_is_deleted_with_what_the_driver_holds() {
    storage_box_test(|cluster| async move {
        let folder = tempfile::tempdir().unwrap();
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        // What the driver is to delete is asked for by an object.
        let rule = move |path: &str, _: &str| {
            counted.fetch_add(usize::from(path.contains("/volumesnapshotcontents")), Ordering::SeqCst);
            Fate::Answered
        };
        let kubeconfig = Some(open_for(&cluster, folder.path(), &[Method::POST], rule).await);
        let settings = Settings { kubeconfig, ..settings(&cluster) };
        let scene = Scene::with_settings(&cluster, &["data"], settings).await;
        scene.begin("b", BackupSpec { snapshot_move_data: None, ..scene.spec() }).await;
        assert_phase(&scene.ended("b").await, &BackupPhase::Completed);
        let archive = Damaged::new(scene.directory.path().join("backups/b/b.tar.gz"));
        let deletion = DeleteBackupRequestSpec { backup_name: "b".to_owned(), ..Default::default() };
        scene.server.create(DeleteBackupRequest::new(&cluster.namespace, "gone", deletion)).await;
        tokio::time::sleep(A_WHILE).await;
        archive.mend();
        scene.server.until_gone::<Backup>("b").await;
        assert!(made.load(Ordering::SeqCst) > 0, "nobody has asked the driver to delete its snapshot");
        scene.end(&[]).await;
    });
}

//! Servers that are stopped and started.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use http::Method;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use velero_api::annotations::{ASKED_FIELDS, CLEAN_UP_OWED, HOLDER_IDENTITY};
use velero_api::labels;
use velero_api::metadata::annotation;
use velero_api::v1::{
    Backup, BackupPhase, BackupStorageLocation, BackupStorageLocationSpec, Restore, RestorePhase, RestoreSpec,
};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_controllers::server::{Controller, Settings};
use velero_testkit::faulty_proxy::{Action, Request};
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, cluster_test};

use crate::lossy_proxy::{Fate, open_for};
use crate::s3_support::s3_behind;
use crate::steered::{Courses, RESTORE_ACTION, Steering};
use crate::support::{
    PATIENCE, Server, Workload, api, assert_phase, assert_says, delete_namespace, has_ended, install_definitions,
    into_copy, settings,
};
use crate::told::told;

#[test]
fn a_new_server_fails_what_was_running_and_goes_on_with_what_was_waiting() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 1).await;
        let phases =
            [("ran", BackupPhase::InProgress), ("waited", BackupPhase::Queued), ("ready", BackupPhase::ReadyToStart)];
        for (name, phase) in phases {
            let mut backup = Backup::new(&cluster.namespace, name, workload.spec());
            backup.spec.storage_location = "default".to_owned();
            backup.status.phase = Some(phase);
            api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        }
        let paused = Settings {
            disable_controllers: [Controller::BackupQueue, Controller::Backup].into(),
            ..settings(&cluster)
        };
        let server = Server::start_with(cluster.clone(), paused).await;
        server.directory_location("default", directory.path()).await;
        let failed = server.ended("ran").await;
        assert_phase(&failed, &BackupPhase::Failed);
        assert_says(
            &[failed.status.failure_reason],
            "found a backup with status \"InProgress\" during the server starting",
        );
        server.stop().await;

        let server = Server::start(cluster.clone()).await;
        for name in ["waited", "ready"] {
            let backup = server.ended(name).await;
            assert_phase(&backup, &BackupPhase::Completed);
        }
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_server_that_takes_over_waits_for_lists_that_the_api_server_does_not_give_yet() {
    // Longer than one request is tried.
    const OUTAGE: Duration = Duration::from_secs(30);
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let mut backup = Backup::new(&cluster.namespace, "ran", Default::default());
        backup.spec.storage_location = "default".to_owned();
        backup.status.phase = Some(BackupPhase::InProgress);
        api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        let (folder, began) = (tempfile::tempdir().unwrap(), OnceLock::new());
        let away = move |path: &str, _: &str| {
            let is_list = path.contains("/backups?") && !path.contains("watch=");
            match is_list && began.get_or_init(Instant::now).elapsed() < OUTAGE {
                true => Fate::Lost,
                false => Fate::Answered,
            }
        };
        let kubeconfig = Some(open_for(&cluster, folder.path(), &[Method::GET], away).await);
        let server = Server::start_with(cluster.clone(), Settings { kubeconfig, ..settings(&cluster) }).await;
        let failed = server.ended("ran").await;
        assert_phase(&failed, &BackupPhase::Failed);
        assert_says(&[failed.status.failure_reason], "during the server starting");
        server.stop().await;
    });
}

#[test]
fn a_list_that_only_figures_need_keeps_a_server_that_takes_over_from_nothing() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let folder = tempfile::tempdir().unwrap();
        let away = |path: &str, _: &str| match path.contains("/schedules?") && !path.contains("watch=") {
            true => Fate::Lost,
            false => Fate::Answered,
        };
        let kubeconfig = Some(open_for(&cluster, folder.path(), &[Method::GET], away).await);
        let begin = Instant::now();
        let server = Server::start_with(cluster.clone(), Settings { kubeconfig, ..settings(&cluster) }).await;
        assert!(begin.elapsed() < Duration::from_secs(20), "it waited for {:?}", begin.elapsed());
        // By now it looks again for the figures.
        tokio::time::sleep(Duration::from_secs(12)).await;
        let begin = Instant::now();
        server.stop().await;
        assert!(begin.elapsed() < Duration::from_secs(5), "it waited for {:?}", begin.elapsed());
    });
}

#[test]
fn a_store_that_does_not_answer_keeps_a_server_that_takes_over_from_nothing_else() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let silence = |_: &Request| Action::Delay(Duration::from_secs(120));
        let silent = BackupStorageLocationSpec { default: false, ..s3_behind(&cluster, silence).await };
        let silent = BackupStorageLocation::new(&cluster.namespace, "silent", silent);
        api::<BackupStorageLocation>(&cluster).create(&PostParams::default(), &silent).await.unwrap();
        let mut backup = Backup::new(&cluster.namespace, "ran", Default::default());
        backup.spec.storage_location = "silent".to_owned();
        backup.metadata.annotations = Some([(HOLDER_IDENTITY.to_owned(), "gone_1".to_owned())].into());
        backup.status.phase = Some(BackupPhase::InProgress);
        api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        let begin = Instant::now();
        let server = Server::start(cluster.clone()).await;
        assert!(begin.elapsed() < Duration::from_secs(20), "it waited for {:?}", begin.elapsed());
        assert_phase(&api::<Backup>(&cluster).get("ran").await.unwrap(), &BackupPhase::InProgress);
        let failed = server.ended("ran").await;
        assert_phase(&failed, &BackupPhase::Failed);
        assert_says(&[failed.status.failure_reason], "during the server starting");
        // By now it pays what the backup owes, and asks the store.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let begin = Instant::now();
        server.stop().await;
        assert!(begin.elapsed() < Duration::from_secs(5), "it waited for {:?}", begin.elapsed());
    });
}

#[test]
fn a_server_that_is_stopped_fails_the_running_backup_and_leaves_no_archive() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 40).await;
        // One object a page and few requests a second make the backup last.
        let slow = Settings { client_qps: Some(8.0), client_burst: Some(8), client_page_size: 1, ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), slow).await;
        server.directory_location("default", directory.path()).await;
        server.create(Backup::new(&cluster.namespace, "cut", workload.spec())).await;
        server.until("cut", |backup: &Backup| *backup.status.phase() == BackupPhase::InProgress).await;
        server.stop().await;

        let backup = api::<Backup>(&cluster).get("cut").await.unwrap();
        assert_phase(&backup, &BackupPhase::Failed);
        assert_says(&[&backup.status.failure_reason], "the server was stopped");
        let told = told(&cluster).await;
        assert!(
            told.contains("Backup cut Warning Failed"),
            "the last Event is written while the Lease is held: {told:?}"
        );
        assert!(!directory.path().join("backups/cut/cut.tar.gz").exists());
        workload.delete().await;
    });
}

#[test]
fn a_backup_that_had_ended_when_its_server_died_keeps_its_end() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        let mut spec = BackupStorageLocationSpec { provider: "fs".to_owned(), ..Default::default() };
        spec.object_storage.bucket = directory.path().display().to_string();
        let location = BackupStorageLocation::new(&cluster.namespace, "default", spec);
        api::<BackupStorageLocation>(&cluster).create(&PostParams::default(), &location).await.unwrap();
        for (name, is_stored) in [("ended", true), ("half", false)] {
            let mut backup = Backup::new(&cluster.namespace, name, Default::default());
            backup.spec.storage_location = "default".to_owned();
            backup.status.phase = Some(BackupPhase::InProgress);
            let notes = [(HOLDER_IDENTITY, "gone_1"), (ASKED_FIELDS, "{}")];
            backup.metadata.annotations = Some(notes.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
            let mut backup = api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
            let folder = directory.path().join("backups").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("{name}.tar.gz")), "x").unwrap();
            backup.status.phase = Some(BackupPhase::PartiallyFailed);
            backup.status.errors = 3;
            let reservation = serde_json::json!({"uid": backup.metadata.uid});
            fs::write(folder.join("velero-backup-reservation.json"), reservation.to_string()).unwrap();
            if is_stored {
                fs::write(folder.join("velero-backup.json"), serde_json::to_vec(&backup).unwrap()).unwrap();
            }
        }
        let server = Server::start(cluster.clone()).await;
        let ended = server.ended("ended").await;
        assert_phase(&ended, &BackupPhase::PartiallyFailed);
        assert_eq!(ended.status.errors, 3);
        server.until_metrics(&["velero_backup_partial_failure_total{schedule=\"\"} 1"]).await;
        for note in [HOLDER_IDENTITY, ASKED_FIELDS] {
            assert_eq!(annotation(&ended, note), "", "nobody holds what has ended");
        }
        let paid = |backup: &Backup| has_ended(backup) && annotation(backup, CLEAN_UP_OWED).is_empty();
        let half = server.until("half", paid).await;
        assert_phase(&half, &BackupPhase::Failed);
        assert!(directory.path().join("backups/ended/velero-backup.json").exists());
        let reservation = directory.path().join("backups/ended/velero-backup-reservation.json");
        assert!(!reservation.exists(), "a backup that has ended needs no reservation");
        assert!(!directory.path().join("backups/half").exists(), "half a backup must not stay");
        server.stop().await;
    });
}

/// Refuses every change of some backups, locations and data movers of a test: of those whose names begin with `refused`, and with
/// `forbidden` as if for want of rights.
struct Refusals {
    cluster: TestCluster,
    policies: Api<ValidatingAdmissionPolicy>,
    bindings: Api<ValidatingAdmissionPolicyBinding>,
}

impl Refusals {
    /// Begins to refuse, and waits until a backup of that name is refused.
    async fn begin(cluster: &TestCluster, backup: &str) -> Self {
        let (policies, bindings) = (Api::all(cluster.client.clone()), Api::all(cluster.client.clone()));
        let begun = Self { cluster: cluster.clone(), policies, bindings };
        let unless = |beginning: &str| format!("!object.metadata.name.startsWith('{beginning}')");
        let rule = json!({
            "apiGroups": ["velero.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
            "resources": ["backups", "backupstoragelocations", "datadownloads", "datauploads"],
        });
        let policy = json!({
            "metadata": {"name": cluster.namespace},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [
                    {"expression": unless("refused"), "reason": "Invalid"},
                    {"expression": unless("forbidden"), "reason": "Forbidden"},
                ],
            },
        });
        let own = json!({"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}});
        let binding = json!({
            "metadata": {"name": cluster.namespace},
            "spec": {
                "policyName": cluster.namespace,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": own},
            },
        });
        begun.policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
        begun.bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
        begun.wait(backup, true).await;
        begun
    }

    /// Refuses no more.
    async fn end(self, backup: &str) {
        self.bindings.delete(&self.cluster.namespace, &DeleteParams::default()).await.unwrap();
        self.policies.delete(&self.cluster.namespace, &DeleteParams::default()).await.unwrap();
        self.wait(backup, false).await;
    }

    /// Waits until a change of a backup is refused, or is not.
    async fn wait(&self, backup: &str, is_refused: bool) {
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        let change = Patch::Merge(json!({"metadata": {"labels": {"changed": "true"}}}));
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while api::<Backup>(&self.cluster).patch(backup, &parameters, &change).await.is_err() != is_refused {
            assert!(tokio::time::Instant::now() < deadline, "whether changes are refused should be {is_refused}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[test]
fn a_backup_that_the_api_server_refuses_to_change_keeps_nobody_waiting() {
    use BackupPhase::{Completed, Failed, InProgress, New};
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 1).await;
        let refused = [("refused-ran", InProgress), ("forbidden-ran", InProgress), ("refused-new", New)];
        for (name, phase) in refused.iter().chain(&[("ran", InProgress)]) {
            let mut backup = Backup::new(&cluster.namespace, name, workload.spec());
            backup.spec.storage_location = "default".to_owned();
            backup.status.phase = Some(phase.clone());
            api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        }
        let refusals = Refusals::begin(&cluster, "refused-new").await;
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.ended("ran").await, &Failed);
        assert_phase(&server.backup("new", workload.spec()).await, &Completed);
        for (name, phase) in &refused {
            assert_phase(&api::<Backup>(&cluster).get(name).await.unwrap(), phase);
        }
        refusals.end("refused-new").await;
        assert_phase(&server.backup("newer", workload.spec()).await, &Completed);
        assert_phase(&server.ended("refused-new").await, &Completed);
        server.stop().await;

        let server = Server::start(cluster.clone()).await;
        for name in ["refused-ran", "forbidden-ran"] {
            assert_phase(&server.ended(name).await, &Failed);
        }
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_that_is_not_let_begin_leaves_its_turn_to_others_and_begins_once_it_is() {
    use BackupPhase::{Completed, ReadyToStart};
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 1).await;
        let refused = ["refused-ready", "forbidden-ready"];
        for name in refused {
            let mut backup = Backup::new(&cluster.namespace, name, workload.spec());
            backup.spec.storage_location = "default".to_owned();
            backup.status.phase = Some(ReadyToStart);
            api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        }
        let refusals = Refusals::begin(&cluster, "refused-ready").await;
        // One backup runs at a time.
        let server = Server::start(cluster.clone()).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("new", workload.spec()).await, &Completed);
        for name in refused {
            assert_phase(&api::<Backup>(&cluster).get(name).await.unwrap(), &ReadyToStart);
        }
        refusals.end("refused-ready").await;
        for name in refused {
            assert_phase(&server.ended(name).await, &Completed);
        }
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_server_leads_although_the_default_location_cannot_be_made_one_and_tries_again() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        let mut spec = BackupStorageLocationSpec { provider: "fs".to_owned(), ..Default::default() };
        spec.object_storage.bucket = directory.path().display().to_string();
        let location = BackupStorageLocation::new(&cluster.namespace, "refused", spec);
        api::<BackupStorageLocation>(&cluster).create(&PostParams::default(), &location).await.unwrap();
        let mut backup = Backup::new(&cluster.namespace, "refused-backup", Default::default());
        backup.status.phase = Some(BackupPhase::Failed);
        api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        let refusals = Refusals::begin(&cluster, "refused-backup").await;
        let settings = Settings { default_backup_storage_location: "refused".to_owned(), ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        refusals.end("refused-backup").await;
        server.until("refused", |location: &BackupStorageLocation| location.spec.default).await;
        server.stop().await;
    });
}

#[test]
fn a_location_that_cannot_be_changed_keeps_no_other_from_being_looked_at() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        for name in ["refused", "young"] {
            let mut spec = BackupStorageLocationSpec { provider: "fs".to_owned(), default: true, ..Default::default() };
            spec.object_storage.bucket = directory.path().display().to_string();
            let location = BackupStorageLocation::new(&cluster.namespace, name, spec);
            api::<BackupStorageLocation>(&cluster).create(&PostParams::default(), &location).await.unwrap();
        }
        let mut backup = Backup::new(&cluster.namespace, "refused-backup", Default::default());
        backup.status.phase = Some(BackupPhase::Failed);
        api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        let refusals = Refusals::begin(&cluster, "refused-backup").await;
        let server = Server::start(cluster.clone()).await;
        server.until("young", BackupStorageLocation::is_available).await;
        refusals.end("refused-backup").await;
        server.until("refused", |location: &BackupStorageLocation| !location.spec.default).await;
        server.stop().await;
    });
}

#[test]
fn a_restore_owes_the_end_of_data_movers_until_they_could_be_asked_for_it() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let mut backup = Backup::new(&cluster.namespace, "refused-backup", Default::default());
        backup.status.phase = Some(BackupPhase::Failed);
        api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        let spec = RestoreSpec { backup_name: "gone".to_owned(), ..RestoreSpec::default() };
        let mut restore = Restore::new(&cluster.namespace, "killed", spec);
        restore.metadata.annotations = Some([(CLEAN_UP_OWED.to_owned(), "operations".to_owned())].into());
        restore.status.phase = Some(RestorePhase::Failed);
        let restore = api::<Restore>(&cluster).create(&PostParams::default(), &restore).await.unwrap();
        let mut mover = DataDownload::new(&cluster.namespace, "refused-mover", Default::default());
        mover.metadata.labels = Some([(labels::RESTORE_UID.to_owned(), restore.metadata.uid.unwrap())].into());
        api::<DataDownload>(&cluster).create(&PostParams::default(), &mover).await.unwrap();
        let refusals = Refusals::begin(&cluster, "refused-backup").await;
        let server = Server::start(cluster.clone()).await;
        // Until the debt has been looked at a few times.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let owing = api::<Restore>(&cluster).get("killed").await.unwrap();
        assert!(!annotation(&owing, CLEAN_UP_OWED).is_empty(), "the mover goes on");
        refusals.end("refused-backup").await;
        server.until("killed", |restore: &Restore| annotation(restore, CLEAN_UP_OWED).is_empty()).await;
        assert!(api::<DataDownload>(&cluster).get("refused-mover").await.unwrap().spec.cancel);
        server.stop().await;
    });
}

#[test]
fn a_data_mover_that_cannot_be_told_to_stop_keeps_no_operation_of_a_failed_restore_going() {
    cluster_test(|cluster| async move {
        let (directory, steering) = (tempfile::tempdir().unwrap(), Steering::default());
        let server = steering.server(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let (courses, copy) = (Courses::new(&cluster, RESTORE_ACTION, &["never"]).await, unique_name("copy"));
        assert_phase(&server.backup("refused-backup", courses.spec()).await, &BackupPhase::Completed);
        let spec = into_copy("refused-backup", &courses.namespace, &copy);
        server.create(Restore::new(&cluster.namespace, "killed", spec)).await;
        let waits = |restore: &Restore| *restore.status.phase() == RestorePhase::WaitingForPluginOperations;
        let restore = server.until("killed", waits).await;
        server.stop().await;
        let owing = json!({"metadata": {"annotations": {CLEAN_UP_OWED: "operations"}}, "status": {"phase": "Failed"}});
        api::<Restore>(&cluster).patch("killed", &PatchParams::default(), &Patch::Merge(owing)).await.unwrap();
        let mut mover = DataDownload::new(&cluster.namespace, "refused-mover", Default::default());
        mover.metadata.labels = Some([(labels::RESTORE_UID.to_owned(), restore.metadata.uid.unwrap())].into());
        api::<DataDownload>(&cluster).create(&PostParams::default(), &mover).await.unwrap();
        let refusals = Refusals::begin(&cluster, "refused-backup").await;
        let server = steering.server(&cluster).await;
        let deadline = Instant::now() + PATIENCE;
        while steering.cancelled("killed").is_empty() {
            assert!(Instant::now() < deadline, "the operation goes on");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let owing = api::<Restore>(&cluster).get("killed").await.unwrap();
        assert!(!annotation(&owing, CLEAN_UP_OWED).is_empty(), "the mover goes on");
        refusals.end("refused-backup").await;
        courses.delete().await;
        delete_namespace(&cluster, &copy).await;
        server.stop().await;
    });
}

#[test]
fn a_data_mover_that_cannot_be_told_to_stop_keeps_no_files_of_a_failed_backup() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        let mut spec = BackupStorageLocationSpec { provider: "fs".to_owned(), ..Default::default() };
        spec.object_storage.bucket = directory.path().display().to_string();
        let location = BackupStorageLocation::new(&cluster.namespace, "default", spec);
        api::<BackupStorageLocation>(&cluster).create(&PostParams::default(), &location).await.unwrap();
        let mut backup = Backup::new(&cluster.namespace, "refused-backup", Default::default());
        backup.status.phase = Some(BackupPhase::Failed);
        api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        backup.metadata.name = Some("killed".to_owned());
        backup.metadata.annotations = Some([(CLEAN_UP_OWED.to_owned(), "files".to_owned())].into());
        backup.spec.storage_location = "default".to_owned();
        let backup = api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        let mut mover = DataUpload::new(&cluster.namespace, "refused-mover", Default::default());
        mover.metadata.labels = Some([(labels::BACKUP_UID.to_owned(), backup.metadata.uid.unwrap())].into());
        api::<DataUpload>(&cluster).create(&PostParams::default(), &mover).await.unwrap();
        let folder = directory.path().join("backups/killed");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("killed.tar.gz"), "x").unwrap();
        let refusals = Refusals::begin(&cluster, "refused-backup").await;
        let server = Server::start(cluster.clone()).await;
        let deadline = Instant::now() + PATIENCE;
        while folder.join("killed.tar.gz").exists() {
            assert!(Instant::now() < deadline, "the files stay");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let owing = api::<Backup>(&cluster).get("killed").await.unwrap();
        assert!(!annotation(&owing, CLEAN_UP_OWED).is_empty(), "the mover goes on");
        refusals.end("refused-backup").await;
        server.stop().await;
    });
}

#[test]
fn a_server_that_is_stopped_as_soon_as_it_is_ready_ends() {
    cluster_test(|cluster| async move {
        for _ in 0..5 {
            Server::start(cluster.clone()).await.stop().await;
        }
    });
}

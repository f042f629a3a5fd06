//! Backups whose server was interrupted, and that are taken again.

use std::collections::BTreeMap;

use kube::api::{ListParams, PostParams};
use velero_api::annotations::{ASKED_FIELDS, RETRIED_AS, RETRY_INTERRUPTED, RETRY_NUMBER, RETRY_OF, RETRY_OWED};
use velero_api::labels;
use velero_api::metadata::{annotation, label, name};
use velero_api::v1::{Backup, BackupPhase};
use velero_controllers::server::Settings;
use velero_rules::asked::asked_spec;
use velero_testkit::{TestCluster, cluster_test};

use crate::support::{Server, Workload, api, assert_phase, assert_says, has_ended, install_definitions, settings};

/// A backup of a schedule, or of none, with annotations.
fn backup(cluster: &TestCluster, workload: &Workload, name: &str, schedule: &str, notes: &[(&str, &str)]) -> Backup {
    let mut backup = Backup::new(&cluster.namespace, name, workload.spec());
    backup.spec.storage_location = "default".to_owned();
    if !schedule.is_empty() {
        backup.metadata.labels = Some([(labels::SCHEDULE_NAME.to_owned(), schedule.to_owned())].into());
    }
    let notes: BTreeMap<_, _> = notes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    backup.metadata.annotations = Some(notes);
    backup
}

fn settled(backup: &Backup) -> bool {
    has_ended(backup) && annotation(backup, RETRY_OWED).is_empty()
}

async fn names(cluster: &TestCluster) -> Vec<String> {
    let listed = api::<Backup>(cluster).list(&ListParams::default()).await.unwrap();
    let mut names: Vec<_> = listed.items.iter().map(|backup| name(backup).to_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_killed_server_has_its_backups_taken_again_that_ask_for_it_once_each_and_at_most_twice() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 1).await;
        let make = |name, schedule, notes: &[(&str, &str)]| backup(&cluster, &workload, name, schedule, notes);
        let ran = [
            make("asked", "", &[(RETRY_INTERRUPTED, "true")]),
            make("daily", "daily", &[]),
            make("once", "", &[]),
            make("refused", "daily", &[(RETRY_INTERRUPTED, "false")]),
            make("twice-retry-2", "daily", &[(RETRY_NUMBER, "2"), (RETRY_OF, "twice-retry-1")]),
        ];
        let again = make("made-retry-1", "daily", &[(RETRY_NUMBER, "1"), (RETRY_OF, "made")]);
        // A server was killed after it had made the second one and before it noted that.
        let mut made = make("made", "daily", &[(RETRY_OWED, "made-retry-1")]);
        made.status.phase = Some(BackupPhase::Failed);
        for mut backup in ran {
            backup.status.phase = Some(BackupPhase::InProgress);
            api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        }
        for backup in [made, again] {
            api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        }
        let expected = [
            "asked",
            "asked-retry-1",
            "daily",
            "daily-retry-1",
            "made",
            "made-retry-1",
            "once",
            "refused",
            "twice-retry-2",
        ];
        for _ in 0..2 {
            let server = Server::start(cluster.clone()).await;
            if api::<velero_api::v1::BackupStorageLocation>(&cluster).get_opt("default").await.unwrap().is_none() {
                server.directory_location("default", directory.path()).await;
            }
            for name in ["asked", "daily", "made", "once", "refused", "twice-retry-2"] {
                assert_phase(&server.until(name, settled).await, &BackupPhase::Failed);
            }
            for name in expected.iter().filter(|name| name.ends_with("-retry-1")) {
                server.ended(name).await;
            }
            server.stop().await;
            assert_eq!(names(&cluster).await, expected);
        }
        let daily = api::<Backup>(&cluster).get("daily").await.unwrap();
        assert_eq!(annotation(&daily, RETRIED_AS), "daily-retry-1");
        let again = api::<Backup>(&cluster).get("daily-retry-1").await.unwrap();
        assert_eq!((annotation(&again, RETRY_OF), annotation(&again, RETRY_NUMBER)), ("daily", "1"));
        assert_eq!(label(&again, labels::SCHEDULE_NAME), "daily");
        workload.delete().await;
    });
}

#[test]
fn a_backup_whose_replacement_has_the_name_of_another_says_that_it_is_not_taken_again() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster).await;
        let workload = Workload::new(&cluster, 1).await;
        let mut interrupted = backup(&cluster, &workload, "daily", "daily", &[]);
        interrupted.status.phase = Some(BackupPhase::InProgress);
        let mut other = backup(&cluster, &workload, "daily-retry-1", "", &[]);
        other.status.phase = Some(BackupPhase::Completed);
        for backup in [interrupted, other] {
            api::<Backup>(&cluster).create(&PostParams::default(), &backup).await.unwrap();
        }
        let server = Server::start(cluster.clone()).await;
        let failed: Backup = server.until("daily", settled).await;
        assert_phase(&failed, &BackupPhase::Failed);
        assert_says(&[&failed.status.failure_reason], "not taken again: another backup is called daily-retry-1");
        assert_eq!(annotation(&failed, RETRIED_AS), "");
        assert_eq!(names(&cluster).await, ["daily", "daily-retry-1"]);
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_server_that_is_told_to_end_leaves_a_new_backup_in_place_of_the_one_it_cuts_short() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::new(&cluster, 40).await;
        // One object a page and few requests a second make the backup last.
        let slow = Settings { client_qps: Some(8.0), client_burst: Some(8), client_page_size: 1, ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), slow).await;
        server.directory_location("default", directory.path()).await;
        server.create(backup(&cluster, &workload, "cut", "", &[(RETRY_INTERRUPTED, "true")])).await;
        let running = |backup: &Backup| *backup.status.phase() == BackupPhase::InProgress;
        // Before that its name may not be reserved yet, and nothing would be stored of it.
        let has_items = |backup: &Backup| backup.status.progress.as_ref().is_some_and(|done| done.items_backed_up > 0);
        let ran: Backup = server.until("cut", |backup: &Backup| running(backup) && has_items(backup)).await;
        assert_ne!(ran.spec.ttl, Default::default(), "the server has completed it");
        server.stop().await;
        let cut = api::<Backup>(&cluster).get("cut").await.unwrap();
        assert_phase(&cut, &BackupPhase::Failed);
        assert_says(&[&cut.status.failure_reason], "the server was stopped");
        let stored = std::fs::read_to_string(directory.path().join("backups/cut/velero-backup.json")).unwrap();
        assert!(!stored.contains(RETRY_OWED), "other clusters must not take it again");
        // The next server may be a Velero, which pays no debts and takes new backups alone.
        assert_eq!((annotation(&cut, RETRY_OWED), annotation(&cut, RETRIED_AS)), ("", "cut-retry-1"));
        assert_phase(&api::<Backup>(&cluster).get("cut-retry-1").await.unwrap(), &BackupPhase::New);

        let slow = Settings { client_qps: Some(8.0), client_burst: Some(8), client_page_size: 1, ..settings(&cluster) };
        let server = Server::start_with(cluster.clone(), slow).await;
        let again: Backup = server.until("cut-retry-1", running).await;
        let asked = asked_spec(annotation(&again, ASKED_FIELDS), &again.spec).unwrap();
        let mut written = workload.spec();
        written.storage_location = "default".to_owned();
        assert_eq!(asked, written, "it is asked for what the user wrote, not for what the server had made of it");
        let again = server.ended("cut-retry-1").await;
        assert_phase(&again, &BackupPhase::Completed);
        for name in ["cut", "cut-retry-1"] {
            let over: Backup = server.until(name, settled).await;
            assert_eq!(annotation(&over, ASKED_FIELDS), "", "{name}: needed while it runs only");
        }
        assert!(directory.path().join("backups/cut-retry-1/cut-retry-1.tar.gz").exists());
        workload.delete().await;
        server.stop().await;
    });
}

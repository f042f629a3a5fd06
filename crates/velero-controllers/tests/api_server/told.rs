//! What Kubernetes' own ways tell of objects: Events for who looks, conditions and phases for who waits.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use velero_api::annotations::CANCEL_REQUESTED;
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, BackupStorageLocationSpec, DeleteBackupRequest, DeleteBackupRequestSpec,
    DownloadTargetKind, RestorePhase, RestoreSpec, Schedule, SchedulePhase, ScheduleSpec, ServerStatusRequest,
};
use velero_testkit::harness::unique_name;
use velero_testkit::install::repository_root;
use velero_testkit::{TestCluster, cluster_test};

use crate::downloads::download;
use crate::operation_table::hasty;
use crate::repositories;
use crate::steered::{BACKUP_ACTION, Courses, RESTORE_ACTION, Steering};
use crate::support::{Server, Workload, assert_phase, assert_restore_phase, delete_namespace, settings};

/// Stories: what happens, to which object, and all Events that it gets then. The book has the same table.
const STORIES: [(&str, &str, &[&str]); 13] = [
    ("A backup ends without errors", "Backup good", &["Normal Started", "Normal Completed"]),
    ("A backup asks for what cannot be", "Backup refused", &["Warning FailedValidation"]),
    ("An item cannot be backed up", "Backup torn", &["Normal Started", "Warning PartiallyFailed"]),
    ("A backup is cancelled", "Backup stopped", &["Normal Started", "Warning Failed"]),
    ("A restore ends without errors", "Restore again", &["Normal Started", "Normal Completed"]),
    ("A restore names a backup that is not there", "Restore astray", &["Warning FailedValidation"]),
    ("An item cannot be restored", "Restore torn", &["Normal Started", "Warning PartiallyFailed"]),
    ("A schedule is due", "Schedule often", &["Normal BackupSubmitted"]),
    ("A schedule skips what is due at once", "Schedule daily", &["Normal BackupSkipped"]),
    ("A schedule cannot be read", "Schedule vague", &["Warning FailedValidation"]),
    ("A location can be used", "BackupStorageLocation default", &["Normal Available"]),
    ("A location cannot be used", "BackupStorageLocation lost", &["Warning Unavailable"]),
    (
        "A location holds files of a backup that never ended",
        "BackupStorageLocation littered",
        &["Normal Available", "Warning OrphanedBackup"],
    ),
];

/// What `kubectl wait` waits for: an object, and its condition, phase or end.
const WAITED_FOR: [(&str, &str); 15] = [
    ("backups.velero.io/good", "condition=Started"),
    ("backups.velero.io/good", "condition=Ended"),
    ("bak/good", "condition=Completed"),
    ("backups.velero.io/refused", "condition=Ended"),
    ("backups.velero.io/refused", "condition=Completed=false"),
    ("rst/again", "condition=Completed"),
    ("sched/daily", "condition=Enabled"),
    ("sched/vague", "condition=Enabled=false"),
    ("sched/often", "condition=Enabled=false"),
    ("bsl/default", "condition=Available"),
    ("bsl/lost", "condition=Available=false"),
    ("backuprepositories.velero.io/shop-default-kopia", "jsonpath={.status.phase}=Ready"),
    ("downloadrequests.velero.io/log", "jsonpath={.status.phase}=Processed"),
    ("serverstatusrequests.velero.io/asked", "jsonpath={.status.phase}=Processed"),
    ("deletebackuprequests.velero.io/delete-torn", "delete"),
];

/// The Events of the namespace, each as kind, name, type and reason.
pub(crate) async fn told(cluster: &TestCluster) -> BTreeSet<String> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let all = api.list(&ListParams::default()).await.unwrap().items.into_iter();
    let line = |event: Event| {
        let about = event.regarding.unwrap_or_default();
        let (kind, name) = (about.kind.unwrap_or_default(), about.name.unwrap_or_default());
        format!("{kind} {name} {} {}", event.type_.unwrap_or_default(), event.reason.unwrap_or_default())
    };
    all.map(line).collect()
}

/// Waits until the Events of all stories are there: they are written beside the work. Others are not there.
async fn until_told(cluster: &TestCluster) {
    let lines = |(_, object, events): &(&str, &str, &[&str])| {
        events.iter().map(|event| format!("{object} {event}")).collect::<Vec<_>>()
    };
    let expected: BTreeSet<String> = STORIES.iter().flat_map(lines).collect();
    let of_stories = |line: &String| STORIES.iter().any(|(_, object, _)| line.starts_with(&format!("{object} ")));
    let mut found = BTreeSet::new();
    for _ in 0..300 {
        found = told(cluster).await.into_iter().filter(of_stories).collect();
        if found.is_superset(&expected) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(found, expected);
}

/// Backups that end in every way; gives what they were of.
async fn make_backups(server: &Server, workload: &Workload) -> [Courses; 3] {
    let cluster = &server.cluster;
    assert_phase(&server.backup("good", workload.spec()).await, &BackupPhase::Completed);
    let refused = BackupSpec { storage_location: "absent".to_owned(), ..workload.spec() };
    assert_phase(&server.backup("refused", refused).await, &BackupPhase::FailedValidation);
    let unwilling = Courses::new(cluster, BACKUP_ACTION, &["refused"]).await;
    assert_phase(&server.backup("torn", unwilling.spec()).await, &BackupPhase::PartiallyFailed);
    let endless = Courses::new(cluster, BACKUP_ACTION, &["never"]).await;
    server.create(Backup::new(&cluster.namespace, "stopped", endless.spec())).await;
    let waits = |backup: &Backup| *backup.status.phase() == BackupPhase::WaitingForPluginOperations;
    server.until("stopped", waits).await;
    let cancel = json!({"metadata": {"annotations": {CANCEL_REQUESTED: "2026-11-17T02:03:04Z"}}});
    server.patch::<Backup>("stopped", cancel).await;
    let ended = server.until("stopped", |backup: &Backup| backup.status.phase().is_terminal()).await;
    assert_phase(&ended, &BackupPhase::Failed);
    let stubborn = Courses::new(cluster, RESTORE_ACTION, &["refused"]).await;
    assert_phase(&server.backup("stubborn", stubborn.spec()).await, &BackupPhase::Completed);
    [unwilling, endless, stubborn]
}

/// Restores that end in every way, into a namespace each; gives those.
async fn make_restores(server: &Server, from: &[(&str, &str, &str, RestorePhase)]) -> Vec<String> {
    let mut made = Vec::new();
    for (restore, backup, namespace, phase) in from {
        let copy = unique_name("copy");
        let namespace_mapping = [((*namespace).to_owned(), copy.clone())].into();
        let spec = RestoreSpec { backup_name: (*backup).to_owned(), namespace_mapping, ..Default::default() };
        assert_restore_phase(&server.restore(restore, spec).await, phase);
        if *phase != RestorePhase::FailedValidation {
            made.push(copy);
        }
    }
    made
}

/// A schedule that waits, one that is refused, and one that has made a backup and is paused.
async fn make_schedules(server: &Server, workload: &Workload) {
    let namespace = &server.cluster.namespace;
    for (name, cron, skip_immediately) in [("daily", "@daily", Some(true)), ("vague", "sometimes", None)] {
        let spec = ScheduleSpec { schedule: cron.to_owned(), skip_immediately, ..Default::default() };
        server.create(Schedule::new(namespace, name, spec)).await;
        server.until(name, |schedule: &Schedule| *schedule.status.phase() != SchedulePhase::New).await;
    }
    let spec = ScheduleSpec { schedule: "@every 1s".to_owned(), template: workload.spec(), ..Default::default() };
    server.create(Schedule::new(namespace, "often", spec)).await;
    server.until("often", |schedule: &Schedule| schedule.status.last_backup.is_some()).await;
    server.patch::<Schedule>("often", json!({"spec": {"paused": true}})).await;
}

/// A location that can be used, one whose directory is somebody else's, and one with what a backup left that never ended.
async fn make_locations(server: &Server, [good, foreign, littered]: [&Path; 3]) {
    fs::create_dir(foreign.join("holiday-photos")).unwrap();
    fs::write(foreign.join("holiday-photos/beach.jpg"), "x").unwrap();
    fs::create_dir_all(littered.join("backups/unfinished")).unwrap();
    fs::write(littered.join("backups/unfinished/unfinished.tar.gz"), "x").unwrap();
    server.directory_location("default", good).await;
    for (name, directory) in [("lost", foreign), ("littered", littered)] {
        let mut spec = BackupStorageLocationSpec { provider: "fs".to_owned(), ..Default::default() };
        spec.object_storage.bucket = directory.display().to_string();
        server.location(name, spec).await;
    }
}

/// Asks for all else that can be waited for.
async fn ask_for_the_rest(server: &Server) {
    let namespace = &server.cluster.namespace;
    server.create(repositories::of(&server.cluster, "shop")).await;
    download(server, "log", DownloadTargetKind::BackupLog, "good").await;
    server.create(ServerStatusRequest::new(namespace, "asked", Default::default())).await;
    let spec = DeleteBackupRequestSpec { backup_name: "torn".to_owned(), ..Default::default() };
    server.create(DeleteBackupRequest::new(namespace, "delete-torn", spec)).await;
}

#[test]
fn events_conditions_and_phases_tell_how_objects_stand_to_who_looks_and_to_who_waits() {
    cluster_test(|cluster| async move {
        let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let server =
            Server::start_with_actions(cluster.clone(), hasty(settings(&cluster)), Steering::default().actions()).await;
        make_locations(&server, [0, 1, 2].map(|place: usize| directories[place].path())).await;
        let workload = Workload::new(&cluster, 1).await;
        let courses = make_backups(&server, &workload).await;
        let restores = [
            ("again", "good", workload.namespace.as_str(), RestorePhase::Completed),
            ("astray", "absent", "nowhere", RestorePhase::FailedValidation),
            ("torn", "stubborn", courses[2].namespace.as_str(), RestorePhase::PartiallyFailed),
        ];
        let copies = make_restores(&server, &restores).await;
        make_schedules(&server, &workload).await;
        until_told(&cluster).await;
        ask_for_the_rest(&server).await;
        let machine = cluster.test_box.machine();
        for (object, end) in WAITED_FOR {
            let wanted = format!("--for={end}");
            machine.kubectl(&["-n", &cluster.namespace, "wait", &wanted, object, "--timeout=60s"]).unwrap();
        }
        for copy in copies {
            delete_namespace(&cluster, &copy).await;
        }
        for course in courses {
            course.delete().await;
        }
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn the_book_has_the_events_of_the_stories() {
    let rows = STORIES.map(|(story, object, events)| {
        let kind = object.split(' ').next().unwrap_or_default();
        let event = |event: &&str| event.split_once(' ').map(|(kind, reason)| format!("{kind} `{reason}`"));
        let events: Vec<_> = events.iter().filter_map(event).collect();
        format!("| {story} | {kind} | {} |\n", events.join(", "))
    });
    let table = format!("| what happens | on | Events |\n|---|---|---|\n{}", rows.concat());
    let page = fs::read_to_string(repository_root().join("docs/watching.md")).unwrap();
    assert!(page.contains(&table), "docs/watching.md is to have this table:\n{table}");
}

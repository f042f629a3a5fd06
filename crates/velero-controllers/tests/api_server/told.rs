//! What Kubernetes' own ways tell of objects: Events for who looks, conditions for who waits.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use velero_api::v1::{
    BackupPhase, BackupSpec, BackupStorageLocationSpec, RestorePhase, RestoreSpec, Schedule, SchedulePhase,
    ScheduleSpec,
};
use velero_testkit::harness::unique_name;
use velero_testkit::{TestCluster, cluster_test};

use crate::support::{Server, Workload, assert_phase, assert_restore_phase, delete_namespace};

/// The Events of the namespace, each as kind, name, type and reason.
async fn told(cluster: &TestCluster) -> BTreeSet<String> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let all = api.list(&ListParams::default()).await.unwrap().items.into_iter();
    let line = |event: Event| {
        let about = event.regarding.unwrap_or_default();
        let (kind, name) = (about.kind.unwrap_or_default(), about.name.unwrap_or_default());
        format!("{kind} {name} {} {}", event.type_.unwrap_or_default(), event.reason.unwrap_or_default())
    };
    all.map(line).collect()
}

/// Waits until all of these Events are there: they are written beside the work.
async fn until_told(cluster: &TestCluster, expected: &[&str]) {
    let mut missing = Vec::new();
    for _ in 0..200 {
        let found = told(cluster).await;
        missing = expected.iter().filter(|line| !found.contains(**line)).collect();
        if missing.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{missing:?} are not told: {:#?}", told(cluster).await);
}

/// What `kubectl wait` waits for: an object and its condition.
const WAITED_FOR: [(&str, &str); 11] = [
    ("backups.velero.io/good", "Started"),
    ("backups.velero.io/good", "Ended"),
    ("bak/good", "Completed"),
    ("backups.velero.io/refused", "Ended"),
    ("backups.velero.io/refused", "Completed=false"),
    ("rst/again", "Completed"),
    ("sched/daily", "Enabled"),
    ("sched/vague", "Enabled=false"),
    ("sched/often", "Enabled=false"),
    ("bsl/default", "Available"),
    ("bsl/lost", "Available=false"),
];

/// What Events tell.
const TOLD: [&str; 9] = [
    "Backup good Normal Started",
    "Backup good Normal Completed",
    "Backup refused Warning FailedValidation",
    "Restore again Normal Started",
    "Restore again Normal Completed",
    "Schedule often Normal BackupSubmitted",
    "Schedule vague Warning FailedValidation",
    "BackupStorageLocation default Normal Available",
    "BackupStorageLocation lost Warning Unavailable",
];

/// A schedule that waits, one that is refused, and one that has made a backup and is paused.
async fn make_schedules(server: &Server, workload: &Workload) {
    let namespace = &server.cluster.namespace;
    for (name, cron) in [("daily", "@daily"), ("vague", "sometimes")] {
        let spec = ScheduleSpec { schedule: cron.to_owned(), ..Default::default() };
        server.create(Schedule::new(namespace, name, spec)).await;
        server.until(name, |schedule: &Schedule| *schedule.status.phase() != SchedulePhase::New).await;
    }
    let spec = ScheduleSpec { schedule: "@every 1s".to_owned(), template: workload.spec(), ..Default::default() };
    server.create(Schedule::new(namespace, "often", spec)).await;
    server.until("often", |schedule: &Schedule| schedule.status.last_backup.is_some()).await;
    server.patch::<Schedule>("often", serde_json::json!({"spec": {"paused": true}})).await;
}

#[test]
fn events_and_conditions_tell_how_backups_restores_schedules_and_locations_stand() {
    cluster_test(|cluster| async move {
        let (directory, foreign) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(foreign.path().join("holiday-photos")).unwrap();
        std::fs::write(foreign.path().join("holiday-photos/beach.jpg"), "x").unwrap();
        let server = Server::start(cluster.clone()).await;
        let (workload, copy) = (Workload::new(&cluster, 1).await, unique_name("copy"));
        server.directory_location("default", directory.path()).await;
        let mut of_others = BackupStorageLocationSpec { provider: "fs".to_owned(), ..Default::default() };
        of_others.object_storage.bucket = foreign.path().display().to_string();
        server.location("lost", of_others).await;
        assert_phase(&server.backup("good", workload.spec()).await, &BackupPhase::Completed);
        let refused = BackupSpec { storage_location: "absent".to_owned(), ..workload.spec() };
        assert_phase(&server.backup("refused", refused).await, &BackupPhase::FailedValidation);
        let mapping = [(workload.namespace.clone(), copy.clone())].into();
        let spec = RestoreSpec { backup_name: "good".to_owned(), namespace_mapping: mapping, ..Default::default() };
        assert_restore_phase(&server.restore("again", spec).await, &RestorePhase::Completed);
        make_schedules(&server, &workload).await;
        let machine = cluster.test_box.machine();
        for (object, condition) in WAITED_FOR {
            let wanted = format!("--for=condition={condition}");
            machine.kubectl(&["-n", &cluster.namespace, "wait", &wanted, object, "--timeout=20s"]).unwrap();
        }
        until_told(&cluster, &TOLD).await;
        delete_namespace(&cluster, &copy).await;
        workload.delete().await;
        server.stop().await;
    });
}

//! Backups made by schedules.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ListParams};
use velero_api::labels;
use velero_api::metadata::annotation;
use velero_api::v1::{Backup, BackupPhase, Schedule, SchedulePhase, ScheduleSpec};
use velero_controllers::server::Settings;
use velero_testkit::cluster_test;

use crate::lossy_proxy::{Fate, open_for};
use crate::support::{PATIENCE, Server, Workload, api, assert_phase, assert_says, settings};

#[test]
fn a_schedule_makes_backups_when_due() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        let mut spec =
            ScheduleSpec { schedule: "@every 2s".to_owned(), template: workload.spec(), ..Default::default() };
        spec.template.metadata.annotations = [("example.com/note".to_owned(), "of the template".to_owned())].into();
        let mut often = Schedule::new(&cluster.namespace, "often", spec);
        often.metadata.annotations = Some([("example.com/tracked-by".to_owned(), "somebody".to_owned())].into());
        server.create(often).await;
        let schedule = server.until("often", |schedule: &Schedule| schedule.status.last_backup.is_some()).await;
        assert_eq!(*schedule.status.phase(), SchedulePhase::Enabled);
        let selector = ListParams::default().labels(&format!("{}=often", labels::SCHEDULE_NAME));
        let made = server.api::<Backup>().list(&selector).await.unwrap().items;
        let name = made[0].metadata.name.clone().unwrap();
        assert!(name.starts_with("often-20") && name.len() == "often-".len() + 14, "{name}");
        let backup = server.ended(&name).await;
        assert_phase(&backup, &BackupPhase::Completed);
        assert_eq!(annotation(&backup, "example.com/note"), "of the template");
        assert_eq!(annotation(&backup, "example.com/tracked-by"), "", "that is the schedule's own");
        let expected = "velero_schedule_expected_interval_seconds{schedule=\"often\"} 2";
        server.until_metrics(&["velero_backup_attempt_total{schedule=\"often\"}", expected]).await;
        let whole = format!(
            "velero_namespace_last_good_backup_timestamp_seconds{{backup_namespace=\"{}\"}}",
            workload.namespace
        );
        let of_all = [
            "velero_schedule_runs_since_good_backup{schedule=\"often\"}",
            "velero_schedule_refused{schedule=\"often\"} 0",
            "velero_backup_archive_bytes_total{schedule=\"often\"}",
            "velero_backup_location_free_bytes{backup_location_name=\"default\"}",
            "velero_retries_total{cause=\"throttled\",target=\"store\"} 0",
            "velero_backup_queue_length",
            "velero_restore_operations_waiting 0",
            &whole,
        ];
        server.until_metrics(&of_all).await;

        server.patch::<Schedule>("often", serde_json::json!({"spec": {"paused": true}})).await;
        server.until_no_metrics("velero_schedule_expected_interval_seconds{schedule=\"often\"}").await;
        server.api::<Schedule>().delete("often", &DeleteParams::default()).await.unwrap();
        // Its backups still carry its name.
        server.until_no_metrics("schedule=\"often\"").await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_schedule_makes_one_backup_when_due_whichever_answers_are_lost() {
    cluster_test(|cluster| async move {
        let (directory, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (created, noted) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let rule = move |path: &str, body: &str| {
            let is_backup = path.contains("/backups") && body.contains("\"velero.io/schedule-name\":\"yearly\"");
            let is_note = path.contains("/schedules/") && body.contains("lastBackup");
            match (is_backup, is_note) {
                (true, _) if created.fetch_add(1, Ordering::SeqCst) == 0 => Fate::Swallowed,
                (_, true) if noted.fetch_add(1, Ordering::SeqCst) == 0 => Fate::Lost,
                _ => Fate::Answered,
            }
        };
        let kubeconfig = Some(open_for(&cluster, folder.path(), &[Method::POST, Method::PATCH], rule).await);
        let server = Server::start_with(cluster.clone(), Settings { kubeconfig, ..settings(&cluster) }).await;
        server.directory_location("default", directory.path()).await;
        let workload = Workload::new(&cluster, 1).await;
        let spec = ScheduleSpec { schedule: "@yearly".to_owned(), template: workload.spec(), ..Default::default() };
        let mut yearly = Schedule::new(&cluster.namespace, "yearly", spec);
        let long_ago = Timestamp::now() - SignedDuration::from_hours(24 * 400);
        yearly.status.last_backup = Some(Time(long_ago));
        server.create(yearly).await;
        let is_noted = |schedule: &Schedule| schedule.status.last_backup.as_ref().is_some_and(|last| last.0 > long_ago);
        let schedule = server.until("yearly", is_noted).await;
        let selector = ListParams::default().labels(&format!("{}=yearly", labels::SCHEDULE_NAME));
        let made = server.api::<Backup>().list(&selector).await.unwrap().items;
        let [backup] = &made[..] else { panic!("one backup was due: {made:#?}") };
        let backup_name = backup.metadata.name.as_deref().unwrap();
        let moment = schedule.status.last_backup.unwrap().0.strftime("%Y%m%d%H%M%S").to_string();
        assert_eq!(backup_name, format!("yearly-{moment}"), "it is noted as it was made");
        assert_phase(&server.ended(backup_name).await, &BackupPhase::Completed);
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_backup_that_a_killed_server_could_not_note_is_not_made_again() {
    cluster_test(|cluster| async move {
        let (directory, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let unnoted = |path: &str, body: &str| match path.contains("/schedules/") && body.contains("lastBackup") {
            true => Fate::Lost,
            false => Fate::Answered,
        };
        let kubeconfig = Some(open_for(&cluster, folder.path(), &[Method::PATCH], unnoted).await);
        let server = Server::start_with(cluster.clone(), Settings { kubeconfig, ..settings(&cluster) }).await;
        server.directory_location("default", directory.path()).await;
        let workload = Workload::new(&cluster, 1).await;
        let spec = ScheduleSpec { schedule: "@yearly".to_owned(), template: workload.spec(), ..Default::default() };
        let mut yearly = Schedule::new(&cluster.namespace, "yearly", spec);
        let long_ago = Timestamp::now() - SignedDuration::from_hours(24 * 400);
        yearly.status.last_backup = Some(Time(long_ago));
        // Somebody made one from the schedule: that is not the one that is due.
        let before = Timestamp::now() - SignedDuration::from_mins(1);
        let by_hand = format!("yearly-{}", before.strftime("%Y%m%d%H%M%S"));
        let mut wanted = Backup::new(&cluster.namespace, &by_hand, workload.spec());
        wanted.metadata.labels = Some([(labels::SCHEDULE_NAME.to_owned(), "yearly".to_owned())].into());
        server.create(wanted).await;
        server.ended(&by_hand).await;
        server.create(yearly).await;
        let made = until_made(&server, &by_hand).await;
        assert_phase(&server.ended(&made).await, &BackupPhase::Completed);
        server.stop().await;
        let schedule = api::<Schedule>(&cluster).get("yearly").await.unwrap();
        assert!(schedule.status.last_backup.is_some_and(|last| last.0 <= long_ago), "nothing was noted");

        let server = Server::start(cluster.clone()).await;
        let is_noted = |schedule: &Schedule| schedule.status.last_backup.as_ref().is_some_and(|last| last.0 > long_ago);
        let schedule = server.until("yearly", is_noted).await;
        let moment = schedule.status.last_backup.unwrap().0.strftime("%Y%m%d%H%M%S").to_string();
        assert_eq!(made, format!("yearly-{moment}"), "it is noted as it was made");
        let mut all = of_yearly(&server).await;
        all.retain(|name| *name != by_hand);
        assert_eq!(all, [made], "one backup was due");
        workload.delete().await;
        server.stop().await;
    });
}

/// The names of the backups of the schedule.
async fn of_yearly(server: &Server) -> Vec<String> {
    let selector = ListParams::default().labels(&format!("{}=yearly", labels::SCHEDULE_NAME));
    let backups = server.api::<Backup>().list(&selector).await.unwrap().items;
    backups.into_iter().filter_map(|backup| backup.metadata.name).collect()
}

/// Waits until the schedule has made a backup besides another one; gives its name.
async fn until_made(server: &Server, other: &str) -> String {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(made) = of_yearly(server).await.into_iter().find(|name| name != other) {
            return made;
        }
        assert!(tokio::time::Instant::now() < deadline, "the schedule makes no backup");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[test]
fn after_a_restart_the_metrics_know_how_the_last_backup_of_a_schedule_ended() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(cluster.clone()).await;
        let workload = Workload::new(&cluster, 1).await;
        server.directory_location("default", directory.path()).await;
        let spec = ScheduleSpec { schedule: "@yearly".to_owned(), paused: true, ..Default::default() };
        server.create(Schedule::new(&cluster.namespace, "yearly", spec)).await;
        let mut missing = workload.spec();
        missing.included_namespaces.push("no-such-namespace".to_owned());
        for (name, spec) in [("good", workload.spec()), ("bad", missing)] {
            let mut backup = Backup::new(&cluster.namespace, name, spec);
            backup.metadata.labels = Some([(labels::SCHEDULE_NAME.to_owned(), "yearly".to_owned())].into());
            server.create(backup).await;
            server.ended(name).await;
        }
        server.stop().await;

        let server = Server::start(cluster.clone()).await;
        // It serves its metrics at once, and learns of the backups and schedules a moment later.
        let known = [
            "velero_backup_last_status{schedule=\"yearly\"} 0",
            "velero_backup_last_status{schedule=\"\"} 1",
            "velero_backup_last_successful_timestamp{schedule=\"yearly\"}",
        ];
        server.until_metrics(&known).await;
        workload.delete().await;
        server.stop().await;
    });
}

#[test]
fn a_schedule_that_cannot_be_read_is_refused() {
    cluster_test(|cluster| async move {
        let server = Server::start(cluster.clone()).await;
        let spec = ScheduleSpec { schedule: "sometimes".to_owned(), ..Default::default() };
        server.create(Schedule::new(&cluster.namespace, "vague", spec)).await;
        let refused = |schedule: &Schedule| *schedule.status.phase() == SchedulePhase::FailedValidation;
        let schedule = server.until("vague", refused).await;
        assert_says(&schedule.status.validation_errors, "invalid schedule: ");
        server.stop().await;
    });
}

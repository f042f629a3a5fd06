//! The metrics of the server as Prometheus reads them.

use velero_api::v1::{BackupPhase, BackupProgress, RestorePhase};

use super::figures::{RepositoryFigures, WorkFigures};
use super::*;

fn text(metrics: &Metrics) -> String {
    String::from_utf8(metrics.text()).unwrap()
}

#[test]
fn the_documentation_lists_all_metrics_of_the_server() {
    let page = include_str!("../../../../../docs/monitoring.md");
    let table = server_metrics_table().unwrap();
    assert!(page.contains(&table), "docs/monitoring.md must have this table:\n{table}");
}

#[test]
fn the_series_of_manual_backups_exist_from_the_start() {
    let text = text(&Metrics::new().unwrap());
    for line in [
        "velero_backup_attempt_total{schedule=\"\"} 0",
        "velero_restore_failed_total{schedule=\"\"} 0",
        "velero_csi_snapshot_attempt_total{backupName=\"\",schedule=\"\"} 0",
        "velero_backup_last_status{schedule=\"\"} 1",
        "velero_backup_total 0",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn a_backup_is_counted_where_its_status_says() {
    let metrics = Metrics::new().unwrap();
    metrics.begin_schedule("daily");
    let status = BackupStatus {
        phase: Some(BackupPhase::PartiallyFailed),
        errors: 2,
        warnings: 1,
        start_timestamp: Some(Time("2026-01-01T00:00:00Z".parse().unwrap())),
        completion_timestamp: Some(Time("2026-01-01T00:02:00Z".parse().unwrap())),
        progress: Some(BackupProgress { total_items: 7, items_backed_up: 7, ..Default::default() }),
        volume_snapshots_attempted: 3,
        volume_snapshots_completed: 2,
        ..Default::default()
    };
    metrics.backup_ended(&backup_of("daily", status));
    metrics.begin_schedule("daily");
    let text = text(&metrics);
    for line in [
        "velero_backup_partial_failure_total{schedule=\"daily\"} 1",
        "velero_backup_last_status{schedule=\"daily\"} 0",
        "velero_backup_items_errors{schedule=\"daily\"} 2",
        "velero_backup_items_total{schedule=\"daily\"} 7",
        "velero_backup_warning_total{schedule=\"daily\"} 1",
        "velero_backup_duration_seconds_bucket{schedule=\"daily\",le=\"60\"} 0",
        "velero_backup_duration_seconds_bucket{schedule=\"daily\",le=\"300\"} 1",
        "velero_backup_success_total{schedule=\"daily\"} 0",
        "velero_volume_snapshot_attempt_total{schedule=\"daily\"} 3",
        "velero_volume_snapshot_success_total{schedule=\"daily\"} 2",
        "velero_volume_snapshot_failure_total{schedule=\"daily\"} 1",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

fn backup_of(schedule: &str, status: BackupStatus) -> Backup {
    let mut backup = Backup::new("velero", "b", Default::default());
    backup.metadata.labels = Some([(labels::SCHEDULE_NAME.to_owned(), schedule.to_owned())].into());
    Backup { status, ..backup }
}

fn ended(phase: &BackupPhase, second: i64) -> Backup {
    let moment = Some(Time(jiff::Timestamp::from_second(second).unwrap()));
    let mut backup = backup_of("daily", BackupStatus { phase: Some(phase.clone()), ..Default::default() });
    match phase {
        BackupPhase::FailedValidation => backup.metadata.creation_timestamp = moment,
        _ => backup.status.completion_timestamp = moment,
    }
    backup
}

#[test]
fn after_a_restart_the_last_status_is_that_of_the_newest_backup_that_ended() {
    use BackupPhase::{Completed, Failed, FailedValidation, InProgress, PartiallyFailed};
    let table: &[(&[(BackupPhase, i64)], i32)] = &[
        (&[], 1),
        (&[(Completed, 1), (Failed, 2)], 0),
        (&[(Failed, 2), (Completed, 1)], 0),
        (&[(PartiallyFailed, 1), (Completed, 2)], 1),
        (&[(Completed, 1), (FailedValidation, 2)], 0),
        (&[(Failed, 1), (InProgress, 2)], 0),
        (&[(Failed, 1), (Completed, 1)], 0),
        (&[(Completed, 1), (Failed, 1)], 0),
    ];
    for (backups, expected) in table {
        let metrics = Metrics::new().unwrap();
        backups.iter().for_each(|(phase, second)| metrics.backup_seen(&ended(phase, *second)));
        metrics.begin_schedule("daily");
        let line = format!("velero_backup_last_status{{schedule=\"daily\"}} {expected}");
        assert!(text(&metrics).contains(&line), "{backups:?}: {}", text(&metrics));
        assert!(text(&metrics).contains("velero_backup_failure_total{schedule=\"daily\"} 0"), "nothing is counted");
    }
}

#[test]
fn a_restore_is_counted_where_its_status_says() {
    let metrics = Metrics::new().unwrap();
    for (phase, counter) in [
        (RestorePhase::Completed, "restore_success_total"),
        (RestorePhase::PartiallyFailed, "restore_partial_failure_total"),
        (RestorePhase::FailedValidation, "restore_validation_failed_total"),
        (RestorePhase::Failed, "restore_failed_total"),
    ] {
        metrics.restore_ended("daily", &RestoreStatus { phase: Some(phase), ..Default::default() });
        let line = format!("velero_{counter}{{schedule=\"daily\"}} 1");
        assert!(text(&metrics).contains(&line), "{line}");
    }
}

#[test]
fn the_series_of_a_removed_schedule_vanish() {
    let metrics = Metrics::new().unwrap();
    metrics.begin_schedule("daily");
    assert!(text(&metrics).contains("daily"));
    metrics.end_schedule("daily");
    metrics.backup_seen(&ended(&BackupPhase::Failed, 1));
    assert!(!text(&metrics).contains("daily"));
}

#[test]
fn maintenance_is_counted_by_repository_until_it_is_gone() {
    let metrics = Metrics::new().unwrap();
    metrics.maintenance_ended("shop", true, Some(2.0));
    metrics.maintenance_ended("shop", false, None);
    let text = String::from_utf8(metrics.text()).unwrap();
    for line in [
        r#"velero_repo_maintenance_success_total{repository_name="shop"} 1"#,
        r#"velero_repo_maintenance_failure_total{repository_name="shop"} 1"#,
        r#"velero_repo_maintenance_duration_seconds_count{repository_name="shop"} 1"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    metrics.end_repository("shop");
    assert!(!String::from_utf8(metrics.text()).unwrap().contains("shop"));
}

#[test]
fn the_series_of_a_removed_backup_vanish_and_those_of_others_stay() {
    let metrics = Metrics::new().unwrap();
    let status =
        BackupStatus { csi_volume_snapshots_attempted: 2, csi_volume_snapshots_completed: 1, ..Default::default() };
    for backup in ["daily-1", "daily-2"] {
        metrics.csi_snapshots("daily", backup, &status);
    }
    metrics.end_backup("daily-1");
    metrics.end_backup("nobody");
    let text = text(&metrics);
    assert!(!text.contains("daily-1"), "{text}");
    assert!(text.contains(r#"velero_csi_snapshot_failure_total{backupName="daily-2",schedule="daily"} 1"#), "{text}");
}

#[test]
fn the_series_of_a_removed_location_vanish() {
    let metrics = Metrics::new().unwrap();
    metrics.location_status("ours", true);
    metrics.orphans("ours", 1);
    metrics.location_space("ours", Some(Space { free: 5, size: 10 }));
    assert!(text(&metrics).contains(r#"velero_backup_location_free_bytes{backup_location_name="ours"} 5"#));
    metrics.location_space("ours", None);
    assert!(!text(&metrics).contains("free_bytes{"), "what is not known any more is not said");
    metrics.location_space("ours", Some(Space { free: 5, size: 10 }));
    metrics.end_location("ours");
    assert!(!text(&metrics).contains("ours"));
}

#[test]
fn schedules_that_only_backups_know_are_known_to_have_series() {
    let metrics = Metrics::new().unwrap();
    metrics.count(Counter::BackupDeletionAttempt, "gone");
    metrics.archive_stored("gone-too", 7);
    let mut counted: Vec<_> = metrics.counted_schedules().into_iter().collect();
    counted.sort();
    assert_eq!(counted, ["", "gone", "gone-too"]);
    counted.iter().filter(|schedule| !schedule.is_empty()).for_each(|schedule| metrics.end_schedule(schedule));
    assert!(!text(&metrics).contains("gone"), "{}", text(&metrics));
}

#[test]
fn figures_become_series_and_those_of_what_is_gone_vanish() {
    let metrics = Metrics::new().unwrap();
    let one = |name: &str, value: f64| [(name.to_owned(), value)].into();
    let repositories = RepositoryFigures {
        ready: one("shop-repository", 1.0),
        last_maintenance: one("shop-repository", 100.0),
        interval: one("shop-repository", 60.0),
    };
    let restores = WorkFigures { exist: 3, queued: 1, running: 2, operations: 5, waiting_since: Some(7) };
    let figures = Figures {
        restores,
        runs_since_good: one("daily", 2.0),
        refused: one("daily", 0.0),
        namespaces: Some(one("shop", 0.0)),
        repositories,
        ..Figures::default()
    };
    metrics.put(&figures);
    let full = text(&metrics);
    for line in [
        "velero_restore_total 3",
        "velero_restore_queue_length 1",
        "velero_restore_running 2",
        "velero_restore_operations_waiting 5",
        "velero_restore_operations_waiting_since_timestamp_seconds 7",
        r#"velero_schedule_runs_since_good_backup{schedule="daily"} 2"#,
        r#"velero_schedule_refused{schedule="daily"} 0"#,
        r#"velero_namespace_last_good_backup_timestamp_seconds{backup_namespace="shop"} 0"#,
        r#"velero_repository_ready{repository_name="shop-repository"} 1"#,
        r#"velero_repository_last_maintenance_timestamp_seconds{repository_name="shop-repository"} 100"#,
        r#"velero_repository_maintenance_interval_seconds{repository_name="shop-repository"} 60"#,
    ] {
        assert!(full.contains(line), "{line} is missing in\n{full}");
    }
    metrics.put(&Figures { namespaces: Some(Default::default()), ..Figures::default() });
    let empty = text(&metrics);
    for gone in ["daily", "shop", "waiting_since_timestamp_seconds "] {
        assert!(!empty.contains(gone), "{gone} is still in\n{empty}");
    }
}

#[test]
fn restores_tell_how_long_they_took_and_archives_how_many_bytes_they_have() {
    let metrics = Metrics::new().unwrap();
    let time = |second| Some(Time(jiff::Timestamp::from_second(second).unwrap()));
    let status = RestoreStatus {
        phase: Some(RestorePhase::Completed),
        start_timestamp: time(100),
        completion_timestamp: time(170),
        ..Default::default()
    };
    metrics.restore_ended("", &status);
    metrics.archive_stored("", 10);
    metrics.archive_stored("", 5);
    metrics.restored_bytes("").inc_by(7.0);
    let text = text(&metrics);
    for line in [
        r#"velero_restore_duration_seconds_sum{schedule=""} 70"#,
        r#"velero_backup_archive_bytes_total{schedule=""} 15"#,
        r#"velero_backup_tarball_size_bytes{schedule=""} 5"#,
        r#"velero_restore_archive_bytes_total{schedule=""} 7"#,
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn a_paused_schedule_is_not_expected_to_run() {
    let metrics = Metrics::new().unwrap();
    metrics.expected_interval("daily", 60.0);
    metrics.no_expected_interval("daily");
    assert!(!text(&metrics).contains("expected_interval_seconds{"));
}

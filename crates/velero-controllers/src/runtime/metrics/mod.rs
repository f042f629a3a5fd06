//! The metrics of the server, under the names dashboards know.
//!
//! A counter is a line in `counters`, and counted where it happens: what has no line there does not compile.

mod builder;
mod counters;
mod last;
mod maintenance;

use std::sync::{Mutex, MutexGuard};

use prometheus::{CounterVec, Encoder, Gauge, GaugeVec, HistogramVec, Registry, TextEncoder};
use velero_api::labels;
use velero_api::metadata::label;
use velero_api::v1::{Backup, BackupStatus, Ending, RestoreStatus};

pub(crate) use self::counters::Counter;

use crate::runtime::error::Result;
use crate::runtime::lock::lock;
use crate::runtime::metrics::builder::Builder;
use crate::runtime::metrics::counters::CsiCounter;
use crate::runtime::metrics::last::Last;
use crate::runtime::metrics::maintenance::Maintenance;

const SCHEDULE: &[&str] = &["schedule"];
const SCHEDULE_AND_BACKUP: &[&str] = &["schedule", "backupName"];

/// All metrics of the server.
pub(crate) struct Metrics {
    registry: Registry,
    counters: Vec<CounterVec>,
    csi_counters: Vec<CounterVec>,
    leader: Gauge,
    backup_total: Gauge,
    restore_total: Gauge,
    tarball_size: GaugeVec,
    last_successful: GaugeVec,
    items: GaugeVec,
    item_errors: GaugeVec,
    last_status: GaugeVec,
    location_status: GaugeVec,
    orphans: GaugeVec,
    expected_interval: GaugeVec,
    duration: HistogramVec,
    maintenance: Maintenance,
    last: Mutex<Last>,
}

impl Metrics {
    pub(crate) fn new() -> Result<Self> {
        let registry = Registry::new();
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let builder = Builder(registry.clone());
        let counters = Counter::ALL.iter().map(|counter| builder.counter(counter.describe(), SCHEDULE));
        let csi_counters =
            CsiCounter::ALL.iter().map(|counter| builder.counter(counter.describe(), SCHEDULE_AND_BACKUP));
        let metrics = Self {
            maintenance: Maintenance::new(&builder)?,
            counters: counters.collect::<prometheus::Result<_>>()?,
            csi_counters: csi_counters.collect::<prometheus::Result<_>>()?,
            leader: builder.gauge("leader", "1 when this server leads, 0 when it waits")?,
            backup_total: builder.gauge("backup_total", "Backups that exist now")?,
            restore_total: builder.gauge("restore_total", "Restores that exist now")?,
            tarball_size: builder.gauges("backup_tarball_size_bytes", "Size of the last backup in bytes", SCHEDULE)?,
            last_successful: builder.gauges(
                "backup_last_successful_timestamp",
                "When a backup last completed, in seconds of Unix time",
                SCHEDULE,
            )?,
            items: builder.gauges("backup_items_total", "Items of the last backup", SCHEDULE)?,
            item_errors: builder.gauges("backup_items_errors", "Errors of the last backup", SCHEDULE)?,
            last_status: builder.gauges(
                "backup_last_status",
                "1 when the last backup completed, 0 when not",
                SCHEDULE,
            )?,
            location_status: builder.gauges(
                "backup_location_status_gauge",
                "1 when the location is available, 0 when not",
                &["backup_location_name"],
            )?,
            orphans: builder.gauges(
                "backup_orphans",
                "Folders of the location that hold files of a backup that never ended",
                &["backup_location_name"],
            )?,
            expected_interval: builder.gauges(
                "schedule_expected_interval_seconds",
                "How far the runs of the schedule are apart, in seconds",
                SCHEDULE,
            )?,
            duration: builder.histogram("backup_duration_seconds", "How long backups took, in seconds", SCHEDULE)?,
            last: Mutex::default(),
            registry,
        };
        metrics.begin_schedule("");
        Ok(metrics)
    }

    /// Makes the series of a schedule exist; those that exist keep their values. The empty name is that of manual
    /// backups.
    pub(crate) fn begin_schedule(&self, schedule: &str) {
        for counter in &self.counters {
            counter.with_label_values(&[schedule]).inc_by(0.0);
        }
        for counter in &self.csi_counters {
            counter.with_label_values(&[schedule, ""]).inc_by(0.0);
        }
        self.items.with_label_values(&[schedule]).add(0.0);
        self.item_errors.with_label_values(&[schedule]).add(0.0);
        let mut last = self.last();
        last.schedules.insert(schedule.to_owned());
        // Nothing has gone wrong before the first backup.
        let good = last.ends.get(schedule).map_or(1.0, |(_, good)| *good);
        self.last_status.with_label_values(&[schedule]).set(good);
    }

    /// Removes the series of a schedule that is gone.
    pub(crate) fn end_schedule(&self, schedule: &str) {
        let labels = &[schedule];
        // A series that was never made cannot be removed, which is as good.
        for counter in &self.counters {
            let _ = counter.remove_label_values(labels);
        }
        for counter in &self.csi_counters {
            let _ = counter.remove_label_values(&[schedule, ""]);
        }
        for gauge in [&self.tarball_size, &self.last_successful, &self.items, &self.item_errors] {
            let _ = gauge.remove_label_values(labels);
        }
        self.last().schedules.remove(schedule);
        let _ = self.last_status.remove_label_values(labels);
        let _ = self.expected_interval.remove_label_values(labels);
        let _ = self.duration.remove_label_values(labels);
    }

    /// Counts one more of something.
    pub(crate) fn count(&self, counter: Counter, schedule: &str) {
        self.count_many(counter, schedule, 1);
    }

    fn count_many(&self, counter: Counter, schedule: &str, number: i64) {
        self.counters[counter as usize].with_label_values(&[schedule]).inc_by(number.max(0) as f64);
    }

    /// Notes how many CSI snapshots a backup tried, and how many of them are good.
    pub(crate) fn csi_snapshots(&self, schedule: &str, backup: &str, status: &BackupStatus) {
        let (attempted, completed) = (status.csi_volume_snapshots_attempted, status.csi_volume_snapshots_completed);
        for (counter, number) in [
            (CsiCounter::Attempt, attempted),
            (CsiCounter::Success, completed),
            (CsiCounter::Failure, attempted - completed),
        ] {
            let series = self.csi_counters[counter as usize].with_label_values(&[schedule, backup]);
            series.inc_by(number.max(0) as f64);
        }
    }

    /// Notes how a backup ended: all figures come from the object.
    pub(crate) fn backup_ended(&self, backup: &Backup) {
        let (schedule, status) = (label(backup, labels::SCHEDULE_NAME), &backup.status);
        let counter = match status.phase().ending() {
            Some(Ending::Completed) => Counter::BackupSuccess,
            Some(Ending::PartiallyFailed) => Counter::BackupPartialFailure,
            Some(Ending::FailedValidation) => Counter::BackupValidationFailure,
            Some(Ending::Failed) | None => Counter::BackupFailure,
        };
        self.count(counter, schedule);
        if let Some(good) = self.last().note(schedule, backup) {
            self.last_status.with_label_values(&[schedule]).set(good);
        }
        if status.phase().ending() == Some(Ending::FailedValidation) {
            return;
        }
        if status.warnings > 0 {
            self.count(Counter::BackupWarning, schedule);
        }
        let (attempted, completed) = (status.volume_snapshots_attempted, status.volume_snapshots_completed);
        self.count_many(Counter::VolumeSnapshotAttempt, schedule, attempted);
        self.count_many(Counter::VolumeSnapshotSuccess, schedule, completed);
        self.count_many(Counter::VolumeSnapshotFailure, schedule, attempted - completed);
        self.item_errors.with_label_values(&[schedule]).set(status.errors as f64);
        if let Some(progress) = &status.progress {
            self.items.with_label_values(&[schedule]).set(progress.total_items as f64);
        }
        if let (Some(begun), Some(ended)) = (&status.start_timestamp, &status.completion_timestamp) {
            let seconds = ended.0.duration_since(begun.0).as_secs();
            self.duration.with_label_values(&[schedule]).observe(seconds as f64);
        }
        if let (Some(Ending::Completed), Some(ended)) = (status.phase().ending(), &status.completion_timestamp) {
            self.last_successful(schedule, ended.0.as_second());
        }
    }

    /// Notes how a backup ended some time ago: after a restart the last status is that of the objects.
    pub(crate) fn backup_seen(&self, backup: &Backup) {
        let schedule = label(backup, labels::SCHEDULE_NAME);
        let mut last = self.last();
        if let Some(good) = last.note(schedule, backup)
            && last.schedules.contains(schedule)
        {
            self.last_status.with_label_values(&[schedule]).set(good);
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        lock(&self.last)
    }

    /// Notes how a restore ended.
    pub(crate) fn restore_ended(&self, schedule: &str, status: &RestoreStatus) {
        let counter = match status.phase().ending() {
            Some(Ending::Completed) => Counter::RestoreSuccess,
            Some(Ending::PartiallyFailed) => Counter::RestorePartialFailure,
            Some(Ending::FailedValidation) => Counter::RestoreValidationFailed,
            Some(Ending::Failed) | None => Counter::RestoreFailed,
        };
        self.count(counter, schedule);
    }

    pub(crate) fn last_successful(&self, schedule: &str, seconds: i64) {
        self.last_successful.with_label_values(&[schedule]).set(seconds as f64);
    }

    pub(crate) fn tarball_size(&self, schedule: &str, bytes: u64) {
        self.tarball_size.with_label_values(&[schedule]).set(bytes as f64);
    }

    pub(crate) fn leads(&self) {
        self.leader.set(1.0);
    }

    pub(crate) fn backups_exist(&self, count: usize) {
        self.backup_total.set(count as f64);
    }

    pub(crate) fn restores_exist(&self, count: usize) {
        self.restore_total.set(count as f64);
    }

    pub(crate) fn expected_interval(&self, schedule: &str, seconds: f64) {
        self.expected_interval.with_label_values(&[schedule]).set(seconds);
    }

    pub(crate) fn location_status(&self, location: &str, available: bool) {
        self.location_status.with_label_values(&[location]).set(f64::from(u8::from(available)));
    }

    pub(crate) fn orphans(&self, location: &str, count: usize) {
        self.orphans.with_label_values(&[location]).set(count as f64);
    }

    pub(crate) fn end_location(&self, location: &str) {
        let _ = self.orphans.remove_label_values(&[location]);
        let _ = self.location_status.remove_label_values(&[location]);
    }

    /// All metrics in the text form that Prometheus reads.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "The metrics cannot be written");
        }
        text
    }
}

impl Metrics {
    /// A maintenance has ended, and how long it took where that is known.
    pub(crate) fn maintenance_ended(&self, repository: &str, is_success: bool, seconds: Option<f64>) {
        self.maintenance.ended(repository, is_success, seconds);
    }

    /// A repository is gone, and its series with it.
    pub(crate) fn end_repository(&self, repository: &str) {
        self.maintenance.forget(repository);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use velero_api::v1::{BackupPhase, BackupProgress, RestorePhase};

    use super::*;

    fn text(metrics: &Metrics) -> String {
        String::from_utf8(metrics.text()).unwrap()
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
}

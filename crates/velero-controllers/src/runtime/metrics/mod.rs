//! The metrics of the server, under the names dashboards know.
//!
//! A counter is a line in `counters`, and counted where it happens: what has no line there does not compile.

pub(crate) mod builder;
mod counters;
pub(crate) mod figures;
mod last;
mod locations;
mod maintenance;
pub(crate) mod reference;
mod retries;
mod series;
mod traces;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use prometheus::{Counter as Growing, CounterVec, Encoder, Gauge, HistogramVec, Registry, TextEncoder};
use velero_api::labels;
use velero_api::metadata::label;
use velero_api::v1::{Backup, BackupStatus, Ending, RestoreStatus};
use velero_cluster::Cluster;
use velero_store::{Space, Troubles};

pub(crate) use self::counters::Counter;

use crate::runtime::error::Result;
use crate::runtime::lock::lock;
use crate::runtime::metrics::builder::Builder;
use crate::runtime::metrics::counters::CsiCounter;
use crate::runtime::metrics::figures::{FigureGauges, Figures};
use crate::runtime::metrics::last::Last;
use crate::runtime::metrics::locations::LocationGauges;
use crate::runtime::metrics::maintenance::Maintenance;
use crate::runtime::metrics::reference::{MetricDescription, MetricKind};
use crate::runtime::metrics::retries::Retries;
use crate::runtime::metrics::series::Series;
use crate::runtime::metrics::traces::Traces;
use crate::runtime::traces::OF_PROCESS;

const SCHEDULE: &[&str] = &["schedule"];
const SCHEDULE_AND_BACKUP: &[&str] = &["schedule", "backupName"];

/// All metrics of the server.
pub(crate) struct Metrics {
    registry: Registry,
    counters: Vec<Series>,
    csi_counters: Vec<Series>,
    leader: Gauge,
    tarball_size: Series,
    archive_bytes: Series,
    restored_bytes: CounterVec,
    items: Series,
    item_errors: Series,
    last_status: Series,
    locations: LocationGauges,
    expected_interval: Series,
    duration: HistogramVec,
    restore_duration: HistogramVec,
    maintenance: Maintenance,
    figures: FigureGauges,
    retries: Retries,
    traces: Traces,
    /// What there is, for the documentation.
    described: Vec<MetricDescription>,
    last: Mutex<Last>,
    /// The schedules of which there are series.
    counted: Mutex<HashSet<String>>,
    /// The backups of which there are series, with their schedules.
    csi_backups: Mutex<HashMap<String, String>>,
}

impl Metrics {
    pub(crate) fn new() -> Result<Self> {
        let registry = Registry::new();
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let builder = Builder::new(&registry);
        let counter = |described, labels| builder.series(MetricKind::Counter, described, labels);
        let gauge = |name, help| builder.series(MetricKind::Gauge, (name, help), SCHEDULE);
        let counters = Counter::ALL.iter().map(|one| counter(one.describe(), SCHEDULE));
        let csi_counters = CsiCounter::ALL.iter().map(|one| counter(one.describe(), SCHEDULE_AND_BACKUP));
        let metrics = Self {
            counters: counters.collect::<prometheus::Result<_>>()?,
            csi_counters: csi_counters.collect::<prometheus::Result<_>>()?,
            leader: builder.gauge("leader", "1 when this server leads, 0 when it waits")?,
            tarball_size: gauge("backup_tarball_size_bytes", "Size of the last backup in bytes")?,
            archive_bytes: counter(("backup_archive_bytes_total", "Bytes of archives that were stored"), SCHEDULE)?,
            restored_bytes: builder
                .counter(("restore_archive_bytes_total", "Bytes of archives that were read"), SCHEDULE)?,
            items: gauge("backup_items_total", "Items of the last backup")?,
            item_errors: gauge("backup_items_errors", "Errors of the last backup")?,
            last_status: gauge("backup_last_status", "1 when the last backup completed, 0 when not")?,
            locations: LocationGauges::new(&builder)?,
            expected_interval: gauge(
                "schedule_expected_interval_seconds",
                "How far the runs of the schedule are apart, in seconds",
            )?,
            duration: builder.histogram("backup_duration_seconds", "How long backups took, in seconds", SCHEDULE)?,
            restore_duration: builder.histogram(
                "restore_duration_seconds",
                "How long restores took, in seconds",
                SCHEDULE,
            )?,
            maintenance: Maintenance::new(&builder)?,
            figures: FigureGauges::new(&builder)?,
            retries: Retries::new(&builder)?,
            traces: Traces::new(&builder)?,
            last: Mutex::default(),
            counted: Mutex::default(),
            csi_backups: Mutex::default(),
            described: builder.described(),
            registry,
        };
        metrics.begin_schedule("");
        Ok(metrics)
    }

    /// Makes the series of a schedule exist; those that exist keep their values. The empty name is that of manual
    /// backups.
    pub(crate) fn begin_schedule(&self, schedule: &str) {
        for counter in self.counters.iter().chain([&self.archive_bytes]) {
            counter.add(&[schedule], 0.0);
        }
        for counter in &self.csi_counters {
            counter.add(&[schedule, ""], 0.0);
        }
        self.restored_bytes.with_label_values(&[schedule]).inc_by(0.0);
        self.note_counted(schedule);
        self.items.add(&[schedule], 0.0);
        self.item_errors.add(&[schedule], 0.0);
        let mut last = self.last();
        last.schedules.insert(schedule.to_owned());
        // Nothing has gone wrong before the first backup.
        let good = last.ends.get(schedule).map_or(1.0, |(_, good)| *good);
        self.last_status.set(&[schedule], good);
    }

    /// Removes the series of a schedule that is gone.
    pub(crate) fn end_schedule(&self, schedule: &str) {
        let labels = &[schedule];
        for counter in self.counters.iter().chain([&self.archive_bytes]) {
            counter.remove(labels);
        }
        for counter in &self.csi_counters {
            counter.remove(&[schedule, ""]);
        }
        self.last().schedules.remove(schedule);
        let gauges = [&self.tarball_size, &self.items, &self.item_errors, &self.last_status, &self.expected_interval];
        for gauge in gauges {
            gauge.remove(labels);
        }
        // A series that was never made cannot be removed, which is as good.
        let _ = self.restored_bytes.remove_label_values(labels);
        let _ = self.duration.remove_label_values(labels);
        let _ = self.restore_duration.remove_label_values(labels);
        self.figures.end_schedule(schedule);
        lock(&self.counted).remove(schedule);
    }

    /// The schedules of which there are series: backups carry the names of schedules that are gone, and are counted too.
    pub(crate) fn counted_schedules(&self) -> HashSet<String> {
        lock(&self.counted).clone()
    }

    fn note_counted(&self, schedule: &str) {
        let mut counted = lock(&self.counted);
        if !counted.contains(schedule) {
            counted.insert(schedule.to_owned());
        }
    }

    /// Counts one more of something.
    pub(crate) fn count(&self, counter: Counter, schedule: &str) {
        self.count_many(counter, schedule, 1);
    }

    fn count_many(&self, counter: Counter, schedule: &str, number: i64) {
        self.note_counted(schedule);
        self.counters[counter as usize].add(&[schedule], number.max(0) as f64);
    }

    /// Notes how many CSI snapshots a backup tried, and how many of them are good.
    pub(crate) fn csi_snapshots(&self, schedule: &str, backup: &str, status: &BackupStatus) {
        let (attempted, completed) = (status.csi_volume_snapshots_attempted, status.csi_volume_snapshots_completed);
        for (counter, number) in [
            (CsiCounter::Attempt, attempted),
            (CsiCounter::Success, completed),
            (CsiCounter::Failure, attempted - completed),
        ] {
            self.csi_counters[counter as usize].add(&[schedule, backup], number.max(0) as f64);
        }
        lock(&self.csi_backups).insert(backup.to_owned(), schedule.to_owned());
    }

    /// Removes the series of a backup that is gone.
    pub(crate) fn end_backup(&self, backup: &str) {
        let Some(schedule) = lock(&self.csi_backups).remove(backup) else { return };
        for counter in &self.csi_counters {
            counter.remove(&[&schedule, backup]);
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
            self.last_status.set(&[schedule], good);
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
        self.item_errors.set(&[schedule], status.errors as f64);
        if let Some(progress) = &status.progress {
            self.items.set(&[schedule], progress.total_items as f64);
        }
        if let Some(seconds) = seconds_between(status.start_timestamp.as_ref(), status.completion_timestamp.as_ref()) {
            self.duration.with_label_values(&[schedule]).observe(seconds);
        }
        if let (Some(Ending::Completed), Some(ended)) = (status.phase().ending(), &status.completion_timestamp) {
            self.figures.last_successful(schedule, ended.0.as_second());
        }
    }

    /// Notes how a backup ended some time ago: after a restart the last status is that of the objects.
    pub(crate) fn backup_seen(&self, backup: &Backup) {
        let schedule = label(backup, labels::SCHEDULE_NAME);
        let mut last = self.last();
        if let Some(good) = last.note(schedule, backup)
            && last.schedules.contains(schedule)
        {
            self.last_status.set(&[schedule], good);
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
        if let Some(seconds) = seconds_between(status.start_timestamp.as_ref(), status.completion_timestamp.as_ref()) {
            self.restore_duration.with_label_values(&[schedule]).observe(seconds);
        }
    }

    /// The archive of a backup was stored.
    pub(crate) fn archive_stored(&self, schedule: &str, bytes: u64) {
        self.note_counted(schedule);
        self.tarball_size.set(&[schedule], bytes as f64);
        self.archive_bytes.add(&[schedule], bytes as f64);
    }

    /// What counts the bytes of an archive that is restored.
    pub(crate) fn restored_bytes(&self, schedule: &str) -> Growing {
        self.note_counted(schedule);
        self.restored_bytes.with_label_values(&[schedule])
    }

    pub(crate) fn leads(&self) {
        self.leader.set(1.0);
    }

    /// Takes over what a look at all objects has found.
    pub(crate) fn put(&self, figures: &Figures) {
        self.figures.put(figures);
    }

    /// Takes over how often requests were sent again.
    pub(crate) fn take_over_retries(&self, cluster: &Cluster, stores: &Troubles) {
        self.retries.take_over(cluster, stores);
    }

    /// Takes over what became of the spans of traces.
    pub(crate) fn take_over_traces(&self) {
        self.traces.take_over(&OF_PROCESS);
    }

    pub(crate) fn expected_interval(&self, schedule: &str, seconds: f64) {
        self.expected_interval.set(&[schedule], seconds);
    }

    /// A schedule that is paused is not expected to run.
    pub(crate) fn no_expected_interval(&self, schedule: &str) {
        self.expected_interval.remove(&[schedule]);
    }

    pub(crate) fn location_status(&self, location: &str, available: bool) {
        self.locations.status(location, available);
    }

    pub(crate) fn orphans(&self, location: &str, count: usize) {
        self.locations.orphans(location, count);
    }

    /// Notes how much room a location has; nothing where that is not known.
    pub(crate) fn location_space(&self, location: &str, space: Option<Space>) {
        self.locations.space(location, space);
    }

    pub(crate) fn end_location(&self, location: &str) {
        self.locations.forget(location);
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
        self.figures.end_repository(repository);
    }
}

/// The metrics of the server as a table in Markdown: name, type, labels, meaning.
pub fn server_metrics_table() -> Result<String> {
    Ok(reference::table(&Metrics::new()?.described))
}

fn seconds_between(begun: Option<&Time>, ended: Option<&Time>) -> Option<f64> {
    Some(ended?.0.duration_since(begun?.0).as_secs_f64())
}

#[cfg(test)]
mod tests;

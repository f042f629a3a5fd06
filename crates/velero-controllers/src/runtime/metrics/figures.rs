//! Figures that only a look at all objects gives.

use std::collections::BTreeMap;

use prometheus::{Gauge, GaugeVec};

use super::builder::Builder;
use super::reference::MetricKind;
use super::series::Series;

/// What is found when all objects are looked at.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Backups, and restores.
    pub(crate) backups: WorkFigures,
    pub(crate) restores: WorkFigures,
    /// When a backup of each schedule last completed; the empty name is that of manual ones.
    pub(crate) last_successful: BTreeMap<String, f64>,
    /// How often a backup of each enabled schedule was due since its last good one began.
    pub(crate) runs_since_good: BTreeMap<String, f64>,
    /// 1 for each schedule that makes no backups since it was refused, 0 for others.
    pub(crate) refused: BTreeMap<String, f64>,
    /// When a backup of each whole namespace last completed, 0 where none did. Nothing where namespaces may not be listed.
    pub(crate) namespaces: Option<BTreeMap<String, f64>>,
    /// What is known of repositories.
    pub(crate) repositories: RepositoryFigures,
}

/// Figures of backups, or of restores.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WorkFigures {
    pub(crate) exist: usize,
    /// How many wait for their turn.
    pub(crate) queued: usize,
    /// How many have begun and not ended.
    pub(crate) running: usize,
    /// How many operations they wait for.
    pub(crate) operations: i64,
    /// When the one began that waits longest for operations, in seconds of Unix time.
    pub(crate) waiting_since: Option<i64>,
}

/// Figures of repositories, by their names.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RepositoryFigures {
    /// 1 for those that can be used, 0 for others.
    pub(crate) ready: BTreeMap<String, f64>,
    /// When each was last maintained, or made.
    pub(crate) last_maintenance: BTreeMap<String, f64>,
    /// How often each is to be maintained.
    pub(crate) interval: BTreeMap<String, f64>,
}

/// The metrics of backups, or of restores.
struct WorkGauges {
    exist: Gauge,
    queued: Gauge,
    running: Gauge,
    operations: Gauge,
    /// Without labels, and without a series while nobody waits.
    waiting_since: GaugeVec,
}

impl WorkGauges {
    fn new(builder: &Builder, word: &str, words: &str) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: String| builder.gauge(&format!("{word}_{name}"), &help);
        Ok(Self {
            exist: gauge("total", format!("{words} that exist now"))?,
            queued: gauge("queue_length", format!("{words} that wait for their turn"))?,
            running: gauge("running", format!("{words} that have begun and not ended"))?,
            operations: gauge("operations_waiting", format!("Operations of plugins that {words} wait for"))?,
            waiting_since: builder.gauges(
                &format!("{word}_operations_waiting_since_timestamp_seconds"),
                &format!(
                    "When the one of those {words} began that waits longest for operations; none while none waits"
                ),
                &[],
            )?,
        })
    }

    fn put(&self, figures: &WorkFigures) {
        self.exist.set(figures.exist as f64);
        self.queued.set(figures.queued as f64);
        self.running.set(figures.running as f64);
        self.operations.set(figures.operations as f64);
        match figures.waiting_since {
            Some(second) => self.waiting_since.with_label_values::<&str>(&[]).set(second as f64),
            None => drop(self.waiting_since.remove_label_values::<&str>(&[])),
        }
    }
}

/// The metrics that only a look at all objects gives.
pub(super) struct FigureGauges {
    backups: WorkGauges,
    restores: WorkGauges,
    last_successful: Series,
    runs_since_good: Series,
    refused: Series,
    namespaces: Series,
    repository_ready: Series,
    repository_maintained: Series,
    repository_interval: Series,
}

impl FigureGauges {
    pub(super) fn new(builder: &Builder) -> prometheus::Result<Self> {
        let series = |name: &str, help: &str, label: &str| builder.series(MetricKind::Gauge, (name, help), &[label]);
        let repository = "repository_name";
        Ok(Self {
            backups: WorkGauges::new(builder, "backup", "Backups")?,
            restores: WorkGauges::new(builder, "restore", "Restores")?,
            last_successful: series(
                "backup_last_successful_timestamp",
                "When a backup last completed, in seconds of Unix time",
                "schedule",
            )?,
            runs_since_good: series(
                "schedule_runs_since_good_backup",
                "How often a backup of the schedule was due since its last good one began; none while it is paused",
                "schedule",
            )?,
            refused: series(
                "schedule_refused",
                "1 when the schedule was refused and makes no backups, 0 when not",
                "schedule",
            )?,
            namespaces: series(
                "namespace_last_good_backup_timestamp_seconds",
                "When a backup of the whole namespace last completed, in seconds of Unix time; 0 when none did",
                "backup_namespace",
            )?,
            repository_ready: series("repository_ready", "1 when the repository can be used, 0 when not", repository)?,
            repository_maintained: series(
                "repository_last_maintenance_timestamp_seconds",
                "When the repository was last maintained, or else made, in seconds of Unix time",
                repository,
            )?,
            repository_interval: series(
                "repository_maintenance_interval_seconds",
                "How far the maintenances of the repository are to be apart, in seconds",
                repository,
            )?,
        })
    }

    pub(super) fn put(&self, figures: &Figures) {
        self.backups.put(&figures.backups);
        self.restores.put(&figures.restores);
        for (schedule, seconds) in &figures.last_successful {
            self.last_successful.set(&[schedule], *seconds);
        }
        self.runs_since_good.replace(&figures.runs_since_good);
        self.refused.replace(&figures.refused);
        if let Some(namespaces) = &figures.namespaces {
            self.namespaces.replace(namespaces);
        }
        self.repository_ready.replace(&figures.repositories.ready);
        self.repository_maintained.replace(&figures.repositories.last_maintenance);
        self.repository_interval.replace(&figures.repositories.interval);
    }

    /// A backup of a schedule has completed.
    pub(super) fn last_successful(&self, schedule: &str, second: i64) {
        self.last_successful.set(&[schedule], second as f64);
    }

    pub(super) fn end_schedule(&self, schedule: &str) {
        for series in [&self.last_successful, &self.runs_since_good, &self.refused] {
            series.remove(&[schedule]);
        }
    }

    pub(super) fn end_repository(&self, repository: &str) {
        for series in [&self.repository_ready, &self.repository_maintained, &self.repository_interval] {
            series.remove(&[repository]);
        }
    }
}

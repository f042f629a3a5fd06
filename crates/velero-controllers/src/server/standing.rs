//! What all objects say together: figures for the metrics, without asking anybody.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use velero_api::GoDuration;
use velero_api::labels;
use velero_api::metadata::{label, name};
use velero_api::v1::{
    Backup, BackupRepository, BackupRepositoryPhase, BackupSpec, Ending, Restore, Schedule, SchedulePhase, Stage,
};
use velero_rules::existing_namespaces::ExistingNamespaces;
use velero_rules::schedule::{runs_between, validate};

use crate::lifecycle::kind::Kind;
use crate::runtime::metrics::figures::{Figures, WorkFigures};

/// As many missed runs are counted: more say nothing else.
const MOST_RUNS: usize = 1000;

/// A good backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Good {
    begun: Timestamp,
    ended: Timestamp,
}

/// The included and the excluded namespaces of backups.
type Lists = (Vec<String>, Vec<String>);

/// What was seen so far.
#[derive(Default)]
pub(super) struct Standing {
    figures: Figures,
    /// The newest good backup of each schedule.
    good: BTreeMap<String, Good>,
    /// When the newest good backup of whole namespaces ended, by its lists: few lists serve many backups.
    whole: BTreeMap<Lists, Timestamp>,
    /// The schedules that exist, and the empty name.
    schedules: BTreeSet<String>,
}

impl Standing {
    pub(super) fn see_backup(&mut self, backup: &Backup) {
        let status = &backup.status;
        count(&mut self.figures.backups, backup, status.phase().stage(), status.start_timestamp.as_ref());
        let (Some(Ending::Completed), Some(Time(ended))) =
            (status.phase().ending(), status.completion_timestamp.as_ref())
        else {
            return;
        };
        let good = Good { begun: status.start_timestamp.as_ref().map_or(*ended, |begun| begun.0), ended: *ended };
        let newest = self.good.entry(label(backup, labels::SCHEDULE_NAME).to_owned()).or_insert(good);
        if newest.ended < good.ended {
            *newest = good;
        }
        if takes_whole_namespaces(&backup.spec) {
            let lists = (backup.spec.included_namespaces.clone(), backup.spec.excluded_namespaces.clone());
            let newest = self.whole.entry(lists).or_insert(*ended);
            *newest = (*newest).max(*ended);
        }
    }

    pub(super) fn see_restore(&mut self, restore: &Restore) {
        let status = &restore.status;
        count(&mut self.figures.restores, restore, status.phase().stage(), status.start_timestamp.as_ref());
    }

    /// Takes a schedule in, once all backups were seen.
    pub(super) fn see_schedule(&mut self, schedule: &Schedule, now: Timestamp) {
        let name = name(schedule).to_owned();
        self.schedules.insert(name.clone());
        let refused = *schedule.status.phase() == SchedulePhase::FailedValidation;
        self.figures.refused.insert(name.clone(), f64::from(u8::from(refused)));
        let Ok(cron) = validate(&schedule.spec.schedule) else { return };
        if schedule.spec.paused {
            return;
        }
        let created = schedule.metadata.creation_timestamp.as_ref().map_or(now, |created| created.0);
        let since = self.good.get(&name).map_or(created, |good| good.begun);
        let runs = runs_between(&cron, &TimeZone::UTC, since, now, MOST_RUNS);
        self.figures.runs_since_good.insert(name, runs as f64);
    }

    /// Takes a repository in that is to be maintained by this server.
    pub(super) fn see_repository(&mut self, repository: &BackupRepository, frequency: GoDuration) {
        let figures = &mut self.figures.repositories;
        let put = |to: &mut BTreeMap<String, f64>, value: f64| {
            to.insert(name(repository).to_owned(), value);
        };
        let is_ready = *repository.status.phase() == BackupRepositoryPhase::Ready;
        put(&mut figures.ready, f64::from(u8::from(is_ready)));
        let maintained = repository.status.last_maintenance_time.as_ref();
        if let Some(Time(moment)) = maintained.or(repository.metadata.creation_timestamp.as_ref()) {
            put(&mut figures.last_maintenance, moment.as_second() as f64);
            put(&mut figures.interval, frequency.to_std().as_secs_f64());
        }
    }

    /// All figures, given the namespaces that exist where they are known.
    pub(super) fn figures(self, namespaces: Option<&[String]>) -> Figures {
        let good = self.good.iter().filter(|(schedule, _)| self.has_schedule(schedule));
        let last_successful = good.map(|(schedule, good)| (schedule.clone(), good.ended.as_second() as f64)).collect();
        let namespaces = namespaces.map(|existing| last_of_namespaces(&self.whole, existing));
        Figures { last_successful, namespaces, ..self.figures }
    }

    /// Whether a schedule exists.
    pub(super) fn has_schedule(&self, schedule: &str) -> bool {
        schedule.is_empty() || self.schedules.contains(schedule)
    }
}

fn count<K: Kind>(figures: &mut WorkFigures, object: &K, stage: Stage, begun: Option<&Time>) {
    figures.exist += 1;
    figures.queued += usize::from(stage == Stage::Pending);
    figures.running += usize::from(stage.is_under_way());
    if stage == Stage::WaitingForOperations {
        figures.operations += object.tally().running();
        let begun = begun.map(|begun| begun.0.as_second());
        figures.waiting_since = [figures.waiting_since, begun].into_iter().flatten().min();
    }
}

/// Whether a backup has all of the namespaces it has anything of. What it leaves out by type is somebody's choice.
fn takes_whole_namespaces(spec: &BackupSpec) -> bool {
    let selects = |selector: &LabelSelector| *selector != LabelSelector::default();
    let all = |types: &[String]| types.is_empty() || types.iter().any(|one| one == "*");
    !spec.label_selector.iter().chain(&spec.or_label_selectors).any(selects)
        && all(&spec.included_resources)
        && all(&spec.included_namespace_scoped_resources)
}

fn last_of_namespaces(whole: &BTreeMap<Lists, Timestamp>, existing: &[String]) -> BTreeMap<String, f64> {
    let namespaces = ExistingNamespaces::new(existing.iter().map(String::as_str));
    let mut last = vec![0.0_f64; existing.len()];
    for ((included, excluded), ended) in whole {
        // Lists that cannot be read never make a good backup.
        let Ok(taken) = namespaces.taken(included, excluded) else { continue };
        for place in taken.iter() {
            last[place] = last[place].max(ended.as_second() as f64);
        }
    }
    existing.iter().cloned().zip(last).collect()
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{BackupPhase, RestorePhase, ScheduleSpec};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn backup(schedule: &str, phase: BackupPhase, ended: i64, spec: BackupSpec) -> Backup {
        let mut backup = Backup::new("velero", "b", spec);
        backup.metadata.labels = Some([(labels::SCHEDULE_NAME.to_owned(), schedule.to_owned())].into());
        backup.status.phase = Some(phase);
        backup.status.start_timestamp = Some(Time(at(ended - 10)));
        backup.status.completion_timestamp = Some(Time(at(ended)));
        backup
    }

    fn of_namespaces(included: &[&str], excluded: &[&str]) -> BackupSpec {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        BackupSpec { included_namespaces: list(included), excluded_namespaces: list(excluded), ..Default::default() }
    }

    fn schedule(cron: &str) -> Schedule {
        let spec = ScheduleSpec { schedule: cron.to_owned(), ..Default::default() };
        let mut schedule = Schedule::new("velero", "often", spec);
        schedule.metadata.creation_timestamp = Some(Time(at(1000)));
        schedule
    }

    #[test]
    fn what_waits_and_runs_is_counted_by_how_far_it_is() {
        let mut standing = Standing::default();
        for phase in [BackupPhase::New, BackupPhase::Queued, BackupPhase::InProgress, BackupPhase::Completed] {
            standing.see_backup(&backup("", phase, 100, Default::default()));
        }
        let mut restore = Restore::new("velero", "r", Default::default());
        restore.status.phase = Some(RestorePhase::WaitingForPluginOperations);
        restore.status.restore_item_operations_attempted = 5;
        restore.status.restore_item_operations_completed = 1;
        restore.status.restore_item_operations_failed = 1;
        for second in [70, 50, 60] {
            restore.status.start_timestamp = Some(Time(at(second)));
            standing.see_restore(&restore);
        }
        let figures = standing.figures(None);
        assert_eq!((figures.backups.exist, figures.backups.queued, figures.backups.running), (4, 2, 1));
        let waiting = WorkFigures { exist: 3, queued: 0, running: 3, operations: 9, waiting_since: Some(50) };
        assert_eq!(figures.restores, waiting);
        assert_eq!(figures.namespaces, None);
    }

    #[test]
    fn runs_are_counted_from_the_last_good_backup_on_or_else_from_the_schedule() {
        type Row<'a> = (&'a [(BackupPhase, i64)], &'a str, bool, Option<f64>);
        let table: [Row<'_>; 7] = [
            (&[], "@every 1m", false, Some(5.0)),
            (&[(BackupPhase::Completed, 1130)], "@every 1m", false, Some(3.0)),
            (&[(BackupPhase::Completed, 1130), (BackupPhase::Failed, 1290)], "@every 1m", false, Some(3.0)),
            (&[(BackupPhase::Completed, 1300), (BackupPhase::Completed, 1130)], "@every 1m", false, Some(0.0)),
            (&[(BackupPhase::PartiallyFailed, 1300)], "@every 1m", false, Some(5.0)),
            (&[], "@every 1m", true, None),
            (&[], "sometimes", false, None),
        ];
        for (backups, cron, paused, expected) in table {
            let mut standing = Standing::default();
            for (phase, ended) in backups {
                standing.see_backup(&backup("often", phase.clone(), *ended, Default::default()));
            }
            let mut schedule = schedule(cron);
            schedule.spec.paused = paused;
            standing.see_schedule(&schedule, at(1300));
            let figures = standing.figures(None);
            assert_eq!(figures.runs_since_good.get("often").copied(), expected, "{backups:?} {cron} {paused}");
        }
    }

    #[test]
    fn schedules_that_are_gone_have_no_figures() {
        let mut standing = Standing::default();
        for name in ["", "often", "gone"] {
            standing.see_backup(&backup(name, BackupPhase::Completed, 1100, Default::default()));
        }
        let mut refused = schedule("@every 1m");
        refused.status.phase = Some(SchedulePhase::FailedValidation);
        standing.see_schedule(&refused, at(1300));
        assert!(standing.has_schedule("often") && standing.has_schedule("") && !standing.has_schedule("gone"));
        let figures = standing.figures(None);
        assert_eq!(figures.last_successful, [(String::new(), 1100.0), ("often".to_owned(), 1100.0)].into());
        assert_eq!(figures.refused, [("often".to_owned(), 1.0)].into());
    }

    #[test]
    fn a_namespace_knows_its_last_good_backup_if_that_has_all_of_it() {
        let existing = ["shop".to_owned(), "shop-2".to_owned(), "db".to_owned()];
        let mut standing = Standing::default();
        let mut parts = of_namespaces(&["db"], &[]);
        parts.included_resources = vec!["secrets".to_owned()];
        let mut selected = of_namespaces(&["db"], &[]);
        let labels = Some([("app".to_owned(), "x".to_owned())].into());
        selected.label_selector = Some(LabelSelector { match_labels: labels, ..Default::default() });
        for (phase, ended, spec) in [
            (BackupPhase::Completed, 100, of_namespaces(&["shop*"], &[])),
            (BackupPhase::Completed, 300, of_namespaces(&[], &["db", "shop"])),
            (BackupPhase::Failed, 400, of_namespaces(&[], &[])),
            (BackupPhase::Completed, 500, parts),
            (BackupPhase::Completed, 600, selected),
        ] {
            standing.see_backup(&backup("", phase, ended, spec));
        }
        let expected = [("shop", 100.0), ("shop-2", 300.0), ("db", 0.0)];
        let expected = expected.map(|(namespace, second)| (namespace.to_owned(), second)).into();
        assert_eq!(standing.figures(Some(&existing)).namespaces, Some(expected));
    }

    #[test]
    fn a_repository_counts_from_its_last_maintenance_or_else_from_its_beginning() {
        let hour = GoDuration::from_mins(60);
        for (maintained, expected) in [(None, 10.0), (Some(Time(at(70))), 70.0)] {
            let mut repository = BackupRepository::new("velero", "shop", Default::default());
            repository.metadata.creation_timestamp = Some(Time(at(10)));
            repository.status.last_maintenance_time = maintained;
            let mut standing = Standing::default();
            standing.see_repository(&repository, hour);
            let figures = standing.figures(None).repositories;
            assert_eq!((figures.last_maintenance["shop"], figures.interval["shop"]), (expected, 3600.0));
            assert_eq!(figures.ready["shop"], 0.0);
        }
    }
}

//! When a schedule makes its next backup, how that backup is called and what it carries.

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use velero_api::annotations::SCHEDULED_BY;
use velero_api::labels;
use velero_api::metadata;
use velero_api::v1::{Backup, BackupPhase, Schedule};

use crate::cron::{CronError, CronSchedule};

/// How the name of a backup tells its moment.
const MOMENT: &str = "%Y%m%d%H%M%S";
/// How far the clocks of two servers may be apart.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(5);

/// The moments a schedule looks back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleHistory {
    /// When the schedule was created.
    pub created: Timestamp,
    /// When it last made a backup.
    pub last_backup: Option<Timestamp>,
    /// When it last skipped one.
    pub last_skipped: Option<Timestamp>,
}

impl ScheduleHistory {
    /// Gives the moment of the next backup, or none within five years.
    pub fn next_run(&self, cron: &CronSchedule, server_zone: &TimeZone) -> Option<Timestamp> {
        let last = self.last_backup.unwrap_or(self.created);
        let last = self.last_skipped.map_or(last, |skipped| skipped.max(last));
        cron.next(last, server_zone)
    }

    /// Says whether a backup is due. Missed runs are not made up for: however many there were, one backup is due.
    pub fn is_due(&self, cron: &CronSchedule, server_zone: &TimeZone, now: Timestamp) -> bool {
        self.next_run(cron, server_zone).is_some_and(|next| now > next)
    }
}

/// How often a schedule runs after one moment and until another one, as far as that is counted.
pub fn runs_between(cron: &CronSchedule, zone: &TimeZone, after: Timestamp, until: Timestamp, most: usize) -> usize {
    let runs = std::iter::successors(cron.next(after, zone), |run| cron.next(*run, zone));
    runs.take_while(|run| *run <= until).take(most).count()
}

/// Why the cron expression of a schedule cannot be used, in the words of Velero.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// There is none.
    #[error("Schedule must be a non-empty valid Cron expression")]
    Empty,
    /// It cannot be read.
    #[error("invalid schedule: {0}")]
    Invalid(CronError),
}

/// Reads the cron expression of a schedule, or says why it is not one.
pub fn validate(expression: &str) -> Result<CronSchedule, ScheduleError> {
    if expression.is_empty() {
        return Err(ScheduleError::Empty);
    }
    CronSchedule::parse(expression).map_err(ScheduleError::Invalid)
}

/// Says whether the run that is due now is skipped. The field `skipImmediately` then becomes false and `lastSkipped` now.
pub fn skips_now(skip_immediately: Option<bool>, server_default: bool) -> bool {
    skip_immediately.unwrap_or(server_default)
}

/// Says whether an earlier backup of the schedule is still to be worked on, so that no other one is made.
pub fn blocks_next_backup(phase: &BackupPhase) -> bool {
    phase.stage().has_items_to_come()
}

/// Gives the name of a backup made by a schedule: `<schedule>-<YYYYMMDDhhmmss>`.
pub fn backup_name(schedule: &str, now: &Zoned) -> String {
    format!("{schedule}-{}", now.strftime(MOMENT))
}

/// Gives the moment after which the schedule named a backup; nothing for a backup with another name.
fn moment_of(schedule: &str, backup: &str) -> Option<Timestamp> {
    let digits = backup.strip_prefix(schedule)?.strip_prefix('-')?;
    let moment = DateTime::strptime(MOMENT, digits).ok()?.to_zoned(TimeZone::UTC).ok()?;
    (backup_name(schedule, &moment) == backup).then(|| moment.timestamp())
}

/// Gives the moment at which a schedule made a backup because one was due: the server may have been killed before it could note
/// that. Nothing for a backup that somebody made from the schedule, that a schedule of the same name made, or that was made before.
pub fn made_when_due(backup: &Backup, schedule: &Schedule, due: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let (name, uid) = (metadata::name(schedule), metadata::uid(schedule));
    if uid.is_empty() || metadata::annotation(backup, SCHEDULED_BY) != uid {
        return None;
    }
    // It may be the clock of another server that it is named after.
    let latest = now.saturating_add(CLOCKS_APART).unwrap_or(now);
    moment_of(name, metadata::name(backup)).filter(|moment| (due..=latest).contains(moment))
}

/// Gives the labels of a backup made from a schedule: those of the template or, where it has none, of the schedule; and of
/// which schedule it is.
pub fn backup_labels(schedule: &Schedule) -> BTreeMap<String, String> {
    let template = &schedule.spec.template.metadata.labels;
    let mut all = template_or(template, schedule.metadata.labels.as_ref());
    all.insert(labels::SCHEDULE_NAME.to_owned(), metadata::name(schedule).to_owned());
    all
}

/// Gives the annotations of a backup made from a schedule: those of the template or, where it has none, of the schedule.
pub fn backup_annotations(schedule: &Schedule) -> Option<BTreeMap<String, String>> {
    let all = template_or(&schedule.spec.template.metadata.annotations, schedule.metadata.annotations.as_ref());
    (!all.is_empty()).then_some(all)
}

fn template_or(
    template: &BTreeMap<String, String>,
    own: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    if template.is_empty() { own.cloned().unwrap_or_default() } else { template.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_after_one_moment_and_until_another_one() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        // The first of May 2026 is a Friday.
        for (cron, after, until, expected) in [
            ("0 1 * * *", "2026-05-01T01:00:03Z", "2026-05-02T00:59:59Z", 0),
            ("0 1 * * *", "2026-05-01T01:00:03Z", "2026-05-02T01:00:00Z", 1),
            ("0 1 * * *", "2026-05-01T01:00:03Z", "2026-05-03T12:00:00Z", 2),
            ("0 1 * * 1-5", "2026-05-01T01:00:03Z", "2026-05-04T00:00:00Z", 0),
            ("0 1 * * 1-5", "2026-05-01T01:00:03Z", "2026-05-05T02:00:00Z", 2),
            ("* * * * *", "2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z", 100),
            ("0 1 * * *", "2026-05-02T00:00:00Z", "2026-05-01T00:00:00Z", 0),
        ] {
            let cron = CronSchedule::parse(cron).unwrap();
            assert_eq!(runs_between(&cron, &TimeZone::UTC, at(after), at(until), 100), expected, "{after} {until}");
        }
    }

    #[test]
    fn a_backup_carries_what_the_template_says_and_else_what_the_schedule_carries() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        type Pairs<'a> = &'a [(&'a str, &'a str)];
        let table: [(Pairs<'_>, Pairs<'_>, Pairs<'_>); 4] = [
            (&[], &[], &[]),
            (&[("a", "schedule")], &[], &[("a", "schedule")]),
            (&[("a", "schedule"), ("b", "1")], &[("a", "template")], &[("a", "template")]),
            (&[], &[("a", "template")], &[("a", "template")]),
        ];
        for (own, template, expected) in table {
            let mut schedule = Schedule::new("velero", "daily", Default::default());
            schedule.metadata.labels = Some(map(own));
            schedule.metadata.annotations = Some(map(own));
            schedule.spec.template.metadata.labels = map(template);
            schedule.spec.template.metadata.annotations = map(template);
            let annotations = backup_annotations(&schedule).unwrap_or_default();
            assert_eq!(annotations, map(expected), "{own:?} {template:?}");
            let mut labelled = map(expected);
            labelled.insert(labels::SCHEDULE_NAME.to_owned(), "daily".to_owned());
            assert_eq!(backup_labels(&schedule), labelled, "{own:?} {template:?}");
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_schedule_is_due_after_the_next_run_of_its_latest_moment() {
        let created = "2024-01-01T00:30:00Z";
        let table = [
            (None, None, "2024-01-01T00:59:59Z", false),
            (None, None, "2024-01-01T01:00:00Z", false),
            (None, None, "2024-01-01T01:00:01Z", true),
            (Some("2024-01-01T05:00:30Z"), None, "2024-01-01T05:59:00Z", false),
            (Some("2024-01-01T05:00:30Z"), None, "2024-01-01T06:00:01Z", true),
            (Some("2024-01-01T05:00:30Z"), None, "2024-01-05T00:00:00Z", true),
            (None, Some("2024-01-01T01:10:00Z"), "2024-01-01T01:59:00Z", false),
            (None, Some("2024-01-01T01:10:00Z"), "2024-01-01T02:01:00Z", true),
            (Some("2024-01-01T05:00:30Z"), Some("2024-01-01T01:10:00Z"), "2024-01-01T05:30:00Z", false),
        ];
        let cron = validate("@hourly").unwrap();
        for (last_backup, last_skipped, now, due) in table {
            let history = ScheduleHistory {
                created: at(created),
                last_backup: last_backup.map(at),
                last_skipped: last_skipped.map(at),
            };
            assert_eq!(history.is_due(&cron, &TimeZone::UTC, at(now)), due, "{history:?} {now}");
        }
    }

    #[test]
    fn a_schedule_that_never_comes_is_never_due() {
        let cron = validate("0 0 30 2 *").unwrap();
        let history = ScheduleHistory { created: at("2024-01-01T00:00:00Z"), last_backup: None, last_skipped: None };
        assert!(!history.is_due(&cron, &TimeZone::UTC, at("2030-01-01T00:00:00Z")));
    }

    #[test]
    fn expressions_are_validated_in_velero_words() {
        assert_eq!(validate("").unwrap_err().to_string(), "Schedule must be a non-empty valid Cron expression");
        assert_eq!(validate("x").unwrap_err().to_string(), "invalid schedule: expected exactly 5 fields, found 1: [x]");
    }

    #[test]
    fn the_server_decides_on_skipping_where_the_schedule_does_not() {
        assert!(skips_now(None, true) && skips_now(Some(true), false));
        assert!(!skips_now(None, false) && !skips_now(Some(false), true));
    }

    #[test]
    fn a_waiting_backup_holds_back_the_next_one() {
        let blocking: Vec<_> = BackupPhase::ALL.iter().filter(|phase| blocks_next_backup(phase)).collect();
        use BackupPhase::*;
        assert_eq!(blocking, [&New, &Queued, &ReadyToStart, &InProgress]);
    }

    #[test]
    fn the_backup_that_was_made_when_it_was_due_is_known_from_all_others() {
        let mut schedule = Schedule::new("velero", "daily", Default::default());
        schedule.metadata.uid = Some("u".to_owned());
        let made = |name: &str, by: &str| {
            let mut backup = Backup::new("velero", name, Default::default());
            backup.metadata.annotations = Some([(SCHEDULED_BY.to_owned(), by.to_owned())].into());
            made_when_due(&backup, &schedule, at("2026-03-04T01:00:00Z"), at("2026-03-04T09:00:00Z"))
        };
        for (name, by, expected) in [
            ("daily-20260304010000", "u", Some("2026-03-04T01:00:00Z")),
            ("daily-20260304010203", "u", Some("2026-03-04T01:02:03Z")),
            // The clock of the server that made it was a little ahead.
            ("daily-20260304090001", "u", Some("2026-03-04T09:00:01Z")),
            ("daily-20270304090001", "u", None),
            ("daily-20260304005959", "u", None),
            ("daily-20260304010203", "", None),
            ("daily-20260304010203", "another", None),
            ("daily-20260304010203-retry-1", "u", None),
            ("daily-2026030401020", "u", None),
            ("weekly-20260304010203", "u", None),
            ("mine", "u", None),
        ] {
            assert_eq!(made(name, by), expected.map(at), "{name} {by:?}");
        }
        schedule.metadata.uid = None;
        let unmarked = Backup::new("velero", "daily-20260304010203", Default::default());
        assert_eq!(made_when_due(&unmarked, &schedule, at("2026-03-04T01:00:00Z"), at("2026-03-04T09:00:00Z")), None);
    }

    #[test]
    fn backups_are_named_after_their_schedule_and_moment() {
        let now = at("2024-02-03T04:05:06.789Z").to_zoned(TimeZone::UTC);
        assert_eq!(backup_name("daily", &now), "daily-20240203040506");
    }
}

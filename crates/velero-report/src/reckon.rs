//! From facts to the report.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use velero_api::labels::valid_value;
use velero_api::metadata::name;
use velero_api::v1::{Ending, Schedule};
use velero_rules::schedule::{ScheduleHistory, validate};

use crate::coverage::{Covers, problem, why_not_covered};
use crate::facts::{BackupFact, ClaimFact, Facts};
use crate::protection::protection;
use crate::report::{ClaimRow, Day, FailureRow, LocationRow, NamespaceRow, Point, Report, ScheduleRow, Summary};
use crate::runs::{History, Runs, count};

/// The namespaces that Kubernetes makes for itself.
const OF_KUBERNETES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// The most good backups of a schedule that its trend is drawn from.
const LONGEST_HISTORY: usize = 400;
/// The most days that are told one by one.
const MOST_DAYS: i64 = 400;

/// Makes the report.
pub fn reckon(facts: &Facts) -> Report {
    let bytes = bytes_by_backup(facts);
    let schedules: Vec<ScheduleRow> =
        facts.schedules.iter().flatten().map(|it| schedule_row(facts, it, &bytes)).collect();
    let namespaces = facts.namespaces.as_deref().unwrap_or_default();
    let covers = Covers::of(namespaces, facts.schedules.iter().flatten().map(|it| (name(it), it)));
    // Without the schedules nothing can be said of what they cover.
    let rows = if facts.schedules.is_some() { namespace_rows(facts, &covers) } else { Vec::new() };
    let claims = if facts.schedules.is_some() { claim_rows(facts, &covers) } else { Vec::new() };
    let mut report = Report {
        server_namespace: facts.namespace.clone(),
        from: facts.since,
        until: facts.now,
        summary: Summary::default(),
        schedules,
        failures: failures(facts),
        namespaces: rows,
        claims_not_covered: claims,
        days: days(facts, &bytes),
        locations: facts.locations.iter().map(location_row).collect(),
        not_seen: facts.not_seen.clone(),
    };
    report.schedules.sort_by(|one, other| one.name.cmp(&other.name));
    report.locations.sort_by(|one, other| one.name.cmp(&other.name));
    report.summary = summary(facts, &report);
    report
}

fn is_within(facts: &Facts, moment: Option<Timestamp>) -> bool {
    moment.is_some_and(|moment| facts.since <= moment && moment <= facts.now)
}

/// The backups of the time that counts.
fn recent(facts: &Facts) -> impl Iterator<Item = &BackupFact> {
    facts.backups.iter().filter(|backup| is_within(facts, backup.made))
}

fn bytes_by_backup(facts: &Facts) -> BTreeMap<&str, u64> {
    let mut all = BTreeMap::new();
    for volume in facts.volumes.iter().filter(|volume| volume.is_complete) {
        *all.entry(volume.backup.as_str()).or_default() += volume.bytes;
    }
    all
}

fn bytes_of(bytes: &BTreeMap<&str, u64>, backup: &BackupFact) -> u64 {
    bytes.get(valid_value(&backup.name).as_str()).copied().unwrap_or_default()
}

fn is_good(backup: &&BackupFact) -> bool {
    backup.ending == Some(Ending::Completed)
}

fn is_restorable(backup: &&BackupFact) -> bool {
    matches!(backup.ending, Some(Ending::Completed | Ending::PartiallyFailed))
}

/// How many ended how: completed, partially failed, failed, not at all.
fn by_ending<'a>(backups: impl Iterator<Item = &'a BackupFact>) -> (usize, usize, usize, usize) {
    backups.fold((0, 0, 0, 0), |(completed, partially, failed, unfinished), backup| match backup.ending {
        Some(Ending::Completed) => (completed + 1, partially, failed, unfinished),
        Some(Ending::PartiallyFailed) => (completed, partially + 1, failed, unfinished),
        Some(Ending::Failed | Ending::FailedValidation) => (completed, partially, failed + 1, unfinished),
        None => (completed, partially, failed, unfinished + 1),
    })
}

fn schedule_row(facts: &Facts, schedule: &Schedule, bytes: &BTreeMap<&str, u64>) -> ScheduleRow {
    let own = |backup: &&BackupFact| backup.schedule == name(schedule);
    let (completed, partially_failed, failed, unfinished) = by_ending(recent(facts).filter(own));
    let mut history: Vec<Point> =
        recent(facts).filter(own).filter(is_good).filter_map(|backup| point(backup, bytes_of(bytes, backup))).collect();
    history.sort_by_key(|point| point.ended);
    let surplus = history.len().saturating_sub(LONGEST_HISTORY);
    history.drain(..surplus);
    let problem = problem(schedule).unwrap_or_default();
    let Runs { expected, skipped, missed } = if problem.is_empty() { runs(facts, schedule) } else { Runs::default() };
    ScheduleRow {
        name: name(schedule).to_owned(),
        schedule: schedule.spec.schedule.clone(),
        paused: schedule.spec.paused,
        expected,
        skipped,
        missed,
        completed,
        partially_failed,
        failed,
        unfinished,
        last_good: facts.backups.iter().filter(own).filter(is_good).filter_map(|backup| backup.ended).max(),
        next: if schedule.spec.paused { None } else { next_run(facts, schedule) },
        problem,
        history,
    }
}

fn point(backup: &BackupFact, bytes: u64) -> Option<Point> {
    let (name, ended) = (backup.name.clone(), backup.ended?);
    Some(Point { backup: name, ended, items: backup.items, bytes, seconds: backup.seconds })
}

fn created(schedule: &Schedule) -> Option<Timestamp> {
    schedule.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// The runs of a schedule, from when on they can be told: it must have been there, and what it made must not have expired.
fn runs(facts: &Facts, schedule: &Schedule) -> Runs {
    let Ok(cron) = validate(&schedule.spec.schedule) else { return Runs::default() };
    let mut made: Vec<Timestamp> = facts
        .backups
        .iter()
        .filter(|backup| backup.schedule == name(schedule))
        .filter_map(|backup| backup.made)
        .collect();
    made.sort();
    let ttl = schedule.spec.template.ttl.to_std();
    let ttl = if ttl.is_zero() { facts.default_ttl } else { ttl };
    let kept_since = SignedDuration::try_from(ttl).ok().and_then(|ttl| facts.now.checked_sub(ttl).ok());
    // A schedule that was made anew is as old as the backups it is known to have made.
    let there_since = made.first().copied().into_iter().chain(created(schedule)).min();
    let from = [Some(facts.since), there_since, kept_since].into_iter().flatten().max().unwrap_or(facts.since);
    let last_skipped = schedule.status.last_skipped.as_ref().map(|time| time.0);
    let history = History { from, now: facts.now, made: &made, last_skipped, paused: schedule.spec.paused };
    count(&cron, &history)
}

fn next_run(facts: &Facts, schedule: &Schedule) -> Option<Timestamp> {
    let cron = validate(&schedule.spec.schedule).ok()?;
    let status = &schedule.status;
    let history = ScheduleHistory {
        created: created(schedule).unwrap_or(facts.now),
        last_backup: status.last_backup.as_ref().map(|time| time.0),
        last_skipped: status.last_skipped.as_ref().map(|time| time.0),
    };
    history.next_run(&cron, &TimeZone::UTC)
}

fn failures(facts: &Facts) -> Vec<FailureRow> {
    let is_bad = |ending: Option<Ending>| ending.is_some_and(|ending| ending != Ending::Completed);
    let backups = recent(facts).filter(|backup| is_bad(backup.ending)).map(|backup| FailureRow {
        kind: "backup",
        name: backup.name.clone(),
        schedule: backup.schedule.clone(),
        phase: backup.phase.clone(),
        when: backup.ended.or(backup.made),
        errors: backup.counts.0,
        warnings: backup.counts.1,
        reason: backup.reason.clone(),
    });
    let restores = facts.restores.iter().filter(|restore| is_within(facts, restore.made) && is_bad(restore.ending));
    let restores = restores.map(|restore| FailureRow {
        kind: "restore",
        name: restore.name.clone(),
        schedule: String::new(),
        phase: restore.phase.clone(),
        when: restore.ended.or(restore.made),
        errors: restore.counts.0,
        warnings: restore.counts.1,
        reason: restore.reason.clone(),
    });
    let mut all: Vec<FailureRow> = backups.chain(restores).collect();
    all.sort_by(|one, other| (Reverse(one.when), &one.name).cmp(&(Reverse(other.when), &other.name)));
    all
}

fn namespace_rows(facts: &Facts, covers: &Covers<'_>) -> Vec<NamespaceRow> {
    let taken = facts.backups.iter().filter_map(BackupFact::taken);
    let mut rows: Vec<NamespaceRow> = protection(covers, taken)
        .into_iter()
        .map(|found| NamespaceRow {
            name: found.namespace.to_owned(),
            schedules: found.schedules(covers).map(str::to_owned).collect(),
            in_part: found.is_in_part(covers),
            system: OF_KUBERNETES.contains(&found.namespace) || found.namespace == facts.namespace,
            left_out: found.is_left_out,
            last_backup: found.last_good.map(|good| good.backup.to_owned()),
            last_good: found.last_good.map(|good| good.at),
        })
        .collect();
    rows.sort_by(|one, other| {
        let rank = |row: &NamespaceRow| (row.system, !row.schedules.is_empty(), row.in_part);
        (rank(one), &one.name).cmp(&(rank(other), &other.name))
    });
    rows
}

fn claim_rows(facts: &Facts, covers: &Covers<'_>) -> Vec<ClaimRow> {
    let mut claims: Vec<&ClaimFact> = facts.claims.iter().flatten().collect();
    claims.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    let mut rows: Vec<ClaimRow> = Vec::new();
    // Which schedules take a namespace is looked up once for all of its claims.
    for own in claims.chunk_by(|one, other| one.namespace == other.namespace) {
        let Some(first) = own.first() else { continue };
        let (is_left_out, schedules) = (covers.is_left_out(&first.namespace), covers.of_namespace(&first.namespace));
        for claim in own {
            if let Some(why) = why_not_covered(claim, is_left_out, &schedules) {
                rows.push(ClaimRow { namespace: claim.namespace.clone(), name: claim.name.clone(), why });
            }
        }
    }
    rows
}

fn days(facts: &Facts, bytes: &BTreeMap<&str, u64>) -> Vec<Day> {
    let date = |moment: Timestamp| moment.to_zoned(TimeZone::UTC).date();
    let last = date(facts.now);
    let mut first = date(facts.since);
    if let Ok(earliest) = last.checked_sub(SignedDuration::from_hours(24 * (MOST_DAYS - 1))) {
        first = first.max(earliest);
    }
    let mut days: BTreeMap<_, Day> = BTreeMap::new();
    let mut date_of_row = first;
    while date_of_row <= last {
        let row =
            Day { date: date_of_row, completed: 0, partially_failed: 0, failed: 0, items: 0, bytes: 0, seconds: 0 };
        days.insert(date_of_row, row);
        let Ok(next) = date_of_row.tomorrow() else { break };
        date_of_row = next;
    }
    for backup in recent(facts) {
        let Some(day) = backup.made.and_then(|made| days.get_mut(&date(made))) else { continue };
        match backup.ending {
            Some(Ending::Completed) => day.completed += 1,
            Some(Ending::PartiallyFailed) => day.partially_failed += 1,
            Some(Ending::Failed | Ending::FailedValidation) => day.failed += 1,
            None => {}
        }
        if is_restorable(&backup) {
            day.items += backup.items;
            day.bytes += bytes_of(bytes, backup);
            day.seconds += backup.seconds;
        }
    }
    days.into_values().collect()
}

fn location_row(location: &crate::facts::LocationFact) -> LocationRow {
    LocationRow { name: location.name.clone(), available: location.is_available, message: location.message.clone() }
}

fn summary(facts: &Facts, report: &Report) -> Summary {
    let (completed, partially_failed, failed, unfinished) = by_ending(recent(facts));
    let restores: Vec<_> = facts.restores.iter().filter(|restore| is_within(facts, restore.made)).collect();
    let can_tell = facts.schedules.is_some();
    let own: Vec<&NamespaceRow> = report.namespaces.iter().filter(|row| !row.system).collect();
    let namespaces = facts.namespaces.as_ref().filter(|_| can_tell);
    let claims = facts.claims.as_ref().filter(|_| can_tell);
    Summary {
        backups: recent(facts).count(),
        completed,
        partially_failed,
        failed,
        unfinished,
        runs_expected: report.schedules.iter().map(|row| row.expected).sum(),
        runs_skipped: report.schedules.iter().map(|row| row.skipped).sum(),
        runs_missed: report.schedules.iter().map(|row| row.missed).sum(),
        restores: restores.len(),
        restores_completed: restores.iter().filter(|restore| restore.ending == Some(Ending::Completed)).count(),
        items: report.days.iter().map(|day| day.items).sum(),
        bytes: report.days.iter().map(|day| day.bytes).sum(),
        namespaces: namespaces.map(|_| own.len()),
        namespaces_not_covered: namespaces
            .map(|_| own.iter().filter(|row| row.schedules.is_empty() && !row.left_out).count()),
        claims: claims.map(Vec::len),
        claims_not_covered: claims.map(|_| report.claims_not_covered.len()),
    }
}

#[cfg(test)]
mod tests;

//! Which namespaces have a recent good backup, and why the others have none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use velero_rules::includes_excludes::IncludesExcludes;

use crate::rows::{BackupRow, ScheduleRow};

/// A backup that took a namespace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Taken {
    pub(crate) backup: String,
    pub(crate) phase: String,
    pub(crate) at: Timestamp,
}

/// Why a namespace is not safe.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Gap {
    /// No backup takes it.
    NoBackup,
    /// The last good one is too old.
    TooOld,
    /// The last ones did not end well.
    Failing(Taken),
    /// Backups take only a part of its objects.
    OnlyParts(Taken),
}

/// How safe a namespace is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Covered {
    pub(crate) namespace: String,
    /// The newest good backup of all of it.
    pub(crate) last_good: Option<Taken>,
    /// What is wrong; nothing when it is safe.
    pub(crate) gap: Option<Gap>,
    /// The schedules that take it.
    pub(crate) schedules: Vec<String>,
}

/// The newest backups of those that take the same.
#[derive(Default)]
struct Newest {
    good: Option<Taken>,
    other: Option<Taken>,
}

/// Finds out how safe namespaces are. A backup is good when it is Completed: one that is PartiallyFailed lacks something.
pub(crate) fn coverage(
    namespaces: &[String],
    backups: &[Arc<BackupRow>],
    schedules: &[Arc<ScheduleRow>],
    now: Timestamp,
    longest: SignedDuration,
) -> Vec<Covered> {
    let mut by_scope: BTreeMap<(&[String], &[String], bool), Newest> = BTreeMap::new();
    for row in backups {
        let Some(at) = row.run.ended.or(row.run.started).filter(|_| !row.run.is_under_way) else { continue };
        let newest = by_scope.entry((&row.scope.included, &row.scope.excluded, row.scope.is_partial)).or_default();
        let place = if &*row.phase == "Completed" { &mut newest.good } else { &mut newest.other };
        if place.as_ref().is_none_or(|known| known.at < at) {
            *place = Some(Taken { backup: row.name.to_string(), phase: row.phase.to_string(), at });
        }
    }
    let mut takers = Takers::default();
    for ((included, excluded, partial), newest) in by_scope {
        takers.add(included, excluded, (partial, newest));
    }
    let mut coming = Takers::default();
    for row in schedules.iter().filter(|row| !row.paused) {
        coming.add(&row.scope.included, &row.scope.excluded, &row.name);
    }
    let judge = |namespace: &String| {
        let mut covered = judge(namespace, &takers, now, longest);
        covered.schedules = coming.of(namespace).map(|name| name.to_string()).collect();
        covered
    };
    namespaces.iter().map(judge).collect()
}

/// Those that take namespaces. Thousands of backups of one namespace each are not asked for every namespace: those that name
/// what they take are found by that name.
struct Takers<'a, T> {
    all: Vec<(IncludesExcludes, T)>,
    by_name: HashMap<&'a str, Vec<usize>>,
    /// Those that take everything, or what is like a pattern.
    wide: Vec<usize>,
}

impl<T> Default for Takers<'_, T> {
    fn default() -> Self {
        Self { all: Vec::new(), by_name: HashMap::new(), wide: Vec::new() }
    }
}

impl<'a, T> Takers<'a, T> {
    fn add(&mut self, included: &'a [String], excluded: &[String], taker: T) {
        let is_name = |entry: &String| entry.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
        let number = self.all.len();
        if included.is_empty() || !included.iter().all(is_name) {
            self.wide.push(number);
        } else {
            for name in included {
                self.by_name.entry(name.as_str()).or_default().push(number);
            }
        }
        self.all.push((IncludesExcludes::new(included, excluded), taker));
    }

    /// Those that take a namespace, in the order in which they were added.
    fn of(&self, namespace: &str) -> impl Iterator<Item = &T> {
        let named = self.by_name.get(namespace).into_iter().flatten();
        let numbers: BTreeSet<usize> = named.chain(&self.wide).copied().collect();
        let takers = numbers.into_iter().filter_map(|number| self.all.get(number));
        takers.filter(move |(filter, _)| filter.should_include(namespace)).map(|(_, taker)| taker)
    }
}

fn judge(namespace: &str, takers: &Takers<'_, (bool, Newest)>, now: Timestamp, longest: SignedDuration) -> Covered {
    let (mut good, mut partial, mut other): (Option<&Taken>, Option<&Taken>, Option<&Taken>) = (None, None, None);
    for (is_partial, newest) in takers.of(namespace) {
        let place = if *is_partial { &mut partial } else { &mut good };
        *place = newer(*place, newest.good.as_ref());
        other = newer(other, newest.other.as_ref());
    }
    let is_recent = |taken: &&Taken| now.duration_since(taken.at) <= longest;
    let gap = match (good, other, partial) {
        (Some(good), _, _) if is_recent(&good) => None,
        (good, Some(other), _) if good.is_none_or(|good| good.at < other.at) && is_recent(&other) => {
            Some(Gap::Failing(other.clone()))
        }
        (_, _, Some(partial)) if is_recent(&partial) => Some(Gap::OnlyParts(partial.clone())),
        (Some(_), _, _) => Some(Gap::TooOld),
        (None, Some(other), _) => Some(Gap::Failing(other.clone())),
        (None, None, Some(partial)) => Some(Gap::OnlyParts(partial.clone())),
        (None, None, None) => Some(Gap::NoBackup),
    };
    Covered { namespace: namespace.to_owned(), last_good: good.cloned(), gap, schedules: Vec::new() }
}

fn newer<'a>(one: Option<&'a Taken>, other: Option<&'a Taken>) -> Option<&'a Taken> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if one.at < other.at { other } else { one }),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Run, Scope};

    const HOUR: i64 = 3600;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * HOUR).unwrap()
    }

    fn row(name: &str, phase: &str, hours: i64, included: &[&str], is_partial: bool) -> Arc<BackupRow> {
        let included = included.iter().map(|entry| (*entry).to_owned()).collect();
        Arc::new(BackupRow {
            name: name.into(),
            phase: phase.into(),
            run: Run { ended: Some(at(hours)), ..Run::default() },
            scope: Scope { included, is_partial, ..Scope::default() },
            ..BackupRow::default()
        })
    }

    fn gap(rows: &[Arc<BackupRow>]) -> Option<Gap> {
        let found = coverage(&["shop".to_owned()], rows, &[], at(100), SignedDuration::from_hours(24));
        found.into_iter().next().unwrap().gap
    }

    #[test]
    fn a_namespace_is_safe_only_with_a_recent_good_backup_of_all_of_it() {
        let taken = |backup: &str, phase: &str, hours| Taken {
            backup: backup.to_owned(),
            phase: phase.to_owned(),
            at: at(hours),
        };
        for (rows, expected) in [
            (vec![], Some(Gap::NoBackup)),
            (vec![row("a", "Completed", 90, &[], false)], None),
            (vec![row("a", "Completed", 90, &["sh*"], false)], None),
            (vec![row("a", "Completed", 90, &["other"], false)], Some(Gap::NoBackup)),
            (vec![row("a", "Completed", 90, &["other", "shop"], false)], None),
            (vec![row("a", "Completed", 90, &["other", "sho*"], false)], None),
            (
                vec![row("old", "Completed", 10, &["shop"], false), row("new", "Failed", 90, &["*"], false)],
                Some(Gap::Failing(taken("new", "Failed", 90))),
            ),
            (vec![row("a", "Completed", 10, &[], false)], Some(Gap::TooOld)),
            (vec![row("a", "PartiallyFailed", 90, &[], false)], Some(Gap::Failing(taken("a", "PartiallyFailed", 90)))),
            (
                vec![row("old", "Completed", 10, &[], false), row("new", "Failed", 90, &[], false)],
                Some(Gap::Failing(taken("new", "Failed", 90))),
            ),
            (vec![row("a", "Completed", 80, &[], false), row("new", "Failed", 90, &[], false)], None),
            (vec![row("a", "Completed", 90, &[], true)], Some(Gap::OnlyParts(taken("a", "Completed", 90)))),
        ] {
            assert_eq!(gap(&rows), expected, "{rows:?}");
        }
    }

    #[test]
    fn what_runs_still_makes_nothing_safe() {
        let mut running = (*row("a", "InProgress", 99, &[], false)).clone();
        running.run = Run { started: Some(at(99)), is_under_way: true, ..Run::default() };
        assert_eq!(gap(&[Arc::new(running)]), Some(Gap::NoBackup));
    }

    #[test]
    fn schedules_that_take_it_are_named_and_paused_ones_are_not() {
        let schedule =
            |name: &str, paused| Arc::new(ScheduleRow { name: name.into(), paused, ..ScheduleRow::default() });
        let schedules = [schedule("daily", false), schedule("weekly", true)];
        let found = coverage(&["shop".to_owned()], &[], &schedules, at(0), SignedDuration::from_hours(24));
        assert_eq!(found[0].schedules, ["daily"]);
    }
}

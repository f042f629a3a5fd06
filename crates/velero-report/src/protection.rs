//! What is safe: namespaces by the backups that there are and the schedules that will make more, and the objects in them.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use velero_api::labels::EXCLUDE_FROM_BACKUP;
use velero_api::v1::BackupSpec;
use velero_rules::includes_excludes::NamespaceFilter;

use crate::coverage::{Cover, filter, is_partial, names};
use crate::facts::NamespaceFact;

/// What of the namespaces a backup takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The namespaces it takes; none means all.
    pub included: Box<[String]>,
    /// Those that it leaves out.
    pub excluded: Box<[String]>,
    /// Whether selectors or lists of resources leave out part of a namespace.
    pub is_partial: bool,
}

impl Scope {
    /// What a backup takes.
    pub fn of(spec: &BackupSpec) -> Self {
        Self {
            included: spec.included_namespaces.clone().into(),
            excluded: spec.excluded_namespaces.clone().into(),
            is_partial: is_partial(spec),
        }
    }
}

/// A backup that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken<'a> {
    /// Its name.
    pub backup: &'a str,
    /// Its phase.
    pub phase: &'a str,
    /// When it ended.
    pub at: Timestamp,
    /// Whether it is Completed: one that is PartiallyFailed lacks something.
    pub is_good: bool,
    /// What it takes.
    pub scope: &'a Scope,
}

/// Why a namespace is not safe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gap<'a> {
    /// Its label leaves it out.
    LeftOut,
    /// No backup takes it.
    NoBackup,
    /// The last good one is too old.
    TooOld,
    /// The last ones did not end well.
    Failing(Taken<'a>),
    /// Backups take only a part of its objects.
    OnlyParts(Taken<'a>),
}

/// How safe a namespace is.
#[derive(Clone, Debug, PartialEq)]
pub struct Protection<'a> {
    /// Its name.
    pub namespace: &'a str,
    /// Whether its label leaves it out of backups.
    pub is_left_out: bool,
    /// The newest good backup of all of it.
    pub last_good: Option<Taken<'a>>,
    /// The newest good backup of a part of it.
    pub last_partial: Option<Taken<'a>>,
    /// The newest backup that did not end well.
    pub last_bad: Option<Taken<'a>>,
    /// The schedules that take it.
    pub schedules: Vec<&'a str>,
    /// Whether all of these take only a part of it.
    pub in_part: bool,
}

/// The newest backups of those that take the same.
#[derive(Default)]
struct Newest<'a> {
    good: Option<Taken<'a>>,
    bad: Option<Taken<'a>>,
}

/// Finds out how safe each namespace is. Backups of one schedule take the same, so that each list of namespaces is read once.
pub fn protection<'a>(
    namespaces: &'a [NamespaceFact],
    backups: impl IntoIterator<Item = Taken<'a>>,
    covers: &[Cover<'a>],
) -> Vec<Protection<'a>> {
    let mut by_scope: HashMap<&Scope, Newest<'a>> = HashMap::new();
    for taken in backups {
        let newest = by_scope.entry(taken.scope).or_default();
        let place = if taken.is_good { &mut newest.good } else { &mut newest.bad };
        *place = newer(*place, Some(taken));
    }
    let existing = names(namespaces);
    let filters: Vec<(NamespaceFilter, bool, Newest<'a>)> = by_scope
        .into_iter()
        .filter_map(|(scope, newest)| {
            Some((filter(&scope.included, &scope.excluded, &existing)?, scope.is_partial, newest))
        })
        .collect();
    namespaces.iter().map(|namespace| of_namespace(namespace, &filters, covers)).collect()
}

fn of_namespace<'a>(
    namespace: &'a NamespaceFact,
    filters: &[(NamespaceFilter, bool, Newest<'a>)],
    covers: &[Cover<'a>],
) -> Protection<'a> {
    let own: Vec<&Cover<'a>> = covers.iter().filter(|cover| cover.takes(namespace)).collect();
    let mut found = Protection {
        namespace: &namespace.name,
        is_left_out: namespace.is_left_out,
        last_good: None,
        last_partial: None,
        last_bad: None,
        schedules: own.iter().map(|cover| cover.name).collect(),
        in_part: !own.is_empty() && own.iter().all(|cover| cover.in_part),
    };
    for (_, is_partial, newest) in filters.iter().filter(|(filter, ..)| filter.should_include(&namespace.name)) {
        let place = if *is_partial { &mut found.last_partial } else { &mut found.last_good };
        *place = newer(*place, newest.good);
        found.last_bad = newer(found.last_bad, newest.bad);
    }
    found
}

/// The newer one of two backups; of those that ended at the same moment the one whose name comes first.
fn newer<'a>(one: Option<Taken<'a>>, other: Option<Taken<'a>>) -> Option<Taken<'a>> {
    let order = |taken: &Taken<'a>| (taken.at, std::cmp::Reverse(taken.backup));
    one.into_iter().chain(other).max_by(|one, other| order(one).cmp(&order(other)))
}

impl<'a> Protection<'a> {
    /// Why it is not safe; nothing when a good backup of all of it is not older than wanted.
    pub fn gap(&self, now: Timestamp, longest: SignedDuration) -> Option<Gap<'a>> {
        let is_recent = |taken: &Taken<'a>| now.duration_since(taken.at) <= longest;
        let (good, bad, partial) = (self.last_good, self.last_bad, self.last_partial);
        match (good, bad, partial) {
            _ if self.is_left_out => Some(Gap::LeftOut),
            (Some(good), _, _) if is_recent(&good) => None,
            (good, Some(bad), _) if good.is_none_or(|good| good.at < bad.at) && is_recent(&bad) => {
                Some(Gap::Failing(bad))
            }
            (_, _, Some(partial)) if is_recent(&partial) => Some(Gap::OnlyParts(partial)),
            (Some(_), _, _) => Some(Gap::TooOld),
            (None, Some(bad), _) => Some(Gap::Failing(bad)),
            (None, None, Some(partial)) => Some(Gap::OnlyParts(partial)),
            (None, None, None) => Some(Gap::NoBackup),
        }
    }
}

/// Why an object of a namespace is not in its last good backup, though that is recent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectGap {
    /// Its label leaves it out.
    LeftOut,
    /// It was made after the last good backup.
    TooYoung,
    /// Its namespace is not safe.
    OfNamespace,
}

/// Why an object is not safe, by its labels, when it was made, and how safe its namespace is; nothing when it is.
pub fn object_gap(
    labels: &BTreeMap<String, String>,
    made: Option<Timestamp>,
    namespace: Option<&Protection<'_>>,
    (now, longest): (Timestamp, SignedDuration),
) -> Option<ObjectGap> {
    if labels.get(EXCLUDE_FROM_BACKUP).is_some_and(|value| value == "true") {
        return Some(ObjectGap::LeftOut);
    }
    let safe = namespace.filter(|protection| protection.gap(now, longest).is_none());
    match (safe.and_then(|protection| protection.last_good), made) {
        (None, _) => Some(ObjectGap::OfNamespace),
        (Some(good), Some(made)) if made > good.at => Some(ObjectGap::TooYoung),
        (Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{Schedule, ScheduleSpec};

    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3600).unwrap()
    }

    fn scope(included: &[&str], is_partial: bool) -> &'static Scope {
        let included = included.iter().map(|entry| (*entry).to_owned()).collect();
        Box::leak(Box::new(Scope { included, is_partial, ..Scope::default() }))
    }

    fn taken(backup: &'static str, phase: &'static str, hours: i64, scope: &'static Scope) -> Taken<'static> {
        Taken { backup, phase, at: at(hours), is_good: phase == "Completed", scope }
    }

    fn gap(backups: &[Taken<'static>], is_left_out: bool) -> Option<Gap<'static>> {
        let shop = NamespaceFact { name: "shop".to_owned(), is_left_out };
        let shop: &'static [NamespaceFact] = Box::leak(Box::new([shop]));
        protection(shop, backups.iter().copied(), &[])[0].gap(at(100), DAY)
    }

    #[test]
    fn a_namespace_is_safe_only_with_a_recent_good_backup_of_all_of_it() {
        let (all, part) = (scope(&[], false), scope(&[], true));
        let (new, failed) = (taken("new", "Failed", 90, all), taken("a", "PartiallyFailed", 90, all));
        for (backups, expected) in [
            (vec![], Some(Gap::NoBackup)),
            (vec![taken("a", "Completed", 90, all)], None),
            (vec![taken("a", "Completed", 90, scope(&["sh*"], false))], None),
            (vec![taken("a", "Completed", 90, scope(&["other"], false))], Some(Gap::NoBackup)),
            (vec![taken("a", "Completed", 10, all)], Some(Gap::TooOld)),
            (vec![failed], Some(Gap::Failing(failed))),
            (vec![taken("old", "Completed", 10, all), new], Some(Gap::Failing(new))),
            (vec![taken("a", "Completed", 80, all), new], None),
            (vec![taken("a", "Completed", 90, part)], Some(Gap::OnlyParts(taken("a", "Completed", 90, part)))),
        ] {
            assert_eq!(gap(&backups, false), expected, "{backups:?}");
            assert_eq!(gap(&backups, true), Some(Gap::LeftOut), "its label leaves it out, whatever backups take");
        }
    }

    #[test]
    fn a_backup_that_leaves_types_or_labels_out_is_partial() {
        let text = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
        for (spec, is_partial) in [
            (BackupSpec { included_resources: text(&["*"]), ..BackupSpec::default() }, false),
            (BackupSpec { included_resources: text(&["pods"]), ..BackupSpec::default() }, true),
            (BackupSpec { excluded_resources: text(&["secrets"]), ..BackupSpec::default() }, true),
            (BackupSpec { label_selector: Some(Default::default()), ..BackupSpec::default() }, true),
            (BackupSpec { excluded_cluster_scoped_resources: text(&["*"]), ..BackupSpec::default() }, false),
        ] {
            assert_eq!(Scope::of(&spec).is_partial, is_partial, "{spec:?}");
        }
    }

    #[test]
    fn the_newest_counts_and_of_two_at_once_always_the_same() {
        let all = scope(&[], false);
        let shop = [NamespaceFact { name: "shop".to_owned(), is_left_out: false }];
        let last = |backups: Vec<Taken<'static>>| protection(&shop, backups, &[])[0].last_good.map(|good| good.backup);
        let (a, b, old) =
            (taken("a", "Completed", 9, all), taken("b", "Completed", 9, all), taken("c", "Completed", 1, all));
        assert_eq!((last(vec![a, b, old]), last(vec![old, b, a])), (Some("a"), Some("a")));
    }

    #[test]
    fn schedules_that_take_it_are_named_and_paused_ones_are_not() {
        let schedule = |paused| {
            let spec = ScheduleSpec { schedule: "@daily".to_owned(), paused, ..ScheduleSpec::default() };
            Schedule::new("velero", "s", spec)
        };
        let shop = [NamespaceFact { name: "shop".to_owned(), is_left_out: false }];
        let (daily, weekly) = (schedule(false), schedule(true));
        let covers: Vec<Cover<'_>> = [("daily", &daily), ("weekly", &weekly)]
            .into_iter()
            .filter_map(|(name, schedule)| Cover::of(name, schedule, &names(&shop)))
            .collect();
        assert_eq!(protection(&shop, [], &covers)[0].schedules, ["daily"]);
    }

    #[test]
    fn an_object_is_safe_only_where_its_namespace_is_and_the_backup_could_have_it() {
        let all = scope(&[], false);
        let shop = [NamespaceFact { name: "shop".to_owned(), is_left_out: false }];
        let safe = &protection(&shop, [taken("a", "Completed", 90, all)], &[])[0];
        let bare = &protection(&shop, [], &[])[0];
        let none = BTreeMap::new();
        let label = BTreeMap::from([(EXCLUDE_FROM_BACKUP.to_owned(), "true".to_owned())]);
        let when = (at(100), DAY);
        for (labels, made, namespace, expected) in [
            (&none, Some(at(1)), Some(safe), None),
            (&none, None, Some(safe), None),
            (&none, Some(at(95)), Some(safe), Some(ObjectGap::TooYoung)),
            (&none, Some(at(1)), Some(bare), Some(ObjectGap::OfNamespace)),
            (&none, Some(at(1)), None, Some(ObjectGap::OfNamespace)),
            (&label, Some(at(1)), Some(safe), Some(ObjectGap::LeftOut)),
        ] {
            assert_eq!(object_gap(labels, made, namespace, when), expected);
        }
    }
}

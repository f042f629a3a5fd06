//! What is safe: namespaces by the backups that there are and the schedules that will make more, and the objects in them.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use velero_api::labels::EXCLUDE_FROM_BACKUP;
use velero_api::v1::BackupSpec;

use crate::coverage::{Covers, is_partial};
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
    /// When it was begun: what was made later is not in it. What was made in the same second is: moments are told to the second, and it
    /// looks at objects once it has begun.
    pub begun: Timestamp,
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
    /// No backup takes it, or none that was begun since it was made.
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
    /// When it was made.
    made: Option<Timestamp>,
    /// Where it stands among all namespaces.
    place: usize,
}

/// Finds out how safe each namespace is, in their order. Backups of one schedule take the same: the newest of those count, and
/// each pair of lists is read for them and let go. A namespace that was made after the newest was begun is in none of them.
pub fn protection<'a>(covers: &Covers<'a>, backups: impl IntoIterator<Item = Taken<'a>>) -> Vec<Protection<'a>> {
    let mut newest: HashMap<(&'a Scope, bool), Taken<'a>> = HashMap::new();
    for taken in backups {
        let known = newest.entry((taken.scope, taken.is_good)).or_insert(taken);
        *known = newer(*known, taken);
    }
    let namespaces = covers.namespaces.iter().enumerate();
    let mut found: Vec<_> = namespaces.map(|(place, namespace)| Protection::without_backup(place, namespace)).collect();
    for ((scope, _), taken) in newest {
        // Lists that cannot be read take nothing.
        let Ok(places) = covers.existing.taken(&scope.included, &scope.excluded) else { continue };
        for place in places.iter() {
            if let Some(protection) = found.get_mut(place) {
                protection.see(taken);
            }
        }
    }
    found
}

/// The newer one of two backups: the one that was begun later. Of those that have the same moments it is the one whose name comes first.
fn newer<'a>(one: Taken<'a>, other: Taken<'a>) -> Taken<'a> {
    let order = |taken: &Taken<'a>| (taken.begun, taken.at, std::cmp::Reverse(taken.backup));
    if order(&one) < order(&other) { other } else { one }
}

impl<'a> Protection<'a> {
    fn without_backup(place: usize, namespace: &'a NamespaceFact) -> Self {
        Self {
            namespace: &namespace.name,
            is_left_out: namespace.is_left_out,
            last_good: None,
            last_partial: None,
            last_bad: None,
            made: namespace.made,
            place,
        }
    }

    /// Takes in a backup that takes it, if it was there when that was begun.
    fn see(&mut self, taken: Taken<'a>) {
        if self.made.is_some_and(|made| made > taken.begun) {
            return;
        }
        let last = match (taken.is_good, taken.scope.is_partial) {
            (true, false) => &mut self.last_good,
            (true, true) => &mut self.last_partial,
            (false, _) => &mut self.last_bad,
        };
        *last = Some(last.map_or(taken, |known| newer(known, taken)));
    }

    /// The schedules that take it, of those that it was found out with.
    pub fn schedules(&self, covers: &Covers<'a>) -> impl Iterator<Item = &'a str> {
        covers.at(self.place).map(|cover| cover.name)
    }

    /// Whether schedules take it, and all of these only a part of it.
    pub fn is_in_part(&self, covers: &Covers<'a>) -> bool {
        let mut own = covers.at(self.place).peekable();
        own.peek().is_some() && own.all(|cover| cover.in_part)
    }

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
    /// It was made after the last good backup had begun.
    TooYoung,
    /// Its namespace is not safe.
    OfNamespace,
}

/// Why an object is not safe, by its labels, when it was made, and how safe its namespace is; nothing when it is.
pub fn object_gap(
    labels: &BTreeMap<String, String>,
    made: Option<Timestamp>,
    namespace: Option<&Protection<'_>>,
    now: Timestamp,
    longest: SignedDuration,
) -> Option<ObjectGap> {
    if labels.get(EXCLUDE_FROM_BACKUP).is_some_and(|value| value == "true") {
        return Some(ObjectGap::LeftOut);
    }
    let safe = namespace.filter(|protection| protection.gap(now, longest).is_none());
    match (safe.and_then(|protection| protection.last_good), made) {
        (None, _) => Some(ObjectGap::OfNamespace),
        (Some(good), Some(made)) if made > good.begun => Some(ObjectGap::TooYoung),
        (Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{Schedule, ScheduleSpec};
    use velero_rules::includes_excludes::NamespaceFilter;

    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3600).unwrap()
    }

    fn scope(included: &[&str], is_partial: bool) -> &'static Scope {
        let included = included.iter().map(|entry| (*entry).to_owned()).collect();
        Box::leak(Box::new(Scope { included, is_partial, ..Scope::default() }))
    }

    /// A namespace that was there before all backups.
    fn namespace(name: &str) -> NamespaceFact {
        NamespaceFact { name: name.to_owned(), ..NamespaceFact::default() }
    }

    /// A backup that took an hour.
    fn taken(backup: &'static str, phase: &'static str, hours: i64, scope: &'static Scope) -> Taken<'static> {
        Taken { backup, phase, begun: at(hours - 1), at: at(hours), is_good: phase == "Completed", scope }
    }

    fn gap(backups: &[Taken<'static>], is_left_out: bool) -> Option<Gap<'static>> {
        let shop = NamespaceFact { is_left_out, ..namespace("shop") };
        let shop: &'static [NamespaceFact] = Box::leak(Box::new([shop]));
        protection(&Covers::of(shop, []), backups.iter().copied())[0].gap(at(100), DAY)
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
        let shop = [namespace("shop")];
        let covers = Covers::of(&shop, []);
        let last = |backups: Vec<Taken<'static>>| protection(&covers, backups)[0].last_good.map(|good| good.backup);
        let (a, b, old) =
            (taken("a", "Completed", 9, all), taken("b", "Completed", 9, all), taken("c", "Completed", 1, all));
        assert_eq!((last(vec![a, b, old]), last(vec![old, b, a])), (Some("a"), Some("a")));
    }

    #[test]
    fn a_namespace_is_in_no_backup_that_was_begun_before_it_was_made() {
        let all = scope(&[], false);
        let long = Taken { begun: at(10), ..taken("long", "Completed", 50, all) };
        let quick = Taken { begun: at(20), ..taken("quick", "Completed", 30, all) };
        let failed = Taken { begun: at(20), ..taken("failed", "Failed", 30, all) };
        for (made, backups, expected) in [
            (5, vec![long, quick], Some("quick")),
            (15, vec![long, quick], Some("quick")),
            (20, vec![quick, long], Some("quick")),
            (25, vec![long, quick], None),
            (10, vec![long], Some("long")),
            (11, vec![long, failed], None),
        ] {
            let shop = [NamespaceFact { made: Some(at(made)), ..namespace("shop") }];
            let covers = Covers::of(&shop, []);
            let found = protection(&covers, backups.iter().copied());
            assert_eq!(found[0].last_good.map(|good| good.backup), expected, "made at {made}");
            let gap = found[0].gap(at(60), SignedDuration::from_hours(100));
            match (expected, made) {
                (Some(_), _) => assert_eq!(gap, None),
                (None, 25) => assert_eq!(gap, Some(Gap::NoBackup)),
                (None, _) => assert_eq!(gap, Some(Gap::Failing(failed)), "that one was begun later"),
            }
        }
    }

    /// Lists of all kinds: names of namespaces that exist and of others, patterns, and some that cannot be read.
    fn lists(number: usize) -> Scope {
        let (name, pattern) = (format!("team-{}", number % 90), format!("team-{}*", number % 7));
        let (included, excluded) = match number % 5 {
            0 => (vec![name], vec![]),
            1 => (vec![pattern, name], vec![]),
            2 => (vec![], vec![pattern]),
            3 => (vec!["*".to_owned()], vec![name, pattern]),
            _ => (vec![name, "bad[".to_owned()], vec![]),
        };
        Scope { included: included.into(), excluded: excluded.into(), is_partial: number.is_multiple_of(3) }
    }

    #[test]
    fn the_lists_of_a_thousand_backups_take_what_a_filter_for_each_would() {
        let made = |number: i64| (number % 3 == 0).then(|| at(number * 5));
        let namespace = |number| NamespaceFact { made: made(number), ..namespace(&format!("team-{number}")) };
        let namespaces: Vec<NamespaceFact> = (0..70).map(namespace).collect();
        let existing: Vec<String> = namespaces.iter().map(|namespace| namespace.name.clone()).collect();
        let named: Vec<(String, Scope)> = (0..1000).map(|number| (format!("b-{number}"), lists(number))).collect();
        let filters: Vec<Option<NamespaceFilter>> = named
            .iter()
            .map(|(_, scope)| NamespaceFilter::expand::<String>(&scope.included, &scope.excluded, &existing).ok())
            .collect();
        assert!(filters.iter().any(Option::is_none), "some cannot be read");
        let backups: Vec<Taken<'_>> = named
            .iter()
            .enumerate()
            .map(|(number, (backup, scope))| {
                let hours = (number * 7919 % 500) as i64;
                let (begun, at) = (at(hours - number as i64 % 17), at(hours));
                Taken { backup: backup.as_str(), phase: "any", begun, at, is_good: !number.is_multiple_of(4), scope }
            })
            .collect();
        let found = protection(&Covers::of(&namespaces, []), backups.iter().copied());
        for protection in &found {
            let last = |is_wanted: &dyn Fn(&Taken<'_>) -> bool| {
                let own = backups.iter().zip(&filters).filter(|(taken, filter)| {
                    let takes = filter.as_ref().is_some_and(|filter| filter.should_include(protection.namespace));
                    takes && protection.made.is_none_or(|made| made <= taken.begun) && is_wanted(taken)
                });
                own.map(|(taken, _)| *taken)
                    .max_by_key(|taken| (taken.begun, taken.at, std::cmp::Reverse(taken.backup)))
            };
            assert_eq!(protection.last_good, last(&|taken| taken.is_good && !taken.scope.is_partial));
            assert_eq!(protection.last_partial, last(&|taken| taken.is_good && taken.scope.is_partial));
            assert_eq!(protection.last_bad, last(&|taken| !taken.is_good));
        }
    }

    #[test]
    fn schedules_that_take_it_are_named_and_paused_ones_are_not() {
        let schedule = |paused| {
            let spec = ScheduleSpec { schedule: "@daily".to_owned(), paused, ..ScheduleSpec::default() };
            Schedule::new("velero", "s", spec)
        };
        let shop = [namespace("shop")];
        let (daily, weekly) = (schedule(false), schedule(true));
        let covers = Covers::of(&shop, [("daily", &daily), ("weekly", &weekly)]);
        assert_eq!(protection(&covers, [])[0].schedules(&covers).collect::<Vec<_>>(), ["daily"]);
    }

    #[test]
    fn an_object_is_safe_only_where_its_namespace_is_and_the_backup_could_have_it() {
        let all = scope(&[], false);
        let shop = [namespace("shop")];
        let covers = Covers::of(&shop, []);
        let safe = &protection(&covers, [taken("a", "Completed", 90, all)])[0];
        let bare = &protection(&covers, [])[0];
        let none = BTreeMap::new();
        let label = BTreeMap::from([(EXCLUDE_FROM_BACKUP.to_owned(), "true".to_owned())]);
        let safe_since = at(89);
        for (labels, made, namespace, expected) in [
            (&none, Some(at(1)), Some(safe), None),
            (&none, None, Some(safe), None),
            (&none, Some(safe_since), Some(safe), None),
            (&none, Some(at(90)), Some(safe), Some(ObjectGap::TooYoung)),
            (&none, Some(at(95)), Some(safe), Some(ObjectGap::TooYoung)),
            (&none, Some(at(1)), Some(bare), Some(ObjectGap::OfNamespace)),
            (&none, Some(at(1)), None, Some(ObjectGap::OfNamespace)),
            (&label, Some(at(1)), Some(safe), Some(ObjectGap::LeftOut)),
        ] {
            assert_eq!(object_gap(labels, made, namespace, at(100), DAY), expected);
        }
    }
}

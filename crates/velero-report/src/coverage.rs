//! What schedules cover: whole namespaces, parts of them, the data of claims.

use velero_api::type_names::PERSISTENT_VOLUME_CLAIMS as CLAIMS;
use velero_api::v1::{BackupSpec, Schedule, SchedulePhase};
use velero_rules::existing_namespaces::{ExistingNamespaces, Places};
use velero_rules::includes_excludes::{IncludesExcludes, NamespaceFilter};
use velero_rules::schedule::validate;
use velero_rules::selector::SelectorSet;

use crate::facts::{ClaimFact, NamespaceFact};

/// Other names of claims.
const ALSO_CLAIMS: [&str; 4] = ["pvc", "pvcs", "persistentvolumeclaim", "persistentvolumeclaims."];

/// What schedules cover of the namespaces that exist.
pub struct Covers<'a> {
    pub(crate) namespaces: &'a [NamespaceFact],
    pub(crate) existing: ExistingNamespaces<'a>,
    schedules: Vec<Cover<'a>>,
}

impl<'a> Covers<'a> {
    /// What these schedules, by their names, cover of these namespaces.
    pub fn of(namespaces: &'a [NamespaceFact], schedules: impl IntoIterator<Item = (&'a str, &'a Schedule)>) -> Self {
        let existing = ExistingNamespaces::new(namespaces.iter().map(|namespace| namespace.name.as_str()));
        let schedules =
            schedules.into_iter().filter_map(|(name, schedule)| Cover::of(name, schedule, &existing)).collect();
        Self { namespaces, existing, schedules }
    }

    /// The place of a namespace among all; nothing when it does not exist.
    pub fn place(&self, namespace: &str) -> Option<usize> {
        self.existing.place(namespace)
    }

    /// Those of the schedules that take the namespace at a place.
    pub(crate) fn at(&self, place: usize) -> impl Iterator<Item = &Cover<'a>> {
        let is_left_out = self.namespaces.get(place).is_some_and(|namespace| namespace.is_left_out);
        self.schedules.iter().filter(move |cover| !is_left_out && cover.takes.contains(place))
    }

    /// Those of the schedules that take a namespace. Who may list claims but no namespaces knows of those that have
    /// claims.
    pub(crate) fn of_namespace(&self, namespace: &str) -> Vec<&Cover<'a>> {
        match self.place(namespace) {
            Some(place) => self.at(place).collect(),
            None => self.schedules.iter().filter(|cover| cover.takes_unlisted(namespace)).collect(),
        }
    }

    /// Whether its label leaves a namespace out of backups.
    pub(crate) fn is_left_out(&self, namespace: &str) -> bool {
        let fact = self.place(namespace).and_then(|place| self.namespaces.get(place));
        fact.is_some_and(|namespace| namespace.is_left_out)
    }
}

/// What one schedule covers.
pub(crate) struct Cover<'a> {
    pub(crate) name: &'a str,
    spec: &'a BackupSpec,
    takes: Places,
    pub(crate) in_part: bool,
    selectors: Option<SelectorSet>,
    takes_claims: bool,
    saves_volumes: bool,
}

impl<'a> Cover<'a> {
    /// What a schedule covers; nothing if it makes no backups.
    fn of(name: &'a str, schedule: &'a Schedule, existing: &ExistingNamespaces<'_>) -> Option<Self> {
        if problem(schedule).is_some() || schedule.spec.paused {
            return None;
        }
        let spec = &schedule.spec.template;
        Some(Self {
            name,
            spec,
            takes: existing.taken(&spec.included_namespaces, &spec.excluded_namespaces).ok()?,
            in_part: is_partial(spec),
            // One that cannot be read takes nothing.
            selectors: SelectorSet::new(spec.label_selector.as_ref(), &spec.or_label_selectors).ok(),
            takes_claims: takes_claims(spec),
            saves_volumes: spec.snapshot_volumes != Some(false)
                || spec.default_volumes_to_fs_backup == Some(true)
                || spec.snapshot_move_data == Some(true),
        })
    }

    /// Whether it takes a namespace that is not among those that exist: patterns stand for those alone.
    fn takes_unlisted(&self, namespace: &str) -> bool {
        let filter = NamespaceFilter::expand(&self.spec.included_namespaces, &self.spec.excluded_namespaces, &[]);
        filter.is_ok_and(|filter| filter.should_include(namespace))
    }
}

/// Why a schedule makes no backups, other than being paused.
pub(crate) fn problem(schedule: &Schedule) -> Option<String> {
    if let Err(error) = validate(&schedule.spec.schedule) {
        return Some(error.to_string());
    }
    let refused = *schedule.status.phase() == SchedulePhase::FailedValidation;
    refused.then(|| format!("refused: {}", schedule.status.validation_errors.join("; ")))
}

/// Whether selectors or lists of resources leave out part of a namespace.
pub(crate) fn is_partial(spec: &BackupSpec) -> bool {
    let names_all = |included: &[String]| included.is_empty() || included.iter().any(|entry| entry == "*");
    spec.label_selector.is_some()
        || !spec.or_label_selectors.is_empty()
        || !names_all(&spec.included_resources)
        || !spec.excluded_resources.is_empty()
        || !names_all(&spec.included_namespace_scoped_resources)
        || !spec.excluded_namespace_scoped_resources.is_empty()
}

fn takes_claims(spec: &BackupSpec) -> bool {
    let named = |entries: &[String]| -> Vec<String> {
        let plain = |entry: &String| match ALSO_CLAIMS.contains(&entry.to_lowercase().as_str()) {
            true => CLAIMS.to_owned(),
            false => entry.clone(),
        };
        entries.iter().map(plain).collect()
    };
    let lists = [
        (&spec.included_resources, &spec.excluded_resources),
        (&spec.included_namespace_scoped_resources, &spec.excluded_namespace_scoped_resources),
    ];
    lists
        .iter()
        .all(|(included, excluded)| IncludesExcludes::new(&named(included), &named(excluded)).should_include(CLAIMS))
}

/// Why no schedule saves the data of a claim; nothing if one does. `of_namespace` are those that take its namespace.
pub(crate) fn why_not_covered(
    claim: &ClaimFact,
    is_namespace_left_out: bool,
    of_namespace: &[&Cover<'_>],
) -> Option<&'static str> {
    let left_out = claim.labels.get(velero_api::labels::EXCLUDE_FROM_BACKUP).is_some_and(|value| value == "true");
    if left_out || is_namespace_left_out {
        return Some("its label leaves it out of backups");
    }
    if of_namespace.is_empty() {
        return Some("no schedule takes its namespace");
    }
    let selects = |cover: &&&Cover<'_>| {
        let selects = cover.selectors.as_ref().is_some_and(|selectors| selectors.matches(&claim.labels));
        selects && cover.takes_claims
    };
    let mut taking = of_namespace.iter().filter(selects).peekable();
    if taking.peek().is_none() {
        return Some("the schedules of its namespace leave it out by selectors or lists of resources");
    }
    let is_saved = taking.any(|cover| cover.saves_volumes);
    (!is_saved).then_some("the schedules of its namespace do not save the data of volumes")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn schedule(template: &Value) -> Schedule {
        let object = json!({
            "apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": {"name": "s", "namespace": "velero"},
            "spec": {"schedule": "@daily", "template": template},
        });
        serde_json::from_value(object).unwrap()
    }

    fn why(template: &Value, claim_labels: Value) -> Option<&'static str> {
        let namespaces = [NamespaceFact { name: "shop".to_owned(), ..NamespaceFact::default() }];
        let schedule = schedule(template);
        let covers = Covers::of(&namespaces, [("s", &schedule)]);
        let labels: BTreeMap<String, String> = serde_json::from_value(claim_labels).unwrap();
        let claim = ClaimFact { namespace: "shop".to_owned(), name: "data".to_owned(), labels: labels.into() };
        why_not_covered(&claim, covers.is_left_out("shop"), &covers.of_namespace("shop"))
    }

    #[test]
    fn the_data_of_a_claim_is_covered_unless_something_leaves_it_out() {
        for (template, labels, expected) in [
            (json!({}), json!({}), None),
            (json!({"includedNamespaces": ["shop"]}), json!({}), None),
            (json!({"includedNamespaces": ["sh*"]}), json!({}), None),
            (json!({"includedNamespaces": ["yard"]}), json!({}), Some("no schedule takes its namespace")),
            (json!({"excludedNamespaces": ["shop"]}), json!({}), Some("no schedule takes its namespace")),
            (json!({"includedResources": ["pvc", "pods"]}), json!({}), None),
            (json!({"includedResources": ["pods"]}), json!({}), Some("leave it out")),
            (json!({"excludedNamespaceScopedResources": ["persistentvolumeclaims"]}), json!({}), Some("leave it out")),
            (json!({"labelSelector": {"matchLabels": {"a": "b"}}}), json!({"a": "b"}), None),
            (json!({"labelSelector": {"matchLabels": {"a": "b"}}}), json!({}), Some("leave it out")),
            (json!({"snapshotVolumes": false}), json!({}), Some("do not save the data")),
            (json!({"snapshotVolumes": false, "defaultVolumesToFsBackup": true}), json!({}), None),
            (json!({}), json!({"velero.io/exclude-from-backup": "true"}), Some("its label")),
        ] {
            let found = why(&template, labels);
            let is_expected = match (found, expected) {
                (Some(found), Some(expected)) => found.contains(expected),
                (found, expected) => found == expected,
            };
            assert!(is_expected, "{template}: {found:?}");
        }
    }

    #[test]
    fn a_schedule_that_is_paused_or_refused_covers_nothing() {
        let mut paused = schedule(&json!({}));
        paused.spec.paused = true;
        let existing = ExistingNamespaces::default();
        assert!(Cover::of("s", &paused, &existing).is_none());
        let mut wrong = schedule(&json!({}));
        wrong.spec.schedule = "sometimes".to_owned();
        assert!(Cover::of("s", &wrong, &existing).is_none());
        assert!(problem(&wrong).unwrap().contains("invalid schedule"));
        assert_eq!(problem(&schedule(&json!({}))), None);
    }

    #[test]
    fn patterns_take_namespaces_that_are_known_and_names_take_any() {
        let [named, matched, all] = [json!(["yard"]), json!(["y*"]), json!([])]
            .map(|included| schedule(&json!({"includedNamespaces": included, "excludedNamespaces": ["attic"]})));
        let schedules = [("named", &named), ("matched", &matched), ("all", &all)];
        let namespace = |name: &str| NamespaceFact {
            name: name.to_owned(),
            is_left_out: name == "scratch",
            ..NamespaceFact::default()
        };
        let known = ["yard", "scratch", "attic"].map(namespace);
        type Row<'a> = (&'a [NamespaceFact], &'a str, &'a [&'a str]);
        let table: [Row<'_>; 6] = [
            (&known, "yard", &["named", "matched", "all"]),
            (&known, "scratch", &[]),
            (&known, "attic", &[]),
            (&known, "young", &["all"]),
            (&[], "yard", &["named", "all"]),
            (&[], "attic", &[]),
        ];
        for (namespaces, name, expected) in table {
            let covers = Covers::of(namespaces, schedules);
            let names: Vec<&str> = covers.of_namespace(name).iter().map(|cover| cover.name).collect();
            assert_eq!(names, expected, "{name} of {namespaces:?}");
        }
    }
}

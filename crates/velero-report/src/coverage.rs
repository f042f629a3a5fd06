//! What schedules cover: whole namespaces, parts of them, the data of claims.

use velero_api::v1::{BackupSpec, Schedule, SchedulePhase};
use velero_rules::includes_excludes::{IncludesExcludes, NamespaceFilter};
use velero_rules::schedule::validate;
use velero_rules::selector::SelectorSet;

use crate::facts::{ClaimFact, NamespaceFact};

const CLAIMS: &str = "persistentvolumeclaims";
/// Other names of the type.
const ALSO_CLAIMS: [&str; 4] = ["pvc", "pvcs", "persistentvolumeclaim", "persistentvolumeclaims."];

/// What one schedule covers.
pub struct Cover<'a> {
    pub(crate) name: &'a str,
    namespaces: NamespaceFilter,
    pub(crate) in_part: bool,
    selectors: Option<SelectorSet>,
    takes_claims: bool,
    saves_volumes: bool,
}

impl<'a> Cover<'a> {
    /// What a schedule covers; nothing if it makes no backups.
    pub fn of(name: &'a str, schedule: &Schedule, existing: &[String]) -> Option<Self> {
        if problem(schedule).is_some() || schedule.spec.paused {
            return None;
        }
        let spec = &schedule.spec.template;
        Some(Self {
            name,
            namespaces: filter(&spec.included_namespaces, &spec.excluded_namespaces, existing)?,
            in_part: is_partial(spec),
            // One that cannot be read takes nothing.
            selectors: SelectorSet::new(spec.label_selector.as_ref(), &spec.or_label_selectors).ok(),
            takes_claims: takes_claims(spec),
            saves_volumes: spec.snapshot_volumes != Some(false)
                || spec.default_volumes_to_fs_backup == Some(true)
                || spec.snapshot_move_data == Some(true),
        })
    }

    pub(crate) fn takes(&self, namespace: &NamespaceFact) -> bool {
        !namespace.is_left_out && self.namespaces.should_include(&namespace.name)
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

/// The namespaces that lists name, among those that exist.
pub(crate) fn filter(included: &[String], excluded: &[String], existing: &[String]) -> Option<NamespaceFilter> {
    NamespaceFilter::expand(included, excluded, existing).ok()
}

/// The names of namespaces: made once for all the lists that are read with them.
pub fn names(existing: &[NamespaceFact]) -> Vec<String> {
    existing.iter().map(|namespace| namespace.name.clone()).collect()
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

/// Why no schedule saves the data of a claim; nothing if one does.
pub(crate) fn why_not_covered(
    claim: &ClaimFact,
    namespace: &NamespaceFact,
    covers: &[Cover<'_>],
) -> Option<&'static str> {
    let left_out = claim.labels.get(velero_api::labels::EXCLUDE_FROM_BACKUP).is_some_and(|value| value == "true");
    if left_out || namespace.is_left_out {
        return Some("its label leaves it out of backups");
    }
    let of_namespace: Vec<&Cover<'_>> = covers.iter().filter(|cover| cover.takes(namespace)).collect();
    if of_namespace.is_empty() {
        return Some("no schedule takes its namespace");
    }
    let selects = |cover: &&&Cover<'_>| {
        let selects = cover.selectors.as_ref().is_some_and(|selectors| selectors.matches(&claim.labels));
        selects && cover.takes_claims
    };
    let taking: Vec<&&Cover<'_>> = of_namespace.iter().filter(selects).collect();
    if taking.is_empty() {
        return Some("the schedules of its namespace leave it out by selectors or lists of resources");
    }
    let is_saved = taking.iter().any(|cover| cover.saves_volumes);
    (!is_saved).then_some("the schedules of its namespace do not save the data of volumes")
}

#[cfg(test)]
mod tests {
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
        let namespaces = [NamespaceFact { name: "shop".to_owned(), is_left_out: false }];
        let schedule = schedule(template);
        let covers: Vec<Cover<'_>> = Cover::of("s", &schedule, &names(&namespaces)).into_iter().collect();
        let labels = serde_json::from_value(claim_labels).unwrap();
        let claim = ClaimFact { namespace: "shop".to_owned(), name: "data".to_owned(), labels };
        why_not_covered(&claim, &namespaces[0], &covers)
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
        assert!(Cover::of("s", &paused, &[]).is_none());
        let mut wrong = schedule(&json!({}));
        wrong.spec.schedule = "sometimes".to_owned();
        assert!(Cover::of("s", &wrong, &[]).is_none());
        assert!(problem(&wrong).unwrap().contains("invalid schedule"));
        assert_eq!(problem(&schedule(&json!({}))), None);
    }
}

//! Which items of an archive a restore takes.

use std::collections::BTreeMap;

use serde::Deserialize;
use velero_api::type_names::{
    DATA_DOWNLOADS, DATA_UPLOADS, POD_VOLUME_BACKUPS, POD_VOLUME_RESTORES, VOLUME_SNAPSHOT_CONTENTS,
};
use velero_api::v1::RestoreSpec;
use velero_cluster::Discovery;
use velero_rules::includes_excludes::IncludesExcludes;
use velero_rules::resource_policies::{FilterPolicies, NamespaceVerdict, ResourcePolicies};
use velero_rules::selector::SelectorSet;

use super::RestoreError;

/// Types that pass every filter: the data of volumes depends on them.
const ALWAYS: [&str; 2] = [DATA_UPLOADS, VOLUME_SNAPSHOT_CONTENTS];

/// Work and requests of Velero itself. Made again they would be new ones: a node agent or a server would do them again,
/// and a backup could be deleted a second time.
const WORK: [&str; 7] = [
    DATA_UPLOADS,
    DATA_DOWNLOADS,
    POD_VOLUME_BACKUPS,
    POD_VOLUME_RESTORES,
    "deletebackuprequests.velero.io",
    "downloadrequests.velero.io",
    "serverstatusrequests.velero.io",
];

/// The filters on types, labels and names; namespaces are in the plan, for they depend on what the archive holds.
pub(super) struct Selection {
    resources: IncludesExcludes,
    selectors: SelectorSet,
    policies: FilterPolicies,
}

/// What a filter looks at.
#[derive(Deserialize, Default)]
struct Head {
    #[serde(default)]
    metadata: HeadMetadata,
    #[serde(default)]
    status: HeadStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HeadMetadata {
    labels: Option<BTreeMap<String, String>>,
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HeadStatus {
    phase: Option<String>,
    completion_time: Option<String>,
}

impl Selection {
    pub(super) fn new(
        spec: &RestoreSpec,
        policies: Option<&ResourcePolicies>,
        discovery: &Discovery,
    ) -> Result<Self, RestoreError> {
        // A type that is out of reach may be in the archive: its items then say what is wrong.
        let resolve = |name: &str| {
            discovery.resolve(name).or_else(|| discovery.resolve_lost(name)).map(|found| found.group_resource())
        };
        let filters = policies.map(|policies| policies.filters.clone().resolved(resolve)).transpose();
        let selectors = SelectorSet::new(spec.label_selector.as_ref(), &spec.or_label_selectors);
        Ok(Self {
            resources: IncludesExcludes::of_resources(&spec.included_resources, &spec.excluded_resources, resolve),
            selectors: selectors.map_err(|error| RestoreError::Request(error.to_string()))?,
            policies: filters
                .map_err(|error| RestoreError::Request(format!("spec.resourcePolicy: {error}")))?
                .unwrap_or_default(),
        })
    }

    /// Whether a type is taken.
    pub(super) fn takes_type(&self, resource: &str) -> bool {
        self.resources.should_include(resource) || Self::always_takes(resource)
    }

    /// Whether a type is left out by name.
    pub(super) fn excludes_type(&self, resource: &str) -> bool {
        self.resources.excludes.matches(resource) && !Self::always_takes(resource)
    }

    /// Whether a type is taken from every namespace and whatever its labels.
    pub(super) fn always_takes(resource: &str) -> bool {
        ALWAYS.contains(&resource)
    }

    /// Whether the items of a type are work of Velero itself, which is never made again.
    pub(super) fn is_work(resource: &str) -> bool {
        WORK.contains(&resource)
    }

    /// Whether labels and names of an item are right, and whether the work of the item is done. What cannot be read is
    /// taken, so that its turn shows what is wrong with it.
    pub(super) fn look_at(&self, resource: &str, namespace: Option<&str>, body: &[u8]) -> (bool, bool) {
        let may_complete = matches!(resource, "pods" | "jobs.batch");
        let may_filter = !self.selectors.is_empty() || !self.policies.is_empty();
        if !may_complete && (!may_filter || Self::always_takes(resource)) {
            return (true, false);
        }
        let Ok(head) = serde_json::from_slice::<Head>(body) else {
            return (true, false);
        };
        let selected = !may_filter || self.takes_item(resource, namespace, &head.metadata);
        (selected, may_complete && is_completed(resource, &head.status))
    }

    fn takes_item(&self, resource: &str, namespace: Option<&str>, metadata: &HeadMetadata) -> bool {
        let none = BTreeMap::new();
        let labels = metadata.labels.as_ref().unwrap_or(&none);
        let filter = match namespace {
            None => self.policies.cluster_scoped(resource),
            Some(namespace) => match self.policies.namespaced(namespace, resource) {
                NamespaceVerdict::NotGoverned => None,
                NamespaceVerdict::LeftOut => return false,
                NamespaceVerdict::Filtered(filter) => Some(filter),
            },
        };
        match filter {
            Some(filter) => filter.selectors.matches(labels) && filter.names.should_include(&metadata.name),
            None => self.selectors.matches(labels),
        }
    }
}

fn is_completed(resource: &str, status: &HeadStatus) -> bool {
    match resource {
        "pods" => matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
        "jobs.batch" => status.completion_time.as_deref().is_some_and(|time| !time.is_empty()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use serde_json::json;
    use velero_cluster::{ResourceType, types};

    use super::*;

    fn selection(spec: &RestoreSpec) -> Selection {
        let types = vec![types::PODS.clone(), ResourceType::new("batch/v1", "Job", "jobs", true)];
        Selection::new(spec, None, &Discovery::new(types, Vec::new())).unwrap()
    }

    #[test]
    fn a_pod_or_job_whose_work_is_done_is_seen() {
        let selection = selection(&RestoreSpec::default());
        for (resource, status, completed) in [
            ("pods", json!({"phase": "Running"}), false),
            ("pods", json!({"phase": "Succeeded"}), true),
            ("pods", json!({"phase": "Failed"}), true),
            ("pods", json!({"completionTime": "2026-01-01T00:00:00Z"}), false),
            ("jobs.batch", json!({"completionTime": "2026-01-01T00:00:00Z"}), true),
            ("jobs.batch", json!({"phase": "Succeeded"}), false),
            ("configmaps", json!({"phase": "Succeeded"}), false),
        ] {
            let body = json!({"metadata": {"name": "a"}, "status": status}).to_string();
            let seen = selection.look_at(resource, Some("shop"), body.as_bytes());
            assert_eq!(seen, (true, completed), "{resource} {status}");
        }
    }

    #[test]
    fn labels_decide_but_not_for_what_volumes_need() {
        let labels = LabelSelector {
            match_labels: Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])),
            ..LabelSelector::default()
        };
        let spec = RestoreSpec { label_selector: Some(labels), ..RestoreSpec::default() };
        let selection = selection(&spec);
        let body = |app: &str| json!({"metadata": {"name": "a", "labels": {"app": app}}}).to_string();
        assert!(selection.look_at("configmaps", Some("shop"), body("web").as_bytes()).0);
        assert!(!selection.look_at("configmaps", Some("shop"), body("db").as_bytes()).0);
        assert!(selection.look_at("datauploads.velero.io", Some("shop"), body("db").as_bytes()).0);
    }

    #[test]
    fn filter_policies_replace_the_selectors_where_they_govern() {
        let policies = "version: v1
namespacedFilterPolicies:
- namespaces: [shop]
  resourceFilters:
  - {kinds: [pods], names: ['web-*'], excludedNames: [web-9]}
  - {kinds: [jobs], labelSelector: {matchExpressions: [{key: app, operator: In, values: [web, db]}]}}
- namespaces: ['team-*']
  resourceFilters: [{labelSelector: {matchLabels: {app: web}}}]
clusterScopedFilterPolicy:
  resourceFilters: [{kinds: [clusterroles], names: [reader]}]
";
        let policies = ResourcePolicies::parse(policies).unwrap();
        let types = vec![
            types::PODS.clone(),
            ResourceType::new("batch/v1", "Job", "jobs", true),
            ResourceType::new("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
        ];
        let selector = LabelSelector {
            match_labels: Some(BTreeMap::from([("backup".to_owned(), "yes".to_owned())])),
            ..LabelSelector::default()
        };
        let spec = RestoreSpec { label_selector: Some(selector), ..RestoreSpec::default() };
        let selection = Selection::new(&spec, Some(&policies), &Discovery::new(types, Vec::new())).unwrap();
        let roles = "clusterroles.rbac.authorization.k8s.io";
        for (resource, namespace, name, labels, expected) in [
            ("pods", Some("shop"), "web-1", json!({}), true),
            ("pods", Some("shop"), "web-9", json!({}), false),
            ("pods", Some("shop"), "db-1", json!({"backup": "yes"}), false),
            ("jobs.batch", Some("shop"), "any", json!({"app": "db"}), true),
            ("jobs.batch", Some("shop"), "any", json!({"app": "cache"}), false),
            ("configmaps", Some("shop"), "unnamed-type", json!({"backup": "yes"}), false),
            ("configmaps", Some("team-a"), "a", json!({"app": "web"}), true),
            ("configmaps", Some("team-a"), "a", json!({"backup": "yes"}), false),
            ("configmaps", Some("bank"), "ungoverned", json!({"backup": "yes"}), true),
            ("configmaps", Some("bank"), "ungoverned", json!({}), false),
            (roles, None, "reader", json!({}), true),
            (roles, None, "writer", json!({"backup": "yes"}), false),
            ("persistentvolumes", None, "ungoverned", json!({"backup": "yes"}), true),
            ("datauploads.velero.io", Some("shop"), "always", json!({}), true),
        ] {
            let body = json!({"metadata": {"name": name, "labels": labels}}).to_string();
            let taken = selection.look_at(resource, namespace, body.as_bytes()).0;
            assert_eq!(taken, expected, "{resource} {namespace:?} {name} {labels}");
        }
    }

    #[test]
    fn any_name_of_a_type_includes_it() {
        let spec = RestoreSpec { included_resources: vec!["job".to_owned()], ..RestoreSpec::default() };
        let selection = selection(&spec);
        assert!(selection.takes_type("jobs.batch") && selection.takes_type("datauploads.velero.io"));
        assert!(!selection.takes_type("pods"));
    }
}

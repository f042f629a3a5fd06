//! Filters on the objects of single types: one set for cluster-scoped types, one for each group of namespaces.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::Deserialize;

use super::{PolicyError, invalid, null_as_empty};
use crate::includes_excludes::IncludesExcludes;
use crate::selector::SelectorSet;
use crate::wildcard::{Wildcard, contains_wildcard, validate_namespace_pattern};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ClusterScopedDocument {
    #[serde(deserialize_with = "null_as_empty")]
    resource_filters: Vec<ResourceFilterDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct NamespacedDocument {
    #[serde(deserialize_with = "null_as_empty")]
    namespaces: Vec<String>,
    #[serde(deserialize_with = "null_as_empty")]
    resource_filters: Vec<ResourceFilterDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ResourceFilterDocument {
    #[serde(deserialize_with = "null_as_empty")]
    kinds: Vec<String>,
    label_selector: Option<SelectorDocument>,
    #[serde(deserialize_with = "null_as_empty")]
    or_label_selectors: Vec<SelectorDocument>,
    #[serde(deserialize_with = "null_as_empty")]
    names: Vec<String>,
    #[serde(deserialize_with = "null_as_empty")]
    excluded_names: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SelectorDocument {
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<ExpressionDocument>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ExpressionDocument {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

/// Which objects of a type are taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectFilter {
    /// Replaces the label selectors of the backup or restore.
    pub selectors: SelectorSet,
    /// The names to take and to leave out.
    pub names: IncludesExcludes,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FiltersByKind {
    by_kind: BTreeMap<String, ObjectFilter>,
    catch_all: Option<ObjectFilter>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct NamespacedFilters {
    namespaces: Vec<(String, Option<Wildcard>)>,
    filters: FiltersByKind,
}

/// The filters on objects of a policy document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterPolicies {
    cluster_scoped: FiltersByKind,
    namespaced: Vec<NamespacedFilters>,
}

/// What the policies say about a type in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceVerdict<'a> {
    /// No policy is about this namespace: the filters of the backup or restore count.
    NotGoverned,
    /// The policy of this namespace does not name the type: nothing of it is taken.
    LeftOut,
    /// This filter counts.
    Filtered(&'a ObjectFilter),
}

impl FilterPolicies {
    pub(super) fn new(
        cluster_scoped: Option<&ClusterScopedDocument>,
        namespaced: Vec<NamespacedDocument>,
    ) -> Result<Self, PolicyError> {
        Ok(Self {
            cluster_scoped: cluster_scoped.map(cluster_scoped_filters).transpose()?.unwrap_or_default(),
            namespaced: namespaced_filters(namespaced)?,
        })
    }

    /// Says whether there is no filter at all.
    pub fn is_empty(&self) -> bool {
        self.cluster_scoped.by_kind.is_empty() && self.namespaced.is_empty()
    }

    /// Replaces the names of types as the user wrote them by `plural.group`. Names `resolve` does not know are kept. Two filters
    /// of one policy that name one type in two ways are refused: one of them would be lost.
    pub fn resolved(mut self, resolve: impl Fn(&str) -> Option<String>) -> Result<Self, PolicyError> {
        let all = self.namespaced.iter_mut().map(|policy| &mut policy.filters);
        for filters in all.chain([&mut self.cluster_scoped]) {
            for (kind, filter) in std::mem::take(&mut filters.by_kind) {
                let name = resolve(&kind).unwrap_or_else(|| kind.clone());
                if filters.by_kind.get(&name).is_some_and(|other| *other != filter) {
                    return Err(invalid(format!(
                        "resourceFilters: kind {kind:?} is {name}, for which another filter of the same policy says something \
                         else; make one filter of them"
                    )));
                }
                filters.by_kind.insert(name, filter);
            }
        }
        Ok(self)
    }

    /// Says whether some namespaces have filters of their own.
    pub fn govern_namespaces(&self) -> bool {
        !self.namespaced.is_empty()
    }

    /// Gives the names of cluster-scoped types and then of namespaced ones, as the user wrote them.
    pub fn kinds(&self) -> [Vec<&str>; 2] {
        let namespaced = self.namespaced.iter().flat_map(|policy| policy.filters.by_kind.keys());
        [self.cluster_scoped.by_kind.keys().map(String::as_str).collect(), namespaced.map(String::as_str).collect()]
    }

    /// Gives the filter for a cluster-scoped type. Without one the filters of the backup or restore count.
    pub fn cluster_scoped(&self, type_name: &str) -> Option<&ObjectFilter> {
        self.cluster_scoped.by_kind.get(type_name)
    }

    /// Gives what counts for a namespaced type in a namespace. A namespace given by name goes before patterns.
    pub fn namespaced(&self, namespace: &str, type_name: &str) -> NamespaceVerdict<'_> {
        let by_name = |policy: &&NamespacedFilters| policy.namespaces.iter().any(|(name, _)| name == namespace);
        let by_pattern = |policy: &&NamespacedFilters| {
            policy
                .namespaces
                .iter()
                .filter_map(|(_, pattern)| pattern.as_ref())
                .any(|pattern| pattern.matches(namespace))
        };
        let governing = self.namespaced.iter().find(by_name).or_else(|| self.namespaced.iter().find(by_pattern));
        let Some(policy) = governing else {
            return NamespaceVerdict::NotGoverned;
        };
        let filter = policy.filters.by_kind.get(type_name).or(policy.filters.catch_all.as_ref());
        filter.map_or(NamespaceVerdict::LeftOut, NamespaceVerdict::Filtered)
    }
}

fn cluster_scoped_filters(document: &ClusterScopedDocument) -> Result<FiltersByKind, PolicyError> {
    let place = "clusterScopedFilterPolicy";
    if document.resource_filters.is_empty() {
        return Err(invalid(format!(
            "{place}: resourceFilters cannot be empty; remove the policy block entirely if it is not needed"
        )));
    }
    if let Some(index) = document.resource_filters.iter().position(ResourceFilterDocument::is_catch_all) {
        return Err(invalid(format!(
            "{place}.resourceFilters[{index}]: kinds must be specified (catch-all is not supported)"
        )));
    }
    filters_by_kind(place, &document.resource_filters)
}

fn namespaced_filters(documents: Vec<NamespacedDocument>) -> Result<Vec<NamespacedFilters>, PolicyError> {
    let mut policies = Vec::new();
    let mut seen = BTreeMap::new();
    for (index, document) in documents.into_iter().enumerate() {
        let place = format!("namespacedFilterPolicies[{index}]");
        if document.namespaces.is_empty() {
            return Err(invalid(format!("{place}: at least one namespace must be specified")));
        }
        if document.resource_filters.is_empty() {
            return Err(invalid(format!("{place}: at least one resourceFilter must be specified")));
        }
        let mut namespaces = Vec::new();
        for (position, name) in document.namespaces.into_iter().enumerate() {
            validate_namespace_pattern(&name)
                .map_err(|error| invalid(format!("{place}.namespaces[{position}]: {error}")))?;
            if let Some(first) = seen.insert(name.clone(), index) {
                return Err(invalid(format!(
                    "namespacedFilterPolicies: duplicate namespace pattern '{name}' found in policies [{first} {index}]"
                )));
            }
            let pattern = contains_wildcard(&name).then(|| Wildcard::compile(&name).ok()).flatten();
            namespaces.push((name, pattern));
        }
        policies.push(NamespacedFilters { namespaces, filters: filters_by_kind(&place, &document.resource_filters)? });
    }
    Ok(policies)
}

fn filters_by_kind(place: &str, documents: &[ResourceFilterDocument]) -> Result<FiltersByKind, PolicyError> {
    let mut filters = FiltersByKind::default();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, document) in documents.iter().enumerate() {
        let filter = document.object_filter(&format!("{place}.resourceFilters[{index}]"))?;
        if document.is_catch_all() {
            if filters.catch_all.replace(filter).is_some() {
                return Err(invalid(format!("{place}: only one catch-all resource filter is allowed")));
            }
            continue;
        }
        for kind in &document.kinds {
            if let Some(first) = seen.insert(kind, index) {
                return Err(invalid(format!(
                    "{place}: kind {kind:?} appears in both resourceFilters[{first}] and resourceFilters[{index}]"
                )));
            }
            filters.by_kind.insert(kind.clone(), filter.clone());
        }
    }
    Ok(filters)
}

impl ResourceFilterDocument {
    fn is_catch_all(&self) -> bool {
        self.kinds.is_empty() || self.kinds == ["*"]
    }

    fn object_filter(&self, place: &str) -> Result<ObjectFilter, PolicyError> {
        if self.is_catch_all() && !(self.names.is_empty() && self.excluded_names.is_empty()) {
            return Err(invalid(format!("{place}: names or excludedNames cannot be specified for catch-all filters")));
        }
        let single = self.label_selector.as_ref().and_then(SelectorDocument::constraints);
        if single.is_some() && !self.or_label_selectors.is_empty() {
            return Err(invalid(format!("{place}: labelSelector and orLabelSelectors cannot co-exist")));
        }
        let any_of: Vec<_> = self.or_label_selectors.iter().filter_map(SelectorDocument::constraints).collect();
        let selectors = SelectorSet::new(single.as_ref(), &any_of)
            .map_err(|error| invalid(format!("{place}: invalid label selector: {error}")))?;
        for pattern in self.names.iter().chain(&self.excluded_names) {
            Wildcard::compile(pattern)
                .map_err(|error| invalid(format!("{place}: invalid glob pattern {pattern:?}: {error}")))?;
        }
        Ok(ObjectFilter { selectors, names: IncludesExcludes::new(&self.names, &self.excluded_names) })
    }
}

impl SelectorDocument {
    /// Gives the selector, unless it is empty, which counts as absent.
    fn constraints(&self) -> Option<LabelSelector> {
        let expressions = self.match_expressions.iter().flatten().map(|expression| LabelSelectorRequirement {
            key: expression.key.clone(),
            operator: expression.operator.clone(),
            values: expression.values.clone(),
        });
        let selector = LabelSelector {
            match_labels: self.match_labels.clone().filter(|labels| !labels.is_empty()),
            match_expressions: Some(expressions.collect::<Vec<_>>()).filter(|list| !list.is_empty()),
        };
        (selector != LabelSelector::default()).then_some(selector)
    }
}

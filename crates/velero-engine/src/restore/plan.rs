//! The plan: which items, in which order, into which namespaces. Made before the first write.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

pub(super) use velero_api::type_names::{CUSTOM_RESOURCE_DEFINITIONS as DEFINITIONS, NAMESPACES};
use velero_api::v1::RestoreSpec;
use velero_cluster::Discovery;
use velero_rules::includes_excludes::NamespaceFilter;
use velero_rules::ordering::Priorities;

use super::RestoreError;
use super::contents::{Contents, Items, Stored};
use super::selection::Selection;

/// The types that make the API server ask somebody, or apply rules, before it takes an object.
const ADMISSION: [&str; 6] = [
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
];

/// Whether objects of a type can make the API server refuse others.
pub(super) fn is_admission(resource: &str) -> bool {
    ADMISSION.contains(&resource)
}

/// All that a restore will do, as far as the archive can tell.
pub(super) struct Plan {
    /// Types in the order they are restored; namespaces are not among them.
    pub steps: Vec<Step>,
    /// The namespaces to make sure of, by the name they will have, with the one they have in the backup.
    pub namespaces: BTreeMap<String, String>,
    /// Pods and jobs that are left out because their work is done, by type and number.
    pub completed: Vec<(Arc<str>, u32)>,
    /// Which namespaces and cluster-scoped items may be restored.
    pub scope: Scope,
}

/// The items of one type.
pub(super) struct Step {
    pub resource: Arc<str>,
    /// The numbers that the items have among the contents.
    pub items: Vec<u32>,
}

/// An item to restore. Namespace and name are those of the backup.
#[derive(Clone, Copy)]
pub(super) struct PlannedItem<'a> {
    pub namespace: Option<&'a str>,
    pub name: &'a str,
    pub stored: Stored,
}

impl Step {
    /// The items, from the contents that the plan was made of.
    pub(super) fn items<'a>(&'a self, contents: &'a Contents) -> impl Iterator<Item = PlannedItem<'a>> + 'a {
        let items = contents.of_type(&self.resource);
        self.items.iter().filter_map(move |number| {
            let item = items?.get(*number);
            Some(PlannedItem { namespace: item.namespace, name: item.name, stored: item.value })
        })
    }
}

impl Plan {
    /// How many items there are, namespaces included.
    pub(super) fn total(&self) -> usize {
        self.namespaces.len() + self.steps.iter().map(|step| step.items.len()).sum::<usize>()
    }

    /// Chooses among the items of an archive and puts them in order.
    pub(super) fn new(
        contents: &Contents,
        selection: &Selection,
        spec: &RestoreSpec,
        priorities: &Priorities,
        discovery: &Discovery,
    ) -> Result<Self, RestoreError> {
        let scope = Scope::new(contents, spec)?;
        let mut plan = Self { steps: Vec::new(), namespaces: BTreeMap::new(), completed: Vec::new(), scope };
        let resolve = |name: &str| discovery.resolve(name).map(|found| found.group_resource());
        let types = contents.types().keys().map(AsRef::as_ref);
        for resource in admission_last(definitions_first(priorities.order(types, resolve))) {
            if let Some(items) = contents.of_type(&resource).filter(|_| selection.takes_type(&resource)) {
                plan.add_type(&resource.into(), items);
            }
        }
        Ok(plan)
    }

    fn add_type(&mut self, resource: &Arc<str>, items: &Items) {
        let mut step = Step { resource: Arc::clone(resource), items: Vec::new() };
        // Two namespaces may be mapped to one: the first item of a name wins.
        let mut taken = self.scope.merges(items.namespaces()).then(HashSet::new);
        for number in items.sorted(|stored| stored.selected) {
            let item = items.get(number);
            let in_scope = Selection::always_takes(resource) && item.namespace.is_some();
            if !in_scope && !self.scope.plans(item.namespace) {
                continue;
            }
            if &**resource == NAMESPACES {
                self.add_namespace(item.name);
                continue;
            }
            // What is never made needs no namespace: that of the server may have had another name.
            if let Some(namespace) = item.namespace.filter(|_| !Selection::is_work(resource)) {
                self.add_namespace(namespace);
            }
            let target = || item.namespace.map(|namespace| self.scope.target(namespace).to_owned());
            if item.value.completed {
                self.completed.push((Arc::clone(resource), number));
            } else if taken.as_mut().is_none_or(|taken| taken.insert((target(), item.name))) {
                step.items.push(number);
            }
        }
        if !step.items.is_empty() {
            step.items.shrink_to_fit();
            self.steps.push(step);
        }
    }

    fn add_namespace(&mut self, original: &str) {
        let target = self.scope.target(original);
        if !self.namespaces.contains_key(target) {
            self.namespaces.insert(target.to_owned(), original.to_owned());
        }
    }
}

/// Definitions come first whatever the priorities say: no custom resource can be written before them.
fn definitions_first(mut order: Vec<String>) -> Vec<String> {
    if let Some(position) = order.iter().position(|resource| resource == DEFINITIONS) {
        order[..=position].rotate_right(1);
    }
    order
}

/// Admission comes last whatever the priorities say: its webhooks are served by pods that come with the restore, and
/// until these run it refuses what it guards.
fn admission_last(order: Vec<String>) -> Vec<String> {
    let (admission, mut order): (Vec<_>, Vec<_>) = order.into_iter().partition(|resource| is_admission(resource));
    let last = ADMISSION.into_iter().filter(|resource| admission.iter().any(|found| found == resource));
    order.extend(last.map(str::to_owned));
    order
}

/// Which namespaces and cluster-scoped items may be restored, and what becomes of a namespace's name.
pub(super) struct Scope {
    namespaces: NamespaceFilter,
    include_cluster: Option<bool>,
    mapping: BTreeMap<String, String>,
}

impl Scope {
    fn new(contents: &Contents, spec: &RestoreSpec) -> Result<Self, RestoreError> {
        let existing: BTreeSet<&str> =
            contents.types().values().flat_map(BTreeMap::values).flat_map(Items::namespaces).collect();
        let existing: Vec<String> = existing.into_iter().map(str::to_owned).collect();
        let filter = NamespaceFilter::expand(&spec.included_namespaces, &spec.excluded_namespaces, &existing);
        Ok(Self {
            namespaces: filter.map_err(|error| {
                RestoreError::Request(format!("includedNamespaces or excludedNamespaces of the restore: {error}"))
            })?,
            include_cluster: spec.include_cluster_resources,
            mapping: spec.namespace_mapping.clone(),
        })
    }

    /// The name a namespace of the backup will have.
    pub(super) fn target<'a>(&'a self, namespace: &'a str) -> &'a str {
        self.mapping.get(namespace).map_or(namespace, String::as_str)
    }

    /// Whether two of these namespaces get the same name.
    fn merges<'a>(&self, namespaces: impl Iterator<Item = &'a str>) -> bool {
        let mut targets = HashSet::new();
        namespaces.into_iter().any(|namespace| !targets.insert(self.target(namespace).to_owned()))
    }

    /// Whether an item of this namespace of the backup, or a cluster-scoped one, is planned.
    fn plans(&self, namespace: Option<&str>) -> bool {
        match namespace {
            Some(namespace) => self.namespaces.should_include(namespace),
            None => match self.include_cluster {
                Some(include) => include,
                None => self.takes_all_namespaces(),
            },
        }
    }

    /// Whether an item that an action asks for may come along: cluster-scoped ones unless they were ruled out.
    pub(super) fn admits(&self, namespace: Option<&str>) -> bool {
        match namespace {
            Some(namespace) => self.namespaces.should_include(namespace),
            None => self.include_cluster != Some(false),
        }
    }

    fn takes_all_namespaces(&self) -> bool {
        let lists = self.namespaces.lists();
        lists.include_everything() && !(self.namespaces.is_expanded() && lists.includes.is_empty())
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

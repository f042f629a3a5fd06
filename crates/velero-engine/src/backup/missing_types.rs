//! Types that a backup asks for and does not get: names that mean nothing, and groups that cannot be asked.

use velero_cluster::{Discovery, Loss, UnansweredGroup};
use velero_rules::resource_filter::{ResourceFilter, is_never_listed};

use super::BackupRequest;
use crate::Journal;
use crate::journal::Level;
use crate::type_names::{Meaning, NamedType, meaning, names_group};

const REPAIR: &str = "repair or delete the APIService, or exclude its types, and back up again";

/// Tells what will be missing, before the first item.
pub(super) fn report(request: &BackupRequest, filter: &ResourceFilter, journal: &Journal) {
    let discovery = &request.discovery;
    let included = Included::of(request);
    for problem in included.all().filter_map(|(named, namespaced)| problem(discovery, named, namespaced)) {
        journal.warning().message(&problem);
    }
    for key in request.backup.spec.ordered_resources.keys() {
        if !discovery.all_versions().any(|found| found.plural == *key) {
            let text = "is not the plural name of a type that the cluster serves, so nothing is put in order by it";
            journal.warning().message(&format!("spec.orderedResources: {key:?} {text}"));
        }
    }
    for named in excluded(request).filter(|named| meaning(discovery, named.name) == Meaning::Nothing) {
        journal.info().message(&format!("{}: {:?} names no type that the cluster serves", named.field, named.name));
    }
    for silent in discovery.unanswered() {
        match verdict(discovery, silent, filter, &included) {
            Some((Level::Error, text)) => journal.error().message(&text),
            Some((_, text)) => journal.warning().message(&text),
            None => {}
        }
    }
}

/// The names of types to take, by the scope their fields are about.
#[derive(Default)]
struct Included<'a> {
    any: Vec<NamedType<'a>>,
    cluster_scoped: Vec<NamedType<'a>>,
    namespaced: Vec<NamedType<'a>>,
}

impl<'a> Included<'a> {
    fn of(request: &'a BackupRequest) -> Self {
        let spec = &request.asked;
        let mut included = Self::default();
        included.any.extend(NamedType::list("spec.includedResources", &spec.included_resources));
        let (cluster_scoped, namespaced) =
            (&spec.included_cluster_scoped_resources, &spec.included_namespace_scoped_resources);
        included.cluster_scoped.extend(NamedType::list("spec.includedClusterScopedResources", cluster_scoped));
        included.namespaced.extend(NamedType::list("spec.includedNamespaceScopedResources", namespaced));
        if let Some(policies) = &request.policies {
            let [cluster_scoped, namespaced] = policies.filters.kinds();
            let named = |field| move |name| NamedType { field, name };
            included.cluster_scoped.extend(cluster_scoped.into_iter().map(named("clusterScopedFilterPolicy")));
            included.namespaced.extend(namespaced.into_iter().map(named("namespacedFilterPolicies")));
        }
        if let Some(lists) = request.policies.as_ref().and_then(|policies| policies.include_exclude.as_ref()) {
            let cluster_scoped = &lists.included_cluster_scoped_resources;
            let field = "includeExcludePolicy.includedClusterScopedResources";
            included.cluster_scoped.extend(NamedType::list(field, cluster_scoped));
            let field = "includeExcludePolicy.includedNamespaceScopedResources";
            included.namespaced.extend(NamedType::list(field, &lists.included_namespace_scoped_resources));
        }
        included
    }

    /// All names, with whether their field is about namespaced types if it is about one scope.
    fn all(&self) -> impl Iterator<Item = (&NamedType<'a>, Option<bool>)> {
        let any = self.any.iter().map(|named| (named, None));
        let cluster_scoped = self.cluster_scoped.iter().map(|named| (named, Some(false)));
        any.chain(cluster_scoped).chain(self.namespaced.iter().map(|named| (named, Some(true))))
    }
}

fn excluded(request: &BackupRequest) -> impl Iterator<Item = NamedType<'_>> {
    let spec = &request.asked;
    NamedType::list("spec.excludedResources", &spec.excluded_resources)
        .chain(NamedType::list("spec.excludedClusterScopedResources", &spec.excluded_cluster_scoped_resources))
        .chain(NamedType::list("spec.excludedNamespaceScopedResources", &spec.excluded_namespace_scoped_resources))
}

/// What is wrong with a name that a field gives. What is out of reach is told of its group.
fn problem(discovery: &Discovery, named: &NamedType<'_>, namespaced: Option<bool>) -> Option<String> {
    let reason = match meaning(discovery, named.name) {
        Meaning::Pattern | Meaning::OutOfReach(_) => return None,
        Meaning::Nothing if discovery.unanswered().iter().any(|silent| silent.loss() == Loss::Unknown) => {
            "names no type that the cluster serves; check the spelling, and the API groups that do not answer"
                .to_owned()
        }
        Meaning::Nothing => {
            "names no type that the cluster serves; check the spelling, or install what serves it".to_owned()
        }
        Meaning::Served(found) if namespaced.is_some_and(|namespaced| namespaced != found.namespaced) => {
            let scope = if found.namespaced { "namespaced" } else { "cluster-scoped" };
            format!("has no effect there: {} are {scope}", found.group_resource())
        }
        Meaning::Served(found) if is_never_listed(&found.group_resource()) => {
            "adds nothing: snapshots are in a backup only with the volumes they belong to".to_owned()
        }
        Meaning::Served(found) if !found.can_be_backed_up() => {
            let name = found.group_resource();
            format!("cannot be backed up: {name} cannot be listed, read, created and deleted")
        }
        Meaning::Served(_) => return None,
    };
    Some(format!("{}: {:?} {reason}", named.field, named.name))
}

/// What a group that does not answer means for a backup.
fn verdict(
    discovery: &Discovery,
    silent: &UnansweredGroup,
    filter: &ResourceFilter,
    included: &Included<'_>,
) -> Option<(Level, String)> {
    match silent.loss() {
        Loss::Nothing => None,
        Loss::Types(types) => {
            let wanted = types.iter().filter(|found| filter.should_include(&found.group_resource(), found.namespaced));
            let wanted: Vec<String> = wanted.map(|found| found.group_resource()).collect();
            if !wanted.is_empty() {
                let text = format!("{silent}: {} are not in the backup; {REPAIR}", wanted.join(", "));
                return Some((Level::Error, text));
            }
            let barred = |name: &str, namespaced| filter.should_exclude_as_additional_item(name, namespaced);
            let is_excluded = types.iter().all(|found| barred(&found.group_resource(), found.namespaced));
            (!is_excluded).then(|| (Level::Warning, format!("{silent}: the filters leave its types out")))
        }
        Loss::Unknown => {
            let is_meant = |name: &str| discovery.resolve(name).is_none() && names_group(name, silent);
            let named = included.all().map(|(named, _)| named).find(|named| is_meant(named.name));
            if let Some(NamedType { field, name }) = named {
                let text = format!("{silent}: {field} names {name:?}, which is not in the backup; {REPAIR}");
                return Some((Level::Error, text));
            }
            let is_excluded = filter.excludes_group(&silent.group);
            (!is_excluded).then(|| (Level::Warning, format!("{silent}: what it serves is not in the backup; {REPAIR}")))
        }
    }
}

#[cfg(test)]
#[path = "missing_types_tests.rs"]
mod tests;

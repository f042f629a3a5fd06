//! Which resource types a backup takes.
//!
//! A backup uses one of two families of fields. The older one has one pair of lists for all types and a switch for
//! cluster-scoped ones. The newer one has a pair of lists for each scope; it also serves a backup without any filter.

use velero_api::type_names::{NAMESPACES, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS};
use velero_api::v1::BackupSpec;

use crate::includes_excludes::{
    IncludesExcludes, NamespaceFilter, PatternSet, validate_includes_excludes, validate_scoped_includes_excludes,
};
use crate::resource_policies::IncludeExcludePolicy;

/// Snapshots enter a backup with the volumes they belong to, never by listing.
const ALWAYS_EXCLUDED_NAMESPACED: &str = VOLUME_SNAPSHOTS;
const ALWAYS_EXCLUDED_CLUSTER_SCOPED: &str = VOLUME_SNAPSHOT_CONTENTS;

/// A resource type the cluster serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceType {
    /// The plural name with its group, such as `deployments.apps`, or `pods` for the core group.
    pub name: String,
    /// Whether objects of this type live in a namespace.
    pub namespaced: bool,
}

/// The resource filter of one backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceFilter {
    /// `includedResources`, `excludedResources` and `includeClusterResources`.
    Global {
        /// The lists for all types.
        resources: IncludesExcludes,
        /// Whether cluster-scoped types are taken; unset means only with all namespaces.
        include_cluster_resources: Option<bool>,
        /// Whether the backup takes all namespaces.
        all_namespaces: bool,
    },
    /// The lists for each scope.
    Scoped {
        /// The lists for namespaced types.
        namespaced: IncludesExcludes,
        /// The lists for cluster-scoped types.
        cluster_scoped: IncludesExcludes,
        /// Whether neither the backup nor a policy leaves anything out, so that all cluster-scoped types are taken.
        unfiltered: bool,
    },
}

/// A policy that cannot be used with this filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\nThey cannot be used with include-exclude policies."
)]
pub struct PolicyNotApplicable;

/// Says whether a type enters a backup only with the volumes its objects belong to.
pub fn is_never_listed(type_name: &str) -> bool {
    [ALWAYS_EXCLUDED_NAMESPACED, ALWAYS_EXCLUDED_CLUSTER_SCOPED].contains(&type_name)
}

/// Says whether a backup uses the older family of fields.
pub fn uses_old_filters(spec: &BackupSpec) -> bool {
    spec.include_cluster_resources.is_some()
        || !spec.included_resources.is_empty()
        || !spec.excluded_resources.is_empty()
}

fn uses_new_filters(spec: &BackupSpec) -> bool {
    [
        &spec.included_cluster_scoped_resources,
        &spec.excluded_cluster_scoped_resources,
        &spec.included_namespace_scoped_resources,
        &spec.excluded_namespace_scoped_resources,
    ]
    .into_iter()
    .any(|list| !list.is_empty())
}

impl ResourceFilter {
    /// Builds the filter of a backup from what the user wrote, before the server has completed it: what the server
    /// adds is no choice of the user. The types that are never listed are left out here too.
    ///
    /// `resolve` turns a name as the user wrote it into a type the cluster serves. A name it does not know is kept
    /// literally; in the newer family a name of the other scope is dropped.
    pub fn from_backup_spec(
        spec: &BackupSpec,
        namespaces: &NamespaceFilter,
        resolve: impl Fn(&str) -> Option<ResourceType>,
    ) -> Self {
        let all_namespaces = namespaces.include_everything();
        if uses_old_filters(spec) {
            let by_name = |name: &str| resolve(name).map(|found| found.name);
            let (included, excluded) = (&spec.included_resources, &spec.excluded_resources);
            let mut resources = IncludesExcludes::of_resources(included, excluded, by_name);
            resources.excludes.insert(ALWAYS_EXCLUDED_NAMESPACED);
            resources.excludes.insert(ALWAYS_EXCLUDED_CLUSTER_SCOPED);
            return Self::Global {
                resources,
                include_cluster_resources: spec.include_cluster_resources,
                all_namespaces,
            };
        }
        let list = |names: &[String], namespaced| {
            names.iter().filter_map(|name| resolve_in_scope(name, namespaced, &resolve)).collect::<PatternSet>()
        };
        let mut namespaced = IncludesExcludes {
            includes: list(&spec.included_namespace_scoped_resources, true),
            excludes: list(&spec.excluded_namespace_scoped_resources, true),
        };
        let mut cluster_scoped = IncludesExcludes {
            includes: list(&spec.included_cluster_scoped_resources, false),
            excludes: list(&spec.excluded_cluster_scoped_resources, false),
        };
        namespaced.excludes.insert(ALWAYS_EXCLUDED_NAMESPACED);
        cluster_scoped.excludes.insert(ALWAYS_EXCLUDED_CLUSTER_SCOPED);
        Self::Scoped { namespaced, cluster_scoped, unfiltered: all_namespaces && has_no_resource_filter(spec) }
    }

    /// Says whether objects of a type are listed for the backup.
    pub fn should_include(&self, type_name: &str, namespaced: bool) -> bool {
        match self {
            Self::Global { resources, include_cluster_resources, all_namespaces } => {
                let gate_open = namespaced
                    || match include_cluster_resources {
                        Some(included) => *included,
                        None => *all_namespaces || type_name == NAMESPACES,
                    };
                gate_open && resources.should_include(type_name)
            }
            Self::Scoped { namespaced: lists, .. } if namespaced => lists.should_include(type_name),
            Self::Scoped { cluster_scoped, unfiltered, .. } => {
                !cluster_scoped.excludes.matches(type_name)
                    && (*unfiltered || type_name == NAMESPACES || cluster_scoped.includes.matches(type_name))
            }
        }
    }

    /// Says whether an object that an action asks for is still kept out by its type.
    pub fn should_exclude_as_additional_item(&self, type_name: &str, namespaced: bool) -> bool {
        match self {
            Self::Global { resources, include_cluster_resources, .. } => {
                let gate_closed = !namespaced
                    && match include_cluster_resources {
                        Some(included) => !included,
                        None => !resources.should_include(type_name),
                    };
                resources.excludes.matches(type_name) || gate_closed
            }
            Self::Scoped { namespaced: lists, .. } if namespaced => lists.excludes.matches(type_name),
            Self::Scoped { cluster_scoped, .. } => cluster_scoped.excludes.matches(type_name),
        }
    }

    /// Says whether every type of a group is left out by name, whatever the group serves.
    pub fn excludes_group(&self, group: &str) -> bool {
        // A pattern that matches this name matches any type of the group.
        let any = format!("\u{2731}\u{2731}\u{2731}.{group}");
        match self {
            Self::Global { resources, .. } => resources.excludes.matches(&any),
            Self::Scoped { namespaced, cluster_scoped, .. } => {
                namespaced.excludes.matches(&any) && cluster_scoped.excludes.matches(&any)
            }
        }
    }

    /// Adds the include-exclude part of a resource policy. What the backup itself decides wins.
    pub fn merge_policy(
        &mut self,
        policy: &IncludeExcludePolicy,
        resolve: impl Fn(&str) -> Option<ResourceType>,
    ) -> Result<(), PolicyNotApplicable> {
        let Self::Scoped { namespaced, cluster_scoped, unfiltered } = self else {
            return Err(PolicyNotApplicable);
        };
        let in_scope = |names: &[String], scope| {
            names.iter().filter_map(|name| resolve_in_scope(name, scope, &resolve)).collect::<Vec<_>>()
        };
        let before = (namespaced.clone(), cluster_scoped.clone());
        add_undecided(
            namespaced,
            in_scope(&policy.excluded_namespace_scoped_resources, true),
            in_scope(&policy.included_namespace_scoped_resources, true),
        );
        add_undecided(
            cluster_scoped,
            in_scope(&policy.excluded_cluster_scoped_resources, false),
            in_scope(&policy.included_cluster_scoped_resources, false),
        );
        *unfiltered &= before == (namespaced.clone(), cluster_scoped.clone());
        Ok(())
    }
}

fn resolve_in_scope(name: &str, namespaced: bool, resolve: impl Fn(&str) -> Option<ResourceType>) -> Option<String> {
    if name == "*" {
        return Some(name.to_owned());
    }
    match resolve(name) {
        None => Some(name.to_owned()),
        Some(found) => (found.namespaced == namespaced).then_some(found.name),
    }
}

fn add_undecided(lists: &mut IncludesExcludes, excludes: Vec<String>, includes: Vec<String>) {
    let is_open = |lists: &IncludesExcludes, name: &str| !lists.includes.matches(name) && !lists.excludes.matches(name);
    for name in excludes {
        if is_open(lists, &name) {
            lists.excludes.insert(name);
        }
    }
    for name in includes {
        if is_open(lists, &name) {
            lists.includes.insert(name);
        }
    }
}

/// The excludes that every backup gets must not look like a choice of the user, also where a completed backup is
/// created again.
fn has_no_resource_filter(spec: &BackupSpec) -> bool {
    let none_but = |list: &[String], own: &str| list.iter().all(|name| name == own);
    spec.included_cluster_scoped_resources.is_empty()
        && none_but(&spec.excluded_cluster_scoped_resources, ALWAYS_EXCLUDED_CLUSTER_SCOPED)
        && none_but(&spec.included_namespace_scoped_resources, "*")
        && none_but(&spec.excluded_namespace_scoped_resources, ALWAYS_EXCLUDED_NAMESPACED)
}

/// Lists what is wrong with the resource filters of a backup, and adds the types that are never listed to the excludes
/// of every pair of lists that is valid.
pub fn validate_and_complete(spec: &mut BackupSpec) -> Vec<String> {
    let mut problems = Vec::new();
    if uses_old_filters(spec) && uses_new_filters(spec) {
        problems.push(MIXED_FAMILIES.to_owned());
    }
    if uses_old_filters(spec) {
        let found = validate_includes_excludes(&spec.included_resources, &spec.excluded_resources);
        if found.is_empty() {
            let added = [ALWAYS_EXCLUDED_NAMESPACED, ALWAYS_EXCLUDED_CLUSTER_SCOPED];
            exclude(&mut spec.included_resources, &mut spec.excluded_resources, &added);
        }
        problems.extend(found.iter().map(|problem| format!("Invalid included/excluded resource lists: {problem}")));
        return problems;
    }
    let pairs = [
        (
            "cluster-scoped",
            &mut spec.included_cluster_scoped_resources,
            &mut spec.excluded_cluster_scoped_resources,
            ALWAYS_EXCLUDED_CLUSTER_SCOPED,
        ),
        (
            "namespace-scoped",
            &mut spec.included_namespace_scoped_resources,
            &mut spec.excluded_namespace_scoped_resources,
            ALWAYS_EXCLUDED_NAMESPACED,
        ),
    ];
    for (scope, includes, excludes, added) in pairs {
        let found = validate_scoped_includes_excludes(includes, excludes);
        if found.is_empty() {
            exclude(includes, excludes, &[added]);
        }
        let prefixed = |problem| format!("Invalid {scope} included/excluded resource lists: {problem}");
        problems.extend(found.into_iter().map(prefixed));
    }
    problems
}

const MIXED_FAMILIES: &str = "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\n\
    include-cluster-scoped-resources, exclude-cluster-scoped-resources, include-namespace-scoped-resources and exclude-namespace-scoped-resources are new filter parameters.\n\
    They cannot be used together";

fn exclude(includes: &mut Vec<String>, excludes: &mut Vec<String>, added: &[&str]) {
    for name in added {
        if !excludes.iter().any(|excluded| excluded == name) {
            excludes.push((*name).to_owned());
        }
    }
    includes.retain(|name| !excludes.contains(name));
}

#[cfg(test)]
mod tests;

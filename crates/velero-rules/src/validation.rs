//! Whether a backup can be carried out, in the words Velero uses in `status.validationErrors`.

use std::collections::BTreeMap;

use velero_api::v1::BackupSpec;

use crate::Unusable;
use crate::includes_excludes::{listed_twice, validate_namespace_includes_excludes};
use crate::resource_filter::{PolicyNotApplicable, uses_old_filters, validate_and_complete};
use crate::resource_policies::ResourcePolicies;
use crate::selector::SelectorSet;

/// What is known of the storage location of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageLocationFacts {
    /// It was found.
    Found {
        /// Whether it must not be written to.
        read_only: bool,
        /// Whether its phase is Available.
        available: bool,
    },
    /// There is none of that name.
    NotFound {
        /// Whether the server chose the name because the backup has none.
        chosen_by_server: bool,
        /// What the API server says.
        error: String,
    },
    /// It could not be read.
    Unreadable {
        /// What the API server says.
        error: String,
    },
}

/// What a backup is validated against.
#[derive(Debug, Clone)]
pub struct BackupFacts<'a> {
    /// The storage location named in the spec.
    pub storage_location: StorageLocationFacts,
    /// The namespaces that carry the label `velero.io/exclude-from-backup=true`.
    pub namespaces_labelled_out: &'a [String],
    /// The policy document of the backup, or why it cannot be used.
    pub policies: Result<Option<&'a ResourcePolicies>, Unusable>,
}

/// Completes the filters of a backup and lists what is wrong with it. An empty list means that it may run.
///
/// Completing adds the namespaces that are labelled out, the types that are never listed, and `*` for all namespaces.
/// `spec.storageLocation` must name the location already.
pub fn complete_and_validate(spec: &mut BackupSpec, facts: &BackupFacts<'_>) -> Vec<String> {
    let mut problems = storage_location_problems(&spec.storage_location, &facts.storage_location);
    let by_user = spec.excluded_namespaces.clone();
    let by_label = facts.namespaces_labelled_out.iter().filter(|namespace| !by_user.contains(namespace));
    spec.excluded_namespaces.extend(by_label.clone().cloned());
    problems.extend(validate_and_complete(spec));
    if spec.included_namespaces.is_empty() {
        spec.included_namespaces.push("*".to_owned());
    }
    let namespaces = validate_namespace_includes_excludes(&spec.included_namespaces, &spec.excluded_namespaces);
    problems.extend(namespaces.iter().map(|found| {
        let label = by_label.clone().find(|namespace| *found == listed_twice(namespace)).map(|_| LABELLED_OUT);
        format!("Invalid included/excluded namespace lists: {found}{}", label.unwrap_or_default())
    }));
    problems.extend(selector_problems(spec));
    problems.extend(policy_problems(spec, &facts.policies));
    problems
}

/// Why a namespace is among the excludes that the user did not put there, and what to do.
const LABELLED_OUT: &str = ": its label velero.io/exclude-from-backup=true excludes it; remove the label, or do not \
    include the namespace";

fn storage_location_problems(name: &str, facts: &StorageLocationFacts) -> Vec<String> {
    match facts {
        StorageLocationFacts::Found { read_only, available } => {
            let read_only = read_only.then(|| {
                format!("backup can't be created because backup storage location {name} is currently in read-only mode")
            });
            let unavailable = (!available).then(|| {
                format!("backup can't be created because BackupStorageLocation {name} is in Unavailable status.")
            });
            read_only.into_iter().chain(unavailable).collect()
        }
        StorageLocationFacts::NotFound { chosen_by_server, error } => {
            let missing = match chosen_by_server {
                true => format!("the server default {name} does not exist"),
                false => format!("the default {name} was not found"),
            };
            vec![format!(
                "an existing backup storage location was not specified at backup creation time and {missing}. \
                 Please address this issue (see `velero backup-location -h` for options) and create a new backup. \
                 Error: {error}"
            )]
        }
        StorageLocationFacts::Unreadable { error } => {
            vec![format!("error getting backup storage location: {error}")]
        }
    }
}

fn selector_problems(spec: &BackupSpec) -> Vec<String> {
    if spec.label_selector.is_some() && !spec.or_label_selectors.is_empty() {
        return vec![
            "encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified"
                .to_owned(),
        ];
    }
    let built = SelectorSet::new(spec.label_selector.as_ref(), &spec.or_label_selectors);
    built.err().map(|error| format!("invalid label selector: {error}")).into_iter().collect()
}

fn policy_problems(spec: &BackupSpec, policies: &Result<Option<&ResourcePolicies>, Unusable>) -> Vec<String> {
    let policies = match policies {
        Err(reason) => return vec![format!("invalid resource policies: {reason}")],
        Ok(Some(policies)) if uses_old_filters(spec) => policies,
        Ok(_) => return Vec::new(),
    };
    let lists = policies.include_exclude.is_some().then(|| PolicyNotApplicable.to_string());
    let filters = (!policies.filters.is_empty()).then(|| {
        "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\n\
         They cannot be used with namespace-scoped or fine-grained global filter policies."
            .to_owned()
    });
    lists.into_iter().chain(filters).collect()
}

/// A volume snapshot location, as far as choosing one is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotLocation {
    /// Its name.
    pub name: String,
    /// Its provider.
    pub provider: String,
}

/// Chooses one volume snapshot location for each provider, or lists why that is not possible.
///
/// What the backup names comes first. A provider it does not name uses its only location, or the default of the server.
pub fn choose_snapshot_locations(
    requested: &[String],
    existing: &[SnapshotLocation],
    defaults: &BTreeMap<String, String>,
) -> Result<Vec<String>, Vec<String>> {
    let mut chosen: BTreeMap<&str, &str> = BTreeMap::new();
    let mut problems = Vec::new();
    for name in requested {
        let Some(location) = existing.iter().find(|location| location.name == *name) else {
            problems.push(format!(
                "a VolumeSnapshotLocation CRD for the location {name} with the name specified in the backup spec \
                 needs to be created before this snapshot can be executed. \
                 Error: volumesnapshotlocations.velero.io {name:?} not found"
            ));
            continue;
        };
        let provider = location.provider.as_str();
        let first = *chosen.entry(provider).or_insert(name);
        if first != name {
            problems.push(format!(
                "more than one VolumeSnapshotLocation name specified for provider {provider}: {name}; \
                 unexpected name was {first}"
            ));
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    for location in existing {
        let provider = location.provider.as_str();
        if chosen.contains_key(provider) {
            continue;
        }
        match location_of_provider(provider, existing, defaults) {
            Ok(name) => drop(chosen.insert(provider, name)),
            Err(problem) if !problems.contains(&problem) => problems.push(problem),
            Err(_) => {}
        }
    }
    if problems.is_empty() { Ok(chosen.into_values().map(str::to_owned).collect()) } else { Err(problems) }
}

fn location_of_provider<'a>(
    provider: &str,
    existing: &'a [SnapshotLocation],
    defaults: &'a BTreeMap<String, String>,
) -> Result<&'a str, String> {
    let mut of_provider = existing.iter().filter(|location| location.provider == provider);
    if let (Some(only), None) = (of_provider.next(), of_provider.next()) {
        return Ok(&only.name);
    }
    let Some(default) = defaults.get(provider) else {
        return Err(format!(
            "provider {provider} has more than one possible volume snapshot location, and none were specified \
             explicitly or as a default"
        ));
    };
    let found = existing.iter().find(|location| location.name == *default);
    found
        .map(|location| location.name.as_str())
        .ok_or_else(|| format!("error getting volume snapshot location named {default}: not found"))
}

#[cfg(test)]
mod tests;

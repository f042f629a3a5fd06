//! Whether a restore can be carried out, in the words Velero uses in `status.validationErrors`.

use velero_api::labels;
use velero_api::metadata;
use velero_api::v1::{Backup, BackupPhase, ExistingResourcePolicy, RestoreSpec};

use crate::Unusable;
use crate::includes_excludes::validate_includes_excludes;
use crate::resource_modifiers::ResourceModifiers;
use crate::resource_policies::ResourcePolicies;
use crate::restore_hooks::{RestoreHookRules, validate_init_container};
use crate::selector::SelectorSet;
use crate::validation::StorageLocationFacts;
use crate::wildcard::validate_namespace_pattern;

/// The types that no restore brings back: they belong to one cluster, or are made anew by whoever owns them.
pub const NON_RESTORABLE_RESOURCES: [&str; 9] = [
    "nodes",
    "events",
    "events.events.k8s.io",
    "backups.velero.io",
    "restores.velero.io",
    "resticrepositories.velero.io",
    "csinodes.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "backuprepositories.velero.io",
];

/// What is known of the backup that a restore names, itself or through a schedule.
#[derive(Debug, Clone)]
pub enum RestoreSource<'a> {
    /// The restore names no backup and no schedule, or both, so that nothing was looked up.
    NotNamed,
    /// It was found. For a schedule it is the [`newest_completed_backup`].
    Found {
        /// The backup.
        backup: &'a Backup,
        /// Its storage location.
        location: StorageLocationFacts,
    },
    /// The backup could not be read.
    NotFound {
        /// What the API server says.
        error: String,
    },
    /// The backups of the schedule could not be listed.
    ScheduleNotListed,
    /// The schedule has no backup that can be taken.
    NothingOfSchedule {
        /// Whether it has backups that are not Completed.
        has_backups: bool,
    },
}

/// What a restore is validated against.
#[derive(Debug, Clone)]
pub struct RestoreFacts<'a> {
    /// The namespace of the restore.
    pub namespace: &'a str,
    /// The backup to restore from.
    pub source: RestoreSource<'a>,
    /// The resource modifiers of the restore, or the whole message that says why they cannot be used.
    pub modifiers: Result<Option<&'a ResourceModifiers>, Unusable>,
    /// The resource policies of the restore, or why they cannot be used.
    pub policies: Result<Option<&'a ResourcePolicies>, Unusable>,
}

/// Completes a restore and lists what is wrong with it. An empty list means that it may run.
///
/// Completing excludes the types that no restore brings back, and fills in the backup of a schedule or the schedule of
/// a backup.
pub fn complete_and_validate_restore(spec: &mut RestoreSpec, facts: &RestoreFacts<'_>) -> Vec<String> {
    let mut problems = resource_problems(spec);
    problems.extend(namespace_problems(spec));
    problems.extend(selector_problems(spec));
    if spec.backup_name.is_empty() == spec.schedule_name.is_empty() {
        let text = "Either a backup or schedule must be specified as a source for the restore, but not both";
        problems.push(text.to_owned());
        return problems;
    }
    problems.extend(hook_problems(spec));
    problems.extend(existing_resource_policy_problem(spec));
    problems.extend(source_problems(spec, facts));
    problems.extend(policy_problem(spec, &facts.policies));
    problems.extend(modifier_problem(spec, &facts.modifiers));
    problems
}

/// Gives the newest backup that is Completed, by the time it started.
pub fn newest_completed_backup(backups: &[Backup]) -> Option<&Backup> {
    let completed = backups.iter().filter(|backup| *backup.status.phase() == BackupPhase::Completed);
    completed.max_by_key(|backup| backup.status.start_timestamp.as_ref().map(|time| time.0))
}

fn resource_problems(spec: &mut RestoreSpec) -> Vec<String> {
    for resource in NON_RESTORABLE_RESOURCES {
        if !spec.excluded_resources.iter().any(|excluded| excluded == resource) {
            spec.excluded_resources.push(resource.to_owned());
        }
    }
    let included = |resource: &&str| spec.included_resources.iter().any(|included| included == *resource);
    let refused = NON_RESTORABLE_RESOURCES.into_iter().filter(included);
    let refused = refused.map(|resource| format!("{resource} are non-restorable resources"));
    let lists = validate_includes_excludes(&spec.included_resources, &spec.excluded_resources);
    let lists = lists.into_iter().map(|found| format!("Invalid included/excluded resource lists: {found}"));
    refused.chain(lists).collect()
}

fn namespace_problems(spec: &RestoreSpec) -> Vec<String> {
    let (included, excluded) = (&spec.included_namespaces, &spec.excluded_namespaces);
    let patterns = included.iter().chain(excluded).filter_map(|entry| validate_namespace_pattern(entry).err());
    let mut problems = validate_includes_excludes(included, excluded);
    problems.extend(patterns.map(|error| error.to_string()));
    problems.into_iter().map(|found| format!("Invalid included/excluded namespace lists: {found}")).collect()
}

fn selector_problems(spec: &RestoreSpec) -> Option<String> {
    if spec.label_selector.is_some() && !spec.or_label_selectors.is_empty() {
        let text = "encountered labelSelector as well as orLabelSelectors in restore spec, only one can be specified";
        return Some(text.to_owned());
    }
    let built = SelectorSet::new(spec.label_selector.as_ref(), &spec.or_label_selectors);
    built.err().map(|error| format!("invalid label selector: {error}"))
}

fn hook_problems(spec: &RestoreSpec) -> Vec<String> {
    let rules = RestoreHookRules::new(&spec.hooks, |_| None);
    let mut problems: Vec<String> =
        rules.err().map(|error| format!("invalid restore hooks: {error}")).into_iter().collect();
    for group in &spec.hooks.resources {
        let init = group.post_hooks.iter().filter_map(|hook| hook.init.as_ref());
        for container in init.flat_map(|init| &init.init_containers) {
            if let Err(error) = validate_init_container(container) {
                problems.push(format!("invalid init container in restore hook {:?}: {error}", group.name));
            }
        }
    }
    problems
}

fn existing_resource_policy_problem(spec: &RestoreSpec) -> Option<String> {
    match &spec.existing_resource_policy {
        Some(ExistingResourcePolicy::Unknown(text)) if !text.is_empty() => {
            Some(format!("Invalid ExistingResourcePolicy: {text}"))
        }
        _ => None,
    }
}

fn source_problems(spec: &mut RestoreSpec, facts: &RestoreFacts<'_>) -> Vec<String> {
    match &facts.source {
        RestoreSource::NotNamed => Vec::new(),
        RestoreSource::Found { backup, location } => {
            fill_in_names(spec, backup);
            let location = location_problem(&backup.spec.storage_location, location);
            location.into_iter().chain(phase_problem(facts.namespace, &spec.backup_name, backup)).collect()
        }
        RestoreSource::NotFound { error } => {
            let (namespace, name) = (facts.namespace, &spec.backup_name);
            vec![format!("Error retrieving backup: can't find backup {namespace}/{name}: {error}")]
        }
        RestoreSource::ScheduleNotListed => vec!["Unable to list backups for schedule".to_owned()],
        RestoreSource::NothingOfSchedule { has_backups } => {
            let none = (!has_backups).then(|| "No backups found for schedule".to_owned());
            none.into_iter().chain(["No completed backups found for schedule".to_owned()]).collect()
        }
    }
}

fn fill_in_names(spec: &mut RestoreSpec, backup: &Backup) {
    if spec.backup_name.is_empty() {
        spec.backup_name = metadata::name(backup).to_owned();
    }
    if spec.schedule_name.is_empty() {
        let labels = backup.metadata.labels.as_ref();
        spec.schedule_name = labels.and_then(|labels| labels.get(labels::SCHEDULE_NAME)).cloned().unwrap_or_default();
    }
}

fn location_problem(name: &str, location: &StorageLocationFacts) -> Option<String> {
    match location {
        StorageLocationFacts::Found { available: true, .. } => None,
        StorageLocationFacts::Found { available: false, .. } => {
            Some(format!("The BSL {name} is unavailable, cannot retrieve the backup"))
        }
        StorageLocationFacts::NotFound { error, .. } | StorageLocationFacts::Unreadable { error } => {
            Some(format!("Error retrieving backup: {error}"))
        }
    }
}

/// A backup that is not at its end, or never reached it, may hold half of what it should.
fn phase_problem(namespace: &str, name: &str, backup: &Backup) -> Option<String> {
    let phase = backup.status.phase();
    if phase.is_restorable() {
        return None;
    }
    let remedy = match phase {
        BackupPhase::Failed | BackupPhase::FailedValidation | BackupPhase::Deleting | BackupPhase::Unknown(_) => {
            "restore from a backup that is Completed or PartiallyFailed"
        }
        _ => "create the restore again when the backup is Completed or PartiallyFailed",
    };
    Some(format!("backup {namespace}/{name} cannot be restored because its phase is {phase}: {remedy}"))
}

fn policy_problem(spec: &RestoreSpec, policies: &Result<Option<&ResourcePolicies>, Unusable>) -> Option<String> {
    let reason = match (policies, &spec.resource_policy) {
        (Err(reason), _) => reason.to_string(),
        (Ok(Some(policies)), _) => policies.validate_for_restore().err()?.to_string(),
        (Ok(None), Some(reference)) => {
            format!("invalid ResourcePolicy kind {:?}, only \"configmap\" is supported", reference.kind)
        }
        (Ok(None), None) => return None,
    };
    Some(format!("invalid restore resource policies: {reason}"))
}

fn modifier_problem(spec: &RestoreSpec, modifiers: &Result<Option<&ResourceModifiers>, Unusable>) -> Option<String> {
    match (modifiers, &spec.resource_modifier) {
        (Err(message), _) => Some(message.to_string()),
        (Ok(None), Some(reference)) => {
            Some(format!("invalid ResourceModifier kind {:?}, only \"configmap\" is supported", reference.kind))
        }
        (Ok(_), _) => None,
    }
}

#[cfg(test)]
mod tests;

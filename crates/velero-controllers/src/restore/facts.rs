//! Reads what a restore is prepared with.

use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use velero_api::v1::{Backup, BackupStorageLocation, Restore, RestoreSpec};
use velero_api::{FeatureFlags, labels};
use velero_rules::Unusable;
use velero_rules::api_versions::{CONFIG_MAP, CONFIG_MAP_KEY, VersionPriorities, parse_version_priorities};
use velero_rules::resource_modifiers::{ModifierSource, ResourceModifiers};
use velero_rules::resource_policies::ResourcePolicies;

use crate::lifecycle::policies::read_policies;
use crate::restore::resumption::{self, Resumption};
use crate::runtime::error::{Result, describe};
use crate::runtime::objects::Objects;
use crate::runtime::settings::Settings;

/// What is known of the cluster when a restore is prepared.
pub(super) struct Facts {
    /// The backups of the schedule, when the restore names one.
    pub(super) of_schedule: Vec<Backup>,
    /// The backup the restore names, if it exists.
    pub(super) backup: Option<Backup>,
    /// All locations.
    pub(super) locations: Vec<BackupStorageLocation>,
    /// The changes to make to objects, or why they cannot be made.
    pub(super) modifiers: Result<Option<ResourceModifiers>, Unusable>,
    /// The policies of the restore, or why they cannot be used.
    pub(super) policies: Result<Option<ResourcePolicies>, Unusable>,
    /// The restore that it is to go on with, when it names one.
    pub(super) resumption: Option<Resumption>,
}

/// Reads what a restore is prepared with.
pub(super) async fn gather(objects: &Objects, settings: &Settings, restore: &Restore) -> Result<Facts> {
    let spec = &restore.spec;
    let of_schedule = match spec.schedule_name.as_str() {
        "" => Vec::new(),
        schedule => {
            let selector = format!("{}={}", labels::SCHEDULE_NAME, labels::valid_value(schedule));
            objects.list::<Backup>(&selector).await?
        }
    };
    let backup = match spec.backup_name.as_str() {
        "" => None,
        backup => objects.get(backup).await?,
    };
    Ok(Facts {
        of_schedule,
        backup,
        locations: objects.list("").await?,
        modifiers: modifiers(objects, settings, spec).await,
        policies: policies(objects, spec.resource_policy.as_ref()).await,
        resumption: resumption::gather(objects, restore).await?,
    })
}

async fn modifiers(
    objects: &Objects,
    settings: &Settings,
    spec: &RestoreSpec,
) -> Result<Option<ResourceModifiers>, Unusable> {
    match ModifierSource::of(spec, &settings.default_resource_modifier_configmap) {
        ModifierSource::Restore(reference) if is_config_map(reference) => {
            read_modifiers(objects, &reference.name).await.map(Some)
        }
        ModifierSource::Restore(_) | ModifierSource::Nobody => Ok(None),
        ModifierSource::Server(_) => default_modifiers(objects, settings).await,
    }
}

/// The changes that the server makes to the objects of every restore that names none, where there are any, or why they
/// cannot be made.
pub(crate) async fn default_modifiers(
    objects: &Objects,
    settings: &Settings,
) -> Result<Option<ResourceModifiers>, Unusable> {
    let config_map = settings.default_resource_modifier_configmap.as_str();
    if config_map.is_empty() {
        return Ok(None);
    }
    let read = read_modifiers(objects, config_map).await;
    read.map(Some).map_err(|problem| {
        Unusable(format!(
            "--default-resource-modifier-configmap of the server: {problem}; put that right, or leave these changes out with \
             spec.skipDefaultResourceModifier (--skip-default-resource-modifier)"
        ))
    })
}

async fn read_modifiers(objects: &Objects, config_map: &str) -> Result<ResourceModifiers, Unusable> {
    let full_name = format!("{}/{config_map}", objects.namespace());
    let missing = || format!("failed to get resource modifiers configmap {full_name}");
    let found = objects.config_map(config_map).await;
    let found = found
        .map_err(|error| Unusable(format!("{}: {}", missing(), describe(&error))))?
        .ok_or_else(|| Unusable(missing()))?;
    ResourceModifiers::from_config_map(&found.data.unwrap_or_default()).map_err(|error| {
        Unusable(format!("Error in parsing resource modifiers provided in configmap {full_name}: {error}"))
    })
}

async fn policies(
    objects: &Objects,
    reference: Option<&TypedLocalObjectReference>,
) -> Result<Option<ResourcePolicies>, Unusable> {
    match reference {
        Some(reference) if is_config_map(reference) => read_policies(objects, &reference.name).await.map(Some),
        _ => Ok(None),
    }
}

/// What a reference to anything else says is told by the validation.
fn is_config_map(reference: &TypedLocalObjectReference) -> bool {
    reference.kind.eq_ignore_ascii_case("configmap")
}

/// The versions users prefer where a backup holds several.
pub(super) async fn version_priorities(objects: &Objects, features: &FeatureFlags) -> Result<VersionPriorities> {
    if !features.api_group_versions() {
        return Ok(VersionPriorities::default());
    }
    let found = objects.config_map(CONFIG_MAP).await?;
    let text = found.and_then(|found| found.data?.remove(CONFIG_MAP_KEY)).unwrap_or_default();
    let (priorities, problems) = parse_version_priorities(&text);
    for problem in problems {
        tracing::warn!(configmap = CONFIG_MAP, problem, "A preferred API version is not taken into account");
    }
    Ok(priorities)
}

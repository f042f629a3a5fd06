//! The policies that backups and restores refer to.

use velero_api::v1::Backup;
use velero_rules::resource_policies::ResourcePolicies;

use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};
use crate::runtime::objects::Objects;
use crate::runtime::settings::Settings;

/// The policies a backup refers to and, behind them, those that count for every backup, or why they cannot be used.
pub(crate) async fn policies(context: &Context, backup: &Backup) -> Result<Option<ResourcePolicies>, String> {
    let own = own_policies(context, backup).await?;
    let global = global_policies(&context.objects, &context.settings).await;
    let global = global.map_err(|problem| format!("--global-backup-volume-policies-configmap: {problem}"))?;
    let Some(global) = global else { return Ok(own) };
    let mut merged = own.unwrap_or_default();
    merged.append_global(&global);
    Ok(Some(merged))
}

async fn own_policies(context: &Context, backup: &Backup) -> Result<Option<ResourcePolicies>, String> {
    let Some(reference) = &backup.spec.resource_policy else { return Ok(None) };
    if !reference.kind.eq_ignore_ascii_case("configmap") {
        return Err(format!("spec.resourcePolicy.kind is {:?}, only configmap is supported", reference.kind));
    }
    read_policies(&context.objects, &reference.name).await.map(Some)
}

/// The volume policies that count for every backup, where there are any, or why they cannot be used.
pub(crate) async fn global_policies(
    objects: &Objects,
    settings: &Settings,
) -> Result<Option<ResourcePolicies>, String> {
    let config_map = settings.global_backup_volume_policies_configmap.as_str();
    if config_map.is_empty() {
        return Ok(None);
    }
    let found = objects.config_map(config_map).await.map_err(|error| describe(&error))?;
    let namespace = objects.namespace();
    let found = found
        .ok_or_else(|| format!("configmap {config_map:?} does not exist in namespace {namespace:?}; create it"))?;
    let policies = ResourcePolicies::from_config_map(&found.data.unwrap_or_default());
    policies.map(Some).map_err(|error| format!("configmap {config_map:?}: {error}"))
}

/// The policies of a ConfigMap, or why they cannot be used.
pub(crate) async fn read_policies(objects: &Objects, config_map: &str) -> Result<ResourcePolicies, String> {
    let namespace = objects.namespace();
    let found = objects.config_map(config_map).await.map_err(|error| describe(&error))?;
    let found = found.ok_or_else(|| {
        format!(
            "configmap {config_map:?} does not exist in namespace {namespace:?}; create it or change \
             spec.resourcePolicy"
        )
    })?;
    let policies = ResourcePolicies::from_config_map(&found.data.unwrap_or_default());
    policies.map_err(|error| format!("configmap {config_map:?}: {error}"))
}

//! The policies that backups and restores refer to.

use velero_api::v1::Backup;
use velero_rules::Unusable;
use velero_rules::resource_policies::ResourcePolicies;

use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};
use crate::runtime::objects::Objects;
use crate::runtime::settings::Settings;

/// The policies a backup refers to and, behind them, those that count for every backup, or why they cannot be used.
pub(crate) async fn policies(context: &Context, backup: &Backup) -> Result<Option<ResourcePolicies>, Unusable> {
    let own = own_policies(context, backup).await?;
    let global = global_policies(&context.objects, &context.settings).await;
    let global = global.map_err(|problem| Unusable(format!("--global-backup-volume-policies-configmap: {problem}")))?;
    let Some(global) = global else { return Ok(own) };
    let mut merged = own.unwrap_or_default();
    merged.append_global(&global);
    Ok(Some(merged))
}

async fn own_policies(context: &Context, backup: &Backup) -> Result<Option<ResourcePolicies>, Unusable> {
    let Some(reference) = &backup.spec.resource_policy else { return Ok(None) };
    if !reference.kind.eq_ignore_ascii_case("configmap") {
        let kind = &reference.kind;
        return Err(Unusable(format!("spec.resourcePolicy.kind is {kind:?}, only configmap is supported")));
    }
    read_policies(&context.objects, &reference.name).await.map(Some)
}

/// The volume policies that count for every backup, where there are any, or why they cannot be used.
pub(crate) async fn global_policies(
    objects: &Objects,
    settings: &Settings,
) -> Result<Option<ResourcePolicies>, Unusable> {
    let config_map = settings.global_backup_volume_policies_configmap.as_str();
    if config_map.is_empty() {
        return Ok(None);
    }
    read(objects, config_map, "create it").await.map(Some)
}

/// The policies of a ConfigMap, or why they cannot be used.
pub(crate) async fn read_policies(objects: &Objects, config_map: &str) -> Result<ResourcePolicies, Unusable> {
    read(objects, config_map, "create it or change spec.resourcePolicy").await
}

async fn read(objects: &Objects, config_map: &str, remedy: &str) -> Result<ResourcePolicies, Unusable> {
    let namespace = objects.namespace();
    let found = objects.config_map(config_map).await.map_err(|error| Unusable(describe(&error)))?;
    let missing = || format!("configmap {config_map:?} does not exist in namespace {namespace:?}; {remedy}");
    let found = found.ok_or_else(|| Unusable(missing()))?;
    let policies = ResourcePolicies::from_config_map(&found.data.unwrap_or_default());
    policies.map_err(|error| Unusable(format!("configmap {config_map:?}: {error}")))
}

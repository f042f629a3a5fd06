//! Reads what a backup is prepared with.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, PartialObjectMeta};
use velero_api::labels;
use velero_api::v1::{Backup, VolumeSnapshotLocation};
use velero_cluster::Error as ClusterError;
use velero_rules::resource_policies::ResourcePolicies;
use velero_rules::validation::SnapshotLocation;

use super::prepare::Facts;
use crate::context::Context;
use crate::error::{Result, describe};
use crate::objects::{Objects, name};
use crate::settings::Settings;
use crate::snapshot_locations::credentials;

/// Reads what a backup is prepared with.
pub(super) async fn gather(context: &Context, backup: &Backup) -> Result<Facts> {
    let client = context.objects.cluster().client();
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| ClusterError::from_kube("get the server version", error))?;
    let snapshot_locations = context.objects.list::<VolumeSnapshotLocation>("").await?;
    let snapshot_location = |location: &VolumeSnapshotLocation| SnapshotLocation {
        name: name(location).to_owned(),
        provider: location.spec.provider.clone(),
    };
    let mut credential_problems = BTreeMap::new();
    for location in &snapshot_locations {
        if let Err(error) = credentials(&context.objects, location).await {
            credential_problems.insert(name(location).to_owned(), describe(&error));
        }
    }
    Ok(Facts {
        credential_problems,
        locations: context.objects.list("").await?,
        snapshot_locations: snapshot_locations.iter().map(snapshot_location).collect(),
        namespaces_labelled_out: namespaces_labelled_out(context).await?,
        policies: policies(context, backup).await,
        server_version: [version.git_version, version.major, version.minor],
    })
}

async fn namespaces_labelled_out(context: &Context) -> Result<Vec<String>> {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(context.objects.cluster().client().clone());
    let parameters = ListParams::default().labels(&format!("{}=true", labels::EXCLUDE_FROM_BACKUP));
    let listed = api.list(&parameters).await;
    let listed = listed.map_err(|error| ClusterError::from_kube("list namespaces", error))?;
    Ok(listed.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect())
}

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

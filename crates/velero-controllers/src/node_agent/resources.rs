//! Objects of Kubernetes that the agent reads, makes and removes.

use std::collections::HashSet;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use velero_api::labels::EXPOSE_ON_GOING;
use velero_api::resource::VeleroResource;
use velero_api::v1::{PodVolumeBackup, PodVolumeRestore};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_cluster::{Cluster, Error as ClusterError, ItemRef, list_all_metadata};

use crate::runtime::error::{Error, Result};
use crate::runtime::objects::Objects;

/// Reads an object; `None` when it does not exist.
pub(crate) async fn get<K>(api: &Api<K>, name: &str) -> Result<Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let found = api.get_opt(name).await;
    Ok(found.map_err(|error| ClusterError::from_kube(format!("get {} {name}", K::plural(&())), error))?)
}

/// Makes an object; one that is there already is fine, whoever made it is checked by whoever uses it.
pub(crate) async fn create(cluster: &Cluster, item: ItemRef<'_>, object: &Value) -> Result<Value> {
    match cluster.create(item.resource_type, item.namespace, object).await {
        Ok(created) => Ok(created),
        Err(error) if error.is_already_exists() => match cluster.get(item).await? {
            Some(found) => Ok(found),
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Deletes exactly this object; whether it is gone for good.
pub(crate) async fn delete(cluster: &Cluster, item: ItemRef<'_>, object: &Value) -> Result<bool> {
    let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
    let own = DeleteParams::default().preconditions(Preconditions { uid, resource_version: None });
    match cluster.delete(item, &own).await {
        Ok(existed) => Ok(!existed),
        // Another object of the name is there by now.
        Err(error) if error.is_conflict() => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Deletes what belongs to the owner of that UID, and leaves what does not; whether nothing of it is left.
pub(crate) async fn delete_owned(cluster: &Cluster, item: ItemRef<'_>, owner: &str) -> Result<bool> {
    match cluster.get(item).await? {
        Some(found) if belongs_to(&found, owner) => {
            delete(cluster, item, &found).await?;
            Ok(!cluster.get(item).await?.is_some_and(|left| left["metadata"]["uid"] == found["metadata"]["uid"]))
        }
        _ => Ok(true),
    }
}

/// Whether an object belongs to the owner of that UID.
pub(crate) fn belongs_to(object: &Value, owner: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|reference| reference["uid"] == owner))
}

/// Whether an object belongs to the owner of that UID.
pub(crate) fn is_owned_by(metadata: &ObjectMeta, owner: &str) -> bool {
    metadata.owner_references.iter().flatten().any(|reference| reference.uid == owner)
}

/// The UIDs of all transfers of the whole cluster that are being prepared.
pub(crate) async fn prepared(objects: &Objects) -> Result<HashSet<String>> {
    let found = tokio::try_join!(
        prepared_of::<PodVolumeBackup>(objects),
        prepared_of::<PodVolumeRestore>(objects),
        prepared_of::<DataUpload>(objects),
        prepared_of::<DataDownload>(objects),
    )?;
    Ok([found.0, found.1, found.2, found.3].into_iter().flatten().collect())
}

async fn prepared_of<K: VeleroResource>(objects: &Objects) -> Result<Vec<String>> {
    let parameters = ListParams::default().labels(&format!("{EXPOSE_ON_GOING}=true"));
    let found = list_all_metadata(&objects.api::<K>(), &parameters).await;
    let found = found.map_err(|error| ClusterError::from_kube(format!("list {}", K::PLURAL), error))?;
    Ok(found.items.into_iter().filter_map(|object| object.metadata.uid).collect())
}

/// Whether the same may succeed a little later.
pub(crate) fn may_pass(error: &Error) -> bool {
    let Error::Cluster(error) = error else { return false };
    error.is_unanswered()
        || error.is_conflict()
        || error.is_retryable()
        || matches!(error, ClusterError::TooManyRequests(_))
}

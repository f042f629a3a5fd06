//! Removing what an installation consists of.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Secret, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use velero_api::metadata;

use super::finalizers::absent_is_fine;
use super::found::SELECTOR;
use crate::install::cluster_name;
use crate::session::{Session, api_error};

/// How long the namespace may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(500);

/// Deletes the namespace and waits until it is gone: definitions that went before it would hold it up.
pub(super) async fn namespace(session: &Session) -> Result<()> {
    let name = session.namespace();
    let api: Api<Namespace> = Api::all(session.cluster.client().clone());
    absent_is_fine(api.delete(name, &DeleteParams::default()).await.map(drop))?;
    session.printer.line(format_args!("Waiting for velero namespace {name:?} to be deleted"))?;
    let deadline = Instant::now() + GONE_WITHIN;
    while let Some(found) = api.get_opt(name).await.map_err(api_error)? {
        if Instant::now() > deadline {
            let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
            let reasons = conditions.into_iter().filter(|condition| condition.status == "True");
            let reasons: Vec<String> = reasons.filter_map(|condition| condition.message).collect();
            bail!(
                "namespace {name:?} is not gone after {GONE_WITHIN:?}: {}; then run the command again",
                reasons.join(" ")
            );
        }
        sleep(POLL).await;
    }
    session.printer.line(format_args!("Velero namespace {name:?} deleted"))
}

/// Deletes the objects of the installation in a namespace that stays.
pub(super) async fn objects(session: &Session) -> Result<()> {
    delete_labelled::<Deployment>(session).await?;
    delete_labelled::<DaemonSet>(session).await?;
    delete_labelled::<NetworkPolicy>(session).await?;
    delete_labelled::<PodDisruptionBudget>(session).await?;
    delete_labelled::<Lease>(session).await?;
    delete_labelled::<RoleBinding>(session).await?;
    delete_labelled::<Role>(session).await?;
    delete_labelled::<ServiceAccount>(session).await?;
    delete_labelled::<Secret>(session).await?;
    delete_labelled::<PersistentVolumeClaim>(session).await
}

async fn delete_labelled<K>(session: &Session) -> Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let selected = ListParams::default().labels(SELECTOR);
    api.delete_collection(&DeleteParams::background(), &selected).await.map(drop).map_err(api_error)
}

/// Deletes the rights of the server.
pub(super) async fn rights(session: &Session) -> Result<()> {
    let client = session.cluster.client();
    let name = cluster_name(session.namespace());
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    absent_is_fine(bindings.delete(&name, &DeleteParams::default()).await.map(drop))?;
    let roles: Api<ClusterRole> = Api::all(client.clone());
    absent_is_fine(roles.delete(&name, &DeleteParams::default()).await.map(drop))
}

/// Deletes the definitions of the custom resources and waits until they are gone.
pub(super) async fn definitions(session: &Session) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(session.cluster.client().clone());
    let selected = ListParams::default().labels(SELECTOR);
    api.delete_collection(&DeleteParams::default(), &selected).await.map_err(api_error)?;
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        let left = api.list_metadata(&selected).await.map_err(api_error)?;
        let Some(definition) = left.items.first() else { return Ok(()) };
        if Instant::now() > deadline {
            let name = metadata::name(definition);
            bail!("definition {name} is not gone after {GONE_WITHIN:?}: objects of it have finalizers; remove them");
        }
        sleep(POLL).await;
    }
}

/// Sees to it that a volume outlives its claim.
pub(super) async fn keep_volume(session: &Session, volume: &str) -> Result<()> {
    patch_volume(session, volume, &json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } })).await
}

/// Lets a new claim of the same name have the volume.
pub(super) async fn release_volume(session: &Session, volume: &str) -> Result<()> {
    patch_volume(session, volume, &json!({ "spec": { "claimRef": { "uid": null, "resourceVersion": null } } })).await
}

async fn patch_volume(session: &Session, volume: &str, patch: &Value) -> Result<()> {
    let api: Api<PersistentVolume> = Api::all(session.cluster.client().clone());
    absent_is_fine(api.patch(volume, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop))
}

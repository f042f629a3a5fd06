//! Giving a volume that was filled to the claim it is for.
//!
//! The volume carries the UID of its DataDownload while it changes hands, so that an agent which takes over finds it, and
//! what becomes of it without a claim is written on it before that is changed.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use velero_api::metadata;
use velero_api::v2alpha1::{DataDownload, TargetVolumeSpec};
use velero_cluster::Error as ClusterError;
use velero_cluster::types::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS};

use super::claims::{self, target_claim, title};
use crate::node_agent::agent::Agent;
use crate::node_agent::resources;
use crate::node_agent::transfer::{Made, Owner};
use crate::runtime::error::{Error, Result};

/// On a volume that changes hands: the UID of its DataDownload.
const OWNER_LABEL: &str = "velero.io/data-download-uid";
/// On such a volume: what becomes of it without a claim, before it changed hands.
const RECLAIM_POLICY: &str = "velero.io/reclaim-policy";

/// Gives the volume to the claim, as far as that goes now.
pub(crate) async fn rebind(agent: &Agent, download: &DataDownload) -> Result<Made> {
    let owner = Owner::of(download);
    let wanted = &download.spec.target_volume;
    let target = target_claim(agent, wanted).await?;
    let target = target.ok_or_else(|| {
        Error::unmet("PersistentVolumeClaim", &title(wanted), "it is gone, so its data cannot be given to it")
    })?;
    let Some(volume) = marked_volume(agent, &owner).await? else {
        return take_hold(agent, &owner, &target).await;
    };
    let pod = PODS.item(Some(&owner.namespace), &owner.name);
    let claim = PERSISTENT_VOLUME_CLAIMS.item(Some(&owner.namespace), &owner.name);
    let cluster = agent.objects.cluster();
    if !resources::delete_owned(cluster, pod, &owner.uid).await?
        || !resources::delete_owned(cluster, claim, &owner.uid).await?
    {
        return Ok(Made::NotYet(claims::LOOK_AGAIN));
    }
    bind_claim(agent, &target, &volume).await?;
    if !bind_volume(agent, &target, &volume).await? {
        return Ok(Made::NotYet(claims::LOOK_AGAIN));
    }
    let policy = volume.annotations().get(RECLAIM_POLICY).map_or("Delete", String::as_str);
    let_go(agent, &volume, policy).await?;
    Ok(Made::Done)
}

/// What is left of a volume that could not be given to its claim is removed with its storage.
pub(crate) async fn give_up(agent: &Agent, owner: &Owner, wanted: &TargetVolumeSpec) -> Result<()> {
    let Some(volume) = marked_volume(agent, owner).await? else { return Ok(()) };
    let policy = volume.annotations().get(RECLAIM_POLICY).map_or("Delete", String::as_str);
    match is_for(&volume, wanted) {
        true => let_go(agent, &volume, policy).await,
        false => let_go(agent, &volume, "Delete").await,
    }
}

async fn marked_volume(agent: &Agent, owner: &Owner) -> Result<Option<PersistentVolume>> {
    let api: Api<PersistentVolume> = Api::all(agent.client());
    let found = api.list(&ListParams::default().labels(&format!("{OWNER_LABEL}={}", owner.uid))).await;
    let found = found.map_err(|error| ClusterError::from_kube("list persistentvolumes", error))?;
    Ok(found.items.into_iter().next())
}

/// Marks the volume and has it kept without a claim. Where there is none any more, it has changed hands before.
async fn take_hold(agent: &Agent, owner: &Owner, target: &PersistentVolumeClaim) -> Result<Made> {
    let item = PERSISTENT_VOLUME_CLAIMS.item(Some(&owner.namespace), &owner.name);
    let claim = agent.objects.cluster().get(item).await?.filter(|claim| resources::belongs_to(claim, &owner.uid));
    let volume = match &claim {
        Some(claim) => claims::bound_volume(agent, claim).await?,
        None => None,
    };
    let Some(volume) = volume else {
        let phase = target.status.as_ref().and_then(|status| status.phase.as_deref());
        let is_bound = phase == Some("Bound") && claim.is_none();
        let problem = "the claim that was filled for it is gone or has no volume";
        let title = metadata::title(target);
        return if is_bound { Ok(Made::Done) } else { Err(Error::unmet("PersistentVolumeClaim", &title, problem)) };
    };
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let patch = json!({
        "metadata": {
            "uid": volume.metadata.uid,
            "labels": { OWNER_LABEL: owner.uid },
            "annotations": { RECLAIM_POLICY: policy.unwrap_or("Delete") },
        },
        "spec": { "persistentVolumeReclaimPolicy": "Retain" },
    });
    patch_volume(agent, &volume, &patch).await?;
    Ok(Made::NotYet(std::time::Duration::from_millis(50)))
}

async fn bind_claim(agent: &Agent, target: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<()> {
    let bound = target.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if bound == metadata::name(volume) {
        return Ok(());
    }
    if !bound.is_empty() {
        let problem = format!("it was bound to volume {bound:?} while its data was being restored");
        return Err(Error::unmet("PersistentVolumeClaim", &metadata::title(target), problem));
    }
    let patch = json!({
        "metadata": {
            "uid": target.metadata.uid,
            "annotations": { "pv.kubernetes.io/bind-completed": null, "pv.kubernetes.io/bound-by-controller": null },
        },
        "spec": { "volumeName": metadata::name(volume) },
    });
    let item = PERSISTENT_VOLUME_CLAIMS.item(Some(metadata::namespace(target)), metadata::name(target));
    agent.objects.cluster().merge_patch(item, &patch).await?;
    Ok(())
}

/// Points the volume to the claim; whether Kubernetes has bound the two.
async fn bind_volume(agent: &Agent, target: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<bool> {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let is_pointed = reference.is_some_and(|reference| {
        reference.name == target.metadata.name && reference.namespace == target.metadata.namespace
    });
    if is_pointed {
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        return Ok(phase == Some("Bound") && reference.is_some_and(|reference| reference.uid == target.metadata.uid));
    }
    let selector = target.spec.as_ref().and_then(|spec| spec.selector.as_ref()?.match_labels.clone());
    let patch = json!({
        "metadata": {
            "uid": volume.metadata.uid,
            "labels": selector.unwrap_or_default(),
            "annotations": { "pv.kubernetes.io/bound-by-controller": null },
        },
        "spec": { "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata::namespace(target),
            "name": metadata::name(target), "uid": null, "resourceVersion": null,
        } },
    });
    patch_volume(agent, volume, &patch).await?;
    Ok(false)
}

async fn let_go(agent: &Agent, volume: &PersistentVolume, policy: &str) -> Result<()> {
    let patch = json!({
        "metadata": {
            "uid": volume.metadata.uid, "labels": { OWNER_LABEL: null }, "annotations": { RECLAIM_POLICY: null },
        },
        "spec": { "persistentVolumeReclaimPolicy": policy },
    });
    patch_volume(agent, volume, &patch).await
}

async fn patch_volume(agent: &Agent, volume: &PersistentVolume, patch: &serde_json::Value) -> Result<()> {
    agent.objects.cluster().merge_patch(PERSISTENT_VOLUMES.item(None, metadata::name(volume)), patch).await?;
    Ok(())
}

fn is_for(volume: &PersistentVolume, wanted: &TargetVolumeSpec) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        reference.name.as_deref() == Some(&wanted.pvc) && reference.namespace.as_deref() == Some(&wanted.namespace)
    })
}

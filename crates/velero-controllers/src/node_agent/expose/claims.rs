//! Claims that are made for movers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::metadata::name;
use velero_api::v2alpha1::TargetVolumeSpec;
use velero_cluster::types::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use velero_rules::quantity::Quantity;

use crate::node_agent::agent::Agent;
use crate::node_agent::resources;
use crate::node_agent::transfer::Owner;
use crate::runtime::error::{Error, Result};

/// How soon something that takes time is looked at again.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// On a claim: the node its volume must be usable on.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The name of the claim for the cache of a restore.
pub(crate) fn cache_name(owner: &Owner) -> String {
    format!("{}-cache", owner.name)
}

/// Makes the claim for the cache of a restore, where the configuration wants one for that much data; its name.
pub(crate) async fn cache(
    agent: &Agent,
    owner: &Owner,
    snapshot_size: i64,
    node: Option<&str>,
) -> Result<Option<String>> {
    let wanted = agent.config.cache_claim.as_ref();
    let wanted = wanted.and_then(|cache| Some((cache, cache.size(snapshot_size, agent.cache_limit)?)));
    let Some((cache, size)) = wanted else { return Ok(None) };
    let name = cache_name(owner);
    let annotations = node.map(|node| json!({ SELECTED_NODE: node })).unwrap_or_else(|| json!({}));
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": cache.storage_class, "volumeMode": "Filesystem",
        "resources": { "requests": { "storage": Quantity::in_binary(size) } },
    });
    create(agent, owner, &name, json!({ "annotations": annotations }), spec).await?;
    Ok(Some(name))
}

/// Makes a claim that belongs to the owner, and that no backup takes.
pub(crate) async fn create(agent: &Agent, owner: &Owner, name: &str, metadata: Value, spec: Value) -> Result<Value> {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec,
    });
    claim["metadata"]["name"] = json!(name);
    claim["metadata"]["namespace"] = json!(owner.namespace);
    claim["metadata"]["ownerReferences"] = json!([owner.reference()]);
    claim["metadata"]["labels"][labels::EXCLUDE_FROM_BACKUP] = json!("true");
    let item = PERSISTENT_VOLUME_CLAIMS.item(Some(&owner.namespace), name);
    let made = resources::create(agent.objects.cluster(), item, &claim).await?;
    match resources::belongs_to(&made, &owner.uid) {
        true => Ok(made),
        false => {
            let problem = "a claim of this name is there and belongs to something else; remove it and try again";
            Err(Error::unmet("PersistentVolumeClaim", name, problem))
        }
    }
}

/// Removes a claim of the owner and its volume, whatever the storage class wants to keep; whether both are gone.
pub(crate) async fn remove(agent: &Agent, owner: &Owner, name: &str) -> Result<bool> {
    let cluster = agent.objects.cluster();
    let item = PERSISTENT_VOLUME_CLAIMS.item(Some(&owner.namespace), name);
    let Some(claim) = cluster.get(item).await?.filter(|claim| resources::belongs_to(claim, &owner.uid)) else {
        return Ok(true);
    };
    if let Some(volume) = bound_volume(agent, &claim).await? {
        set_reclaim_policy(agent, &volume, "Delete").await?;
    }
    resources::delete_owned(cluster, item, &owner.uid).await
}

/// The volume of a claim; none where it is not bound, or to a volume that is bound to another.
pub(crate) async fn bound_volume(agent: &Agent, claim: &Value) -> Result<Option<PersistentVolume>> {
    let Some(name) = claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty()) else { return Ok(None) };
    let volumes: Api<PersistentVolume> = Api::all(agent.client());
    let volume = resources::get(&volumes, name).await?;
    Ok(volume.filter(|volume| {
        let bound = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()?.uid.as_deref());
        bound == claim["metadata"]["uid"].as_str()
    }))
}

/// Says what becomes of a volume when its claim is deleted.
pub(crate) async fn set_reclaim_policy(agent: &Agent, volume: &PersistentVolume, policy: &str) -> Result<()> {
    let spec = volume.spec.as_ref();
    if spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()) == Some(policy) {
        return Ok(());
    }
    let item = PERSISTENT_VOLUMES.item(None, name(volume));
    let patch = json!({
        "metadata": { "uid": volume.metadata.uid }, "spec": { "persistentVolumeReclaimPolicy": policy },
    });
    agent.objects.cluster().merge_patch(item, &patch).await?;
    Ok(())
}

/// The claim that is restored.
pub(super) async fn target_claim(agent: &Agent, target: &TargetVolumeSpec) -> Result<Option<PersistentVolumeClaim>> {
    resources::get(&Api::namespaced(agent.client(), &target.namespace), &target.pvc).await
}

/// The claim that is restored, for messages.
pub(super) fn title(target: &TargetVolumeSpec) -> String {
    format!("{}/{}", target.namespace, target.pvc)
}

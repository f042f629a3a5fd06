//! A claim made from a CSI snapshot, in Velero's namespace, for the mover of a DataUpload.

use k8s_openapi::api::core::v1::{NodeSelector, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use velero_api::labels;
use velero_api::v2alpha1::{DataUpload, DataUploadSpec};
use velero_cluster::types::PODS;
use velero_cluster::{Error as ClusterError, list_all};
use velero_rules::node_agent_config::BackupClaim;

use super::snapshot_objects::{self, Source};
use super::{claims, copies};
use crate::node_agent::agent::Agent;
use crate::node_agent::pod::affinity::node_affinity;
use crate::node_agent::pod::rights::Access;
use crate::node_agent::pod::template::{Attachment, Mover, Placement};
use crate::node_agent::resources;
use crate::node_agent::transfer::{Made, Owner, Transfer};
use crate::runtime::error::{Error, Result};

/// On a claim: the driver makes it without copying, but not on the nodes that have the source.
const FAST_CLONE: &str = "csi.vsphere.volume/fast-provisioning";

/// Makes the claim and the mover.
pub(crate) async fn expose(agent: &Agent, upload: &DataUpload) -> Result<Made> {
    let owner = Owner::of(upload);
    let claim = source_claim(agent, &upload.spec).await?;
    let class = upload.spec.csi_snapshot.as_ref().map(|snapshot| snapshot.storage_class.as_str()).unwrap_or_default();
    let wanted = agent.config.backup_claim(class);
    let (secrets, config_maps) = (&wanted.secret_names, &wanted.config_map_names);
    if !copies::make(agent, &owner, &upload.spec.source_namespace, secrets, config_maps).await? {
        return Ok(Made::NotYet(claims::LOOK_AGAIN));
    }
    let Some(size) = snapshot_objects::hand_over(agent, &owner, &source(&upload.spec)).await? else {
        return Ok(Made::NotYet(claims::LOOK_AGAIN));
    };
    let spec = claim.spec.clone().unwrap_or_default();
    let mode = spec.volume_mode.unwrap_or_else(|| "Filesystem".to_owned());
    let asked = spec.resources.and_then(|resources| resources.requests?.remove("storage")).unwrap_or_default().0;
    make_claim(agent, &owner, &wanted, &mode, if size.is_empty() { &asked } else { &size }).await?;
    let topology = topology(agent, class, spec.volume_name.as_deref().unwrap_or_default()).await?;
    let not_on = match wanted.annotations.contains_key(FAST_CLONE) {
        true => attached_nodes(agent, spec.volume_name.as_deref().unwrap_or_default()).await?,
        false => Vec::new(),
    };
    let selector = agent.config.affinity(&wanted.storage_class).map(|affinity| &affinity.node_selector);
    let mover = Mover {
        owner: &owner,
        label: DataUpload::POD_LABEL,
        command: ["data-mover", "backup"],
        flag: "data-upload",
        access: Access::Read,
        volume: json!({ "persistentVolumeClaim": { "claimName": owner.name, "readOnly": wanted.read_only } }),
        attachment: Attachment::of_mode(&mode, true),
        tells_mode: true,
        cache_claim: None,
        is_privileged: false,
        leaves_labels: wanted.no_relabeling && wanted.read_only,
        resource_timeout: upload.spec.operation_timeout,
        placement: Placement::Scheduled {
            affinity: node_affinity(selector, topology.as_ref(), &not_on),
            group: labels::EXPOSER_POD_GROUP_SNAPSHOT,
        },
    };
    mover.create(agent).await?;
    Ok(Made::Done)
}

/// What keeps the mover from being made, in words: a snapshot that cannot be used yet.
pub(crate) async fn awaited(agent: &Agent, upload: &DataUpload) -> Option<String> {
    snapshot_objects::unready(agent, &Owner::of(upload), &source(&upload.spec)).await
}

/// Removes mover, claim and snapshot.
pub(crate) async fn clean_up(agent: &Agent, upload: &DataUpload) -> Result<Made> {
    let owner = Owner::of(upload);
    let pod = PODS.item(Some(&owner.namespace), &owner.name);
    let pod_is_gone = resources::delete_owned(agent.objects.cluster(), pod, &owner.uid).await?;
    let claim_is_gone = claims::remove(agent, &owner, &owner.name).await?;
    copies::remove(agent, &owner).await?;
    if !pod_is_gone || !claim_is_gone {
        return Ok(Made::NotYet(claims::LOOK_AGAIN));
    }
    match snapshot_objects::remove(agent, &owner, &source(&upload.spec)).await? {
        true => Ok(Made::Done),
        false => Ok(Made::NotYet(claims::LOOK_AGAIN)),
    }
}

fn source(spec: &DataUploadSpec) -> Source<'_> {
    let snapshot = spec.csi_snapshot.as_ref().map(|snapshot| snapshot.volume_snapshot.as_str()).unwrap_or_default();
    Source { namespace: &spec.source_namespace, snapshot }
}

async fn source_claim(agent: &Agent, spec: &DataUploadSpec) -> Result<PersistentVolumeClaim> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(agent.client(), &spec.source_namespace);
    let found = resources::get(&api, &spec.source_pvc).await?;
    let title = format!("{}/{}", spec.source_namespace, spec.source_pvc);
    found.ok_or_else(|| Error::unmet("PersistentVolumeClaim", &title, "it is gone before its data was moved"))
}

async fn make_claim(agent: &Agent, owner: &Owner, wanted: &BackupClaim, mode: &str, size: &str) -> Result<()> {
    let spec = json!({
        "accessModes": [if wanted.read_only { "ReadOnlyMany" } else { "ReadWriteOnce" }],
        "storageClassName": wanted.storage_class,
        "volumeMode": mode,
        "dataSource": { "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": owner.name },
        "resources": { "requests": { "storage": size } },
    });
    claims::create(agent, owner, &owner.name, json!({ "annotations": wanted.annotations }), spec).await?;
    Ok(())
}

/// The nodes on which the source can be used, where its class decides that with the first pod.
async fn topology(agent: &Agent, class: &str, volume: &str) -> Result<Option<NodeSelector>> {
    let class = resources::get(&Api::<StorageClass>::all(agent.client()), class).await?;
    if class.and_then(|class| class.volume_binding_mode).as_deref() != Some("WaitForFirstConsumer") {
        return Ok(None);
    }
    let volume = resources::get(&Api::<PersistentVolume>::all(agent.client()), volume).await?;
    Ok(volume.and_then(|volume| volume.spec?.node_affinity?.required))
}

async fn attached_nodes(agent: &Agent, volume: &str) -> Result<Vec<String>> {
    let api: Api<VolumeAttachment> = Api::all(agent.client());
    let found = list_all(&api, &ListParams::default()).await;
    let found = found.map_err(|error| ClusterError::from_kube("list volumeattachments", error))?;
    let of = |attachment: &VolumeAttachment| attachment.spec.source.persistent_volume_name.as_deref() == Some(volume);
    Ok(found.items.into_iter().filter(of).map(|attachment| attachment.spec.node_name).collect())
}

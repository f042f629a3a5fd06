//! A claim in Velero's namespace that the mover of a DataDownload fills.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, ResourceExt};
use serde_json::{Map, json};
use velero_api::labels;
use velero_api::metadata;
use velero_api::v2alpha1::DataDownload;
use velero_cluster::types::PODS;

use super::claims::{target_claim, title};
use super::{claims, copies, rebind};
use crate::node_agent::agent::Agent;
use crate::node_agent::pod::affinity::{node_affinity, on_node};
use crate::node_agent::pod::rights::Access;
use crate::node_agent::pod::template::{Attachment, Mover, Placement};
use crate::node_agent::resources;
use crate::node_agent::transfer::{Made, Owner, Transfer};
use crate::runtime::error::{Error, Result};

/// The claim that is restored, which can be filled now.
pub(crate) struct Target {
    claim: PersistentVolumeClaim,
    /// The node that is decided for its volume.
    node: Option<String>,
}

/// Makes the claim and the mover.
pub(crate) async fn expose(agent: &Agent, download: &DataDownload, target: &Target) -> Result<Made> {
    let (owner, node) = (Owner::of(download), target.node.as_deref());
    let spec = target.claim.spec.clone().unwrap_or_default();
    let class = spec.storage_class_name.clone().unwrap_or_default();
    let wanted = &agent.config.restore_claims;
    let namespace = &download.spec.target_volume.namespace;
    if !copies::make(agent, &owner, namespace, &wanted.secret_names, &wanted.config_map_names).await? {
        return Ok(Made::NotYet(claims::LOOK_AGAIN));
    }
    let cache_claim = claims::cache(agent, &owner, download.spec.snapshot_size, node).await?;
    make_claim(agent, &owner, &target.claim, node).await?;
    let selector = agent.config.affinity(&class).map(|affinity| &affinity.node_selector);
    let mode = spec.volume_mode.as_deref().unwrap_or("Filesystem");
    let mover = Mover {
        owner: &owner,
        label: DataDownload::POD_LABEL,
        command: ["data-mover", "restore"],
        flag: "data-download",
        access: Access::Write,
        volume: json!({ "persistentVolumeClaim": { "claimName": owner.name } }),
        attachment: Attachment::of_mode(mode, false),
        tells_mode: true,
        cache_claim,
        is_privileged: false,
        leaves_labels: false,
        resource_timeout: download.spec.operation_timeout,
        placement: placement(node, selector),
    };
    mover.create(agent).await?;
    Ok(Made::Done)
}

/// What keeps the mover from being made, in words: a claim that is not there, or that nobody uses yet.
pub(crate) async fn awaited(agent: &Agent, download: &DataDownload) -> Option<String> {
    let wanted = &download.spec.target_volume;
    let Some(target) = target_claim(agent, wanted).await.ok()? else {
        return Some(format!("claim {} does not exist", title(wanted)));
    };
    let class = target.spec.as_ref().and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default();
    match is_consumed(agent, &target, &class).await {
        Ok(Consumed::NotYet) => Some(format!(
            "claim {} waits for the first pod that uses it, as its storage class {class:?} says: start one, or set \
             restorePVC.ignoreDelayBinding in the ConfigMap of the node agents",
            title(wanted)
        )),
        _ => None,
    }
}

/// Removes mover, claim and cache, and a volume that was not given to the claim it is for.
pub(crate) async fn clean_up(agent: &Agent, download: &DataDownload) -> Result<Made> {
    let owner = Owner::of(download);
    let pod = PODS.item(Some(&owner.namespace), &owner.name);
    let pod_is_gone = resources::delete_owned(agent.objects.cluster(), pod, &owner.uid).await?;
    let claim_is_gone = claims::remove(agent, &owner, &owner.name).await?;
    let cache_is_gone = claims::remove(agent, &owner, &claims::cache_name(&owner)).await?;
    copies::remove(agent, &owner).await?;
    rebind::give_up(agent, &owner, &download.spec.target_volume).await?;
    Ok(if pod_is_gone && claim_is_gone && cache_is_gone { Made::Done } else { Made::NotYet(claims::LOOK_AGAIN) })
}

/// The claim that is restored: once it is there and, where its class wants that, used by a pod that was placed.
pub(crate) async fn due(agent: &Agent, download: &DataDownload) -> Result<Option<Target>> {
    let wanted = &download.spec.target_volume;
    // A restore makes the claim after the DataDownload.
    let Some(claim) = target_claim(agent, wanted).await? else { return Ok(None) };
    let spec = claim.spec.clone().unwrap_or_default();
    if spec.volume_name.is_some_and(|name| !name.is_empty()) {
        let problem = "it is bound to a volume already, which is not overwritten; restore into a claim that is new";
        return Err(Error::unmet("PersistentVolumeClaim", &title(wanted), problem));
    }
    let class = spec.storage_class_name.unwrap_or_default();
    Ok(match is_consumed(agent, &claim, &class).await? {
        Consumed::NotYet => None,
        Consumed::By(node) => Some(Target { claim, node: Some(node) }),
        Consumed::DoesNotMatter => Some(Target { claim, node: None }),
    })
}

enum Consumed {
    NotYet,
    By(String),
    DoesNotMatter,
}

/// Where the class decides with the first pod on which node a volume is, that pod must have been placed.
async fn is_consumed(agent: &Agent, target: &PersistentVolumeClaim, class: &str) -> Result<Consumed> {
    if agent.config.restore_claims.ignore_delay_binding || class.is_empty() {
        return Ok(Consumed::DoesNotMatter);
    }
    let found = resources::get(&Api::<StorageClass>::all(agent.client()), class).await?;
    let found = found.ok_or_else(|| {
        let problem = format!("its storage class {class:?} does not exist");
        Error::unmet("PersistentVolumeClaim", &metadata::title(target), problem)
    })?;
    if found.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer") {
        return Ok(Consumed::DoesNotMatter);
    }
    Ok(match metadata::annotation(target, claims::SELECTED_NODE) {
        "" => Consumed::NotYet,
        node => Consumed::By(node.to_owned()),
    })
}

async fn make_claim(agent: &Agent, owner: &Owner, target: &PersistentVolumeClaim, node: Option<&str>) -> Result<()> {
    let spec = target.spec.clone().unwrap_or_default();
    let annotations = match node {
        Some(node) => json!({ claims::SELECTED_NODE: node }),
        None => json!(own_annotations(target)),
    };
    let metadata = json!({ "labels": target.labels(), "annotations": annotations });
    let mut wanted = json!({ "accessModes": spec.access_modes, "resources": spec.resources });
    if let Some(class) = spec.storage_class_name {
        wanted["storageClassName"] = json!(class);
    }
    if let Some(mode) = spec.volume_mode {
        wanted["volumeMode"] = json!(mode);
    }
    claims::create(agent, owner, &owner.name, metadata, wanted).await?;
    Ok(())
}

/// The annotations of a claim but those that Kubernetes writes about its volume.
fn own_annotations(claim: &PersistentVolumeClaim) -> Map<String, serde_json::Value> {
    let is_own = |key: &str| {
        !key.starts_with("pv.kubernetes.io/")
            && !key.starts_with("volume.kubernetes.io/")
            && !key.starts_with("volume.beta.kubernetes.io/storage-provisioner")
            && key != "kubectl.kubernetes.io/last-applied-configuration"
    };
    let kept = claim.annotations().iter().filter(|(key, _)| is_own(key));
    kept.map(|(key, value)| (key.clone(), json!(value))).collect()
}

fn placement(
    node: Option<&str>,
    selector: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector>,
) -> Placement {
    Placement::Scheduled {
        affinity: match node {
            // What the configuration prefers comes too late.
            Some(node) => on_node(node),
            None => node_affinity(selector, None, &[]),
        },
        group: labels::EXPOSER_POD_GROUP_GENERIC_RESTORE,
    }
}

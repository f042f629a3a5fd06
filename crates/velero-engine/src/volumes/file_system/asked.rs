//! What is asked for the volumes of a pod, with what lies behind them.

use std::sync::Arc;

use serde_json::Value;
use velero_rules::resource_policies::VolumeData;
use velero_rules::volume_decision::pods::{PodVolume, PodVolumeDecision, PodVolumes};

use super::super::backup_context::BackupContext;
use super::super::error::VolumeError;
use super::super::{CLAIMS, VOLUMES};

/// A claim: its namespace and name.
pub(super) type Claim = (String, String);

/// What lies behind a volume of a pod.
#[derive(Default)]
pub(super) struct Behind {
    /// Its claim.
    pub claim: Option<Value>,
    /// The persistent volume of the claim.
    pub volume: Option<Arc<Value>>,
}

/// What is asked for a volume of a pod, and what lies behind it where that makes a difference.
pub(super) async fn decide(
    backup: &BackupContext<'_>,
    namespace: &str,
    pod: &PodVolumes,
    volume: &PodVolume,
) -> Result<(PodVolumeDecision, Behind), VolumeError> {
    let rules = backup.rules();
    let decision = rules.of_pod_volume(pod, volume, &volume.data);
    let Some(claim) = volume.claim.as_deref() else {
        return Ok((decision, Behind::default()));
    };
    // What lies behind the claim makes a difference to policies, and to whether a copy can be made.
    if decision == PodVolumeDecision::NotAsked && !rules.ask_for_claims() {
        return Ok((decision, Behind::default()));
    }
    let behind = find_behind(backup, namespace, claim).await?;
    // A policy that speaks of ephemeral volumes speaks of the pod's, not of the persistent one behind it.
    if volume.is_ephemeral() && rules.policy_action(&volume.data).is_some() {
        return Ok((decision, behind));
    }
    let data = behind.volume.as_ref().map(|volume| VolumeData::of_persistent_volume(volume)).unwrap_or_default();
    let data = match &behind.claim {
        Some(claim) => data.with_claim(claim),
        None => data,
    };
    Ok((rules.of_pod_volume(pod, volume, &data), behind))
}

/// A claim and the persistent volume it has.
async fn find_behind(backup: &BackupContext<'_>, namespace: &str, claim: &str) -> Result<Behind, VolumeError> {
    let Some(claims) = backup.types.claims else {
        return Ok(Behind::default());
    };
    let found = backup.cluster.get(claims.item(Some(namespace), claim)).await;
    let failed = |resource, name: &str, source| VolumeError::Object { resource, name: name.to_owned(), source };
    let Some(claim) = found.map_err(|error| failed(CLAIMS, claim, error))? else {
        return Ok(Behind::default());
    };
    let volume = match claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => backup.volume(name).await.map_err(|error| failed(VOLUMES, name, error))?,
        None => None,
    };
    Ok(Behind { claim: Some(claim), volume })
}

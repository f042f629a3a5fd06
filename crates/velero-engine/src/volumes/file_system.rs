//! Volumes whose data is asked for through the file systems of pods. Such copies are not made yet, so each is an error that
//! names the pod, the volume and what to do about it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::{BackupVolumeInfo, VolumeMethod, VolumeResult};
use velero_cluster::{ItemRef, RawItem};
use velero_plugin::item;
use velero_rules::resource_policies::VolumeData;
use velero_rules::volume_decision::VolumeDecision;
use velero_rules::volume_decision::pods::{PodVolume, PodVolumeDecision, PodVolumes};

use super::backup_context::{BackupContext, claim_of};
use super::error::VolumeError;
use super::method::Method;
use super::restore_context::{VolumeVerdict, Wishes};
use super::{CLAIMS, PODS, VOLUMES};
use crate::lock;

/// What is said of the way that would have saved a volume.
const BY_POD: &str = "podvolume";

/// Why there are no copies.
const NOT_YET: &str = "this server does not copy volumes through the file systems of pods yet";

/// A claim: its namespace and name.
type Claim = (String, String);

/// Copies through the file systems of pods, and what was asked of pods so far.
#[derive(Default)]
pub(super) struct FileSystem {
    /// Claims that were dealt with for one of the pods that mount them: one copy of each is enough.
    claims: Mutex<HashSet<Claim>>,
    /// Persistent volumes that pods should copy, with their claims.
    volumes: Mutex<BTreeMap<String, Option<Claim>>>,
}

impl FileSystem {
    /// Notes that a copy of a persistent volume is asked for.
    fn note_asked(&self, volume: &str, claim: Option<(&str, &str)>) {
        let claim = claim.map(|(namespace, claim)| (namespace.to_owned(), claim.to_owned()));
        lock(&self.volumes).insert(volume.to_owned(), claim);
    }

    /// Persistent volumes of which a copy is asked for and that no pod was asked to copy.
    fn left(&self) -> Vec<(String, Option<Claim>)> {
        let claims = lock(&self.claims);
        let volumes = std::mem::take(&mut *lock(&self.volumes)).into_iter();
        volumes.filter(|(_, claim)| claim.as_ref().is_none_or(|claim| !claims.contains(claim))).collect()
    }
}

#[async_trait]
impl Method for FileSystem {
    fn name(&self) -> VolumeMethod {
        VolumeMethod::PodVolumeBackup
    }

    fn takes(&self, decision: VolumeDecision) -> bool {
        decision == VolumeDecision::FsBackup
    }

    async fn save_volume(&self, backup: &BackupContext<'_>, volume: &Value) -> Result<(), VolumeError> {
        backup.volumes.note_skipped(volume, BY_POD, NOT_YET);
        self.note_asked(item::name(volume), claim_of(volume));
        Ok(())
    }

    /// Looks for volumes of a pod whose data is asked for.
    async fn save_pod(&self, backup: &BackupContext<'_>, item: &RawItem) {
        let (namespace, name) = (item.namespace().unwrap_or_default(), item.name());
        let pod = match PodVolumes::read(item.as_bytes()) {
            Ok(pod) => pod,
            Err(error) => {
                let entry = backup.journal.error().item(ItemRef::new(PODS, Some(namespace), name));
                return entry.error(&error).message("Error reading the volumes of the pod");
            }
        };
        for volume in &pod.unknown {
            let entry = backup.journal.warning().item(ItemRef::new(PODS, Some(namespace), name));
            entry.message(&format!(
                "The annotation backup.velero.io/backup-volumes of pod {namespace}/{name} names volume {volume}, which the pod \
                 does not have"
            ));
        }
        for volume in &pod.volumes {
            match decide(backup, namespace, &pod, volume).await {
                Ok(decision) => self.tell_of_pod_volume(backup, (namespace, name), volume, decision),
                Err(error) => {
                    let entry = backup.journal.error().item(ItemRef::new(PODS, Some(namespace), name)).error(&error);
                    entry.message(&format!("Error finding out what is asked for volume {}", volume.name));
                }
            }
        }
    }

    /// Says which persistent volumes should have been copied by a pod when no pod of the backup could do so.
    fn close(&self, backup: &BackupContext<'_>) {
        for (volume, claim) in self.left() {
            let of_claim = claim.map(|(namespace, claim)| format!(" (claim {namespace}/{claim})")).unwrap_or_default();
            backup.journal.error().item(ItemRef::new(VOLUMES, None, &volume)).message(&format!(
                "The data of volume {volume}{of_claim} is not backed up: a copy through the file system of a pod is asked for, \
                 and {NOT_YET}. Let a volume policy say snapshot or skip for it"
            ));
        }
    }

    fn verdict(&self, wishes: &Wishes, info: Option<&BackupVolumeInfo>) -> VolumeVerdict {
        // A copy without a snapshot is that of an empty volume.
        let has_copy = info.and_then(|info| info.pvb_info.as_ref()).is_none_or(|copy| !copy.snapshot_handle.is_empty());
        let has_failed = info.is_some_and(|info| info.result == Some(VolumeResult::Failed));
        match wishes.restore_data && (has_copy || has_failed) {
            true => VolumeVerdict::AnewWithData("a pod volume backup, which this version cannot restore"),
            false => VolumeVerdict::Anew,
        }
    }
}

impl FileSystem {
    fn tell_of_pod_volume(
        &self,
        backup: &BackupContext<'_>,
        (namespace, pod): (&str, &str),
        volume: &PodVolume,
        decision: PodVolumeDecision,
    ) {
        let name = &volume.name;
        match decision {
            PodVolumeDecision::NotAsked => {}
            PodVolumeDecision::CannotCopy(obstacle) => {
                let entry = backup
                    .journal
                    .warning()
                    .item(ItemRef::new(PODS, Some(namespace), pod))
                    .field("volume", name.clone());
                entry.message(&format!(
                    "The data of volume {name} of pod {namespace}/{pod} is asked for, but it cannot be copied: {}",
                    obstacle.as_str()
                ));
            }
            PodVolumeDecision::Copy(asked_by) => {
                let claim = volume.claim.clone().map(|claim| (namespace.to_owned(), claim));
                if claim.is_some_and(|claim| !lock(&self.claims).insert(claim)) {
                    return;
                }
                let entry =
                    backup.journal.error().item(ItemRef::new(PODS, Some(namespace), pod)).field("volume", name.clone());
                entry.message(&format!(
                    "The data of volume {name} of pod {namespace}/{pod} is not backed up, though {} asks for it: {NOT_YET}. Back it \
                     up by a snapshot, or {}",
                    asked_by.as_str(),
                    asked_by.remedy()
                ));
            }
        }
    }
}

async fn decide(
    backup: &BackupContext<'_>,
    namespace: &str,
    pod: &PodVolumes,
    volume: &PodVolume,
) -> Result<PodVolumeDecision, VolumeError> {
    let rules = backup.rules();
    let decision = rules.of_pod_volume(pod, volume, &volume.data);
    let Some(claim) = volume.claim.as_deref() else {
        return Ok(decision);
    };
    // What lies behind the claim makes a difference to policies, and to whether a copy can be made.
    if decision == PodVolumeDecision::NotAsked && !rules.ask_for_claims() {
        return Ok(decision);
    }
    let data = data_behind(backup, namespace, claim).await?;
    Ok(rules.of_pod_volume(pod, volume, &data))
}

/// What is known of a claim and of the persistent volume it has.
async fn data_behind(backup: &BackupContext<'_>, namespace: &str, claim: &str) -> Result<VolumeData, VolumeError> {
    let Some(claims) = backup.types.claims else {
        return Ok(VolumeData::default());
    };
    let found = backup.cluster.get(claims.item(Some(namespace), claim)).await;
    let failed = |resource, name: &str, source| VolumeError::Object { resource, name: name.to_owned(), source };
    let Some(claim) = found.map_err(|error| failed(CLAIMS, claim, error))? else {
        return Ok(VolumeData::default());
    };
    let volume = match claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => backup.volume(name).await.map_err(|error| failed(VOLUMES, name, error))?,
        None => None,
    };
    let data = volume.map(|volume| VolumeData::of_persistent_volume(&volume)).unwrap_or_default();
    Ok(data.with_claim(&claim))
}

//! Volumes of pods whose data is asked for through the file systems of the pods. Such copies are not made yet, so each is
//! an error that names the pod, the volume and what to do about it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use serde_json::Value;
use velero_rules::resource_policies::VolumeData;
use velero_rules::volume_decision::pods::{PodVolume, PodVolumeDecision, PodVolumes};

use super::act::{ItemResult, Run};
use super::plan::PODS;
use super::pool::{CLAIMS, Item, VOLUMES};
use super::volumes::lock;

/// Why there are no copies.
pub(super) const NOT_YET: &str = "this server does not copy volumes through the file systems of pods yet";

/// A claim: its namespace and name.
type Claim = (String, String);

/// What was asked of pods so far.
#[derive(Default)]
pub(super) struct PodVolumesAsked {
    /// Claims that were dealt with for one of the pods that mount them: one copy of each is enough.
    claims: Mutex<HashSet<Claim>>,
    /// Persistent volumes that pods should copy, with their claims.
    volumes: Mutex<BTreeMap<String, Option<Claim>>>,
}

impl PodVolumesAsked {
    /// Notes that a copy of a persistent volume is asked for.
    pub(super) fn note_asked(&self, volume: &str, claim: Option<(&str, &str)>) {
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

impl Run {
    /// Looks for volumes of a pod whose data is asked for; nothing for any other item.
    pub(super) async fn look_at_pod_volumes(&self, item: &Item) {
        if item.planned.name != PODS || !self.saves_volumes {
            return;
        }
        let (namespace, name) = (item.raw.namespace().unwrap_or_default(), item.raw.name());
        let pod = match PodVolumes::read(item.raw.as_bytes()) {
            Ok(pod) => pod,
            Err(error) => {
                let entry = self.journal.error().object(PODS, Some(namespace), name);
                return entry.error(&error).message("Error reading the volumes of the pod");
            }
        };
        for volume in &pod.unknown {
            let entry = self.journal.warning().object(PODS, Some(namespace), name);
            entry.message(&format!(
                "The annotation backup.velero.io/backup-volumes of pod {namespace}/{name} names volume {volume}, which the pod \
                 does not have"
            ));
        }
        for volume in &pod.volumes {
            match self.decide_on_pod_volume(namespace, &pod, volume).await {
                Ok(decision) => self.tell_of_pod_volume((namespace, name), volume, decision),
                Err(error) => {
                    let entry = self.journal.error().object(PODS, Some(namespace), name).error(&error);
                    entry.message(&format!("Error finding out what is asked for volume {}", volume.name));
                }
            }
        }
    }

    async fn decide_on_pod_volume(
        &self,
        namespace: &str,
        pod: &PodVolumes,
        volume: &PodVolume,
    ) -> ItemResult<PodVolumeDecision> {
        let rules = self.volume_rules();
        let decision = rules.of_pod_volume(pod, volume, &volume.data);
        let Some(claim) = volume.claim.as_deref() else {
            return Ok(decision);
        };
        // What lies behind the claim makes a difference to policies, and to whether a copy can be made.
        if decision == PodVolumeDecision::NotAsked && !rules.ask_for_claims() {
            return Ok(decision);
        }
        let data = self.data_behind(namespace, claim).await?;
        Ok(rules.of_pod_volume(pod, volume, &data))
    }

    /// What is known of a claim and of the persistent volume it has.
    async fn data_behind(&self, namespace: &str, claim: &str) -> ItemResult<VolumeData> {
        let found = self.get_object(CLAIMS, Some(namespace), claim).await?;
        let Some(claim) = found else {
            return Ok(VolumeData::default());
        };
        let volume = match claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty()) {
            Some(name) => self.get_object(VOLUMES, None, name).await?,
            None => None,
        };
        let data = volume.map(|volume| VolumeData::of_persistent_volume(&volume)).unwrap_or_default();
        Ok(data.with_claim(&claim))
    }

    async fn get_object(&self, resource: &str, namespace: Option<&str>, name: &str) -> ItemResult<Option<Value>> {
        let Some(planned) = self.plan.preferred(resource) else {
            return Ok(None);
        };
        let found = self.request.cluster.get(&planned.resource_type, namespace, name).await;
        found.map_err(|error| format!("error getting {resource} {name}: {error}"))
    }

    fn tell_of_pod_volume(&self, (namespace, pod): (&str, &str), volume: &PodVolume, decision: PodVolumeDecision) {
        let name = &volume.name;
        match decision {
            PodVolumeDecision::NotAsked => {}
            PodVolumeDecision::CannotCopy(obstacle) => {
                let entry = self.journal.warning().object(PODS, Some(namespace), pod).field("volume", name.clone());
                entry.message(&format!(
                    "The data of volume {name} of pod {namespace}/{pod} is asked for, but it cannot be copied: {}",
                    obstacle.as_str()
                ));
            }
            PodVolumeDecision::Copy(asked_by) => {
                let claim = volume.claim.clone().map(|claim| (namespace.to_owned(), claim));
                if claim.is_some_and(|claim| !lock(&self.volumes.pods.claims).insert(claim)) {
                    return;
                }
                let entry = self.journal.error().object(PODS, Some(namespace), pod).field("volume", name.clone());
                entry.message(&format!(
                    "The data of volume {name} of pod {namespace}/{pod} is not backed up, though {} asks for it: {NOT_YET}. Back it \
                     up by a snapshot, or {}",
                    asked_by.as_str(),
                    asked_by.remedy()
                ));
            }
        }
    }

    /// Says which persistent volumes should have been copied by a pod when no pod of the backup could do so.
    pub(super) fn tell_of_volumes_left(&self) {
        for (volume, claim) in self.volumes.pods.left() {
            let of_claim = claim.map(|(namespace, claim)| format!(" (claim {namespace}/{claim})")).unwrap_or_default();
            self.journal.error().object(VOLUMES, None, &volume).message(&format!(
                "The data of volume {volume}{of_claim} is not backed up: a copy through the file system of a pod is asked for, \
                 and {NOT_YET}. Let a volume policy say snapshot or skip for it"
            ));
        }
    }
}

//! The data of volumes: what becomes of it, and the snapshots that are taken.
//!
//! The volumes of a block whose pods have hooks are dealt with before the hooks that follow, all others at the end of
//! the batch they came with: so many snapshots are taken at the same time, however many blocks are worked on.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use velero_api::records::{BackupVolumeInfo, PvInfo, Snapshot, VolumeMethod};
use velero_api::v1::BackupSpec;
use velero_rules::resource_policies::VolumeData;
use velero_rules::volume_decision::{VolumeDecision, VolumeRules};

use super::act::{ItemResult, Run};
use super::claims::PendingClaim;
use super::mounts::Mounts;
use super::pod_volumes::{self, PodVolumesAsked};
use super::pool::{CLAIMS, VOLUMES};
use super::snapshots::{SnapshotLocations, TakenSnapshots};
use super::write::Record;

/// How many volumes are dealt with at the same time.
const AT_ONCE: usize = 16;

/// What is said of the ways that leave a volume out.
const BY_SNAPSHOT: &str = "volumeSnapshot";
const BY_POD: &str = "podvolume";

/// Items on their way into the archive.
#[derive(Default)]
pub(super) struct Batch {
    /// Those that are ready.
    pub records: Vec<Record>,
    /// Volumes whose data comes first.
    pub volumes: Vec<PendingVolume>,
    /// Claims that wait for their turn.
    pub claims: Vec<PendingClaim>,
}

/// A volume whose data is still to be dealt with.
pub(super) struct PendingVolume {
    pub record: Record,
    pub name: String,
    pub value: Value,
}

/// The volumes of a backup.
pub(super) struct Volumes {
    pub(super) locations: SnapshotLocations,
    pub(super) taken: TakenSnapshots,
    mounts: Mounts,
    pub(super) pods: PodVolumesAsked,
    deferred: Mutex<(Vec<PendingVolume>, Vec<PendingClaim>)>,
    pub(super) infos: Mutex<BTreeMap<String, BackupVolumeInfo>>,
}

impl Volumes {
    pub(super) fn new(spec: &BackupSpec, taken: TakenSnapshots) -> Self {
        Self {
            locations: SnapshotLocations::new(&spec.volume_snapshot_locations),
            taken,
            mounts: Mounts::default(),
            pods: PodVolumesAsked::default(),
            deferred: Mutex::default(),
            infos: Mutex::default(),
        }
    }

    /// Puts volumes and claims aside until the end of the batch.
    pub(super) fn defer(&self, volumes: Vec<PendingVolume>, claims: Vec<PendingClaim>) {
        let mut deferred = lock(&self.deferred);
        deferred.0.extend(volumes);
        deferred.1.extend(claims);
    }

    /// The volumes and claims that were put aside.
    pub(super) fn take_deferred(&self) -> (Vec<PendingVolume>, Vec<PendingClaim>) {
        std::mem::take(&mut *lock(&self.deferred))
    }

    /// Notes that the data of a volume stays out.
    fn note_skipped(&self, volume: &Value, approach: &str, reason: &str) {
        let skipped_reason = format!("{approach}: {reason};");
        self.note(BackupVolumeInfo { skipped: true, skipped_reason, ..info_of(volume) });
    }

    /// Notes a snapshot of a volume.
    pub(super) fn note_snapshot(&self, volume: &Value, snapshot: Snapshot) {
        self.note(BackupVolumeInfo {
            backup_method: Some(VolumeMethod::NativeSnapshot),
            result: snapshot.result(),
            native_snapshot_info: Some(snapshot.info()),
            ..info_of(volume)
        });
        self.taken.add(snapshot);
    }

    pub(super) fn note(&self, info: BackupVolumeInfo) {
        lock(&self.infos).insert(info.pv_name.clone(), info);
    }

    /// What was done with each volume, those left out first.
    pub(super) fn infos(&self) -> Vec<BackupVolumeInfo> {
        let mut infos: Vec<_> = std::mem::take(&mut *lock(&self.infos)).into_values().collect();
        infos.sort_by_key(|info| !info.skipped);
        infos
    }
}

impl Run {
    /// Deals with the data of volumes, many at a time; gives the volumes whose items belong into the archive.
    pub(super) async fn save_volumes(&self, volumes: Vec<PendingVolume>) -> Vec<Record> {
        let saved: Vec<Option<Record>> = stream::iter(volumes)
            .map(|volume| self.save_volume(volume).boxed())
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        saved.into_iter().flatten().collect()
    }

    async fn save_volume(&self, PendingVolume { record, name, value }: PendingVolume) -> Option<Record> {
        let Err(error) = self.save_data(&name, &value).await else {
            self.log_item(&record.planned, None, &name);
            return Some(record);
        };
        self.ledger.fail(&record.planned, None, &name);
        self.journal.error().object(VOLUMES, None, &name).error(&error).message("Error backing up item");
        None
    }

    async fn save_data(&self, name: &str, volume: &Value) -> ItemResult<()> {
        let entry = || self.journal.info().object(VOLUMES, None, name);
        match self.decide(volume).await? {
            VolumeDecision::CsiSnapshot { .. } => {
                entry().message("The snapshot of the volume is left to the CSI actions on its claim");
            }
            VolumeDecision::FsBackup => {
                self.volumes.note_skipped(volume, BY_POD, pod_volumes::NOT_YET);
                self.volumes.pods.note_asked(name, claim_of(volume));
            }
            VolumeDecision::Skip(reason) => {
                entry().message(&format!("The data of the volume is not backed up: {}", reason.as_str()));
                self.volumes.note_skipped(volume, BY_SNAPSHOT, reason.as_str());
            }
            VolumeDecision::Snapshot { stays_unmoved } => {
                if !self.take_snapshot(name, volume).await? {
                    let reason = "no applicable volumesnapshotter found";
                    entry().message(&format!("No snapshot of the volume is taken: {reason}"));
                    self.volumes.note_skipped(volume, BY_SNAPSHOT, reason);
                    if stays_unmoved && volume["spec"]["csi"].is_object() {
                        self.tell_of_unmoved(
                            volume,
                            "no snapshot of it is taken either (the server lacks --features=EnableCSI)",
                        );
                    }
                } else if stays_unmoved {
                    let warning = self.journal.warning().object(VOLUMES, None, name);
                    warning
                        .message("The data of the volume stays where its snapshot is: snapshotters do not move data");
                }
            }
        }
        Ok(())
    }

    /// What the backup says about volumes.
    pub(super) fn volume_rules(&self) -> VolumeRules<'_> {
        let request = &self.request;
        VolumeRules {
            claims_are_left_out: self.plan.preferred(CLAIMS).is_none_or(|claims| !claims.included),
            ..VolumeRules::new(&request.backup.spec, request.policies.as_ref(), &request.features)
        }
    }

    /// Says that the data of a volume is not moved, which the backup asks for.
    pub(super) fn tell_of_unmoved(&self, volume: &Value, where_it_is: &str) {
        let name = volume["metadata"]["name"].as_str().unwrap_or_default();
        let of_claim = claim_of(volume).map(|(namespace, claim)| format!(" (claim {namespace}/{claim})"));
        let message = format!(
            "The data of volume {name}{} is not moved, which snapshotMoveData of the backup asks for and this server cannot do \
             yet; {where_it_is}. Back it up without snapshotMoveData, or leave it out with a volume policy",
            of_claim.unwrap_or_default()
        );
        self.journal.error().object(VOLUMES, None, name).message(&message);
    }

    pub(super) async fn decide(&self, volume: &Value) -> ItemResult<VolumeDecision> {
        let rules = self.volume_rules();
        let mut data = VolumeData::of_persistent_volume(volume);
        let Some((namespace, claim)) = claim_of(volume) else {
            return Ok(rules.decide(&data, &[]));
        };
        if let Some(claims) = self.plan.preferred(CLAIMS).filter(|_| rules.ask_for_claims()) {
            let found = self.request.cluster.get(&claims.resource_type, Some(namespace), claim).await;
            let found =
                found.map_err(|error| format!("error getting claim {namespace}/{claim} of the volume: {error}"))?;
            if let Some(claim) = found {
                data = data.with_claim(&claim);
            }
        }
        if rules.policy_action(&data).is_some() {
            return Ok(rules.decide(&data, &[]));
        }
        let mounts = self.volumes.mounts.of_claim(self, namespace, claim).await?;
        Ok(rules.decide(&data, &mounts))
    }
}

/// The claim of a volume: its namespace and name.
fn claim_of(volume: &Value) -> Option<(&str, &str)> {
    let claim = &volume["spec"]["claimRef"];
    Some((claim["namespace"].as_str()?, claim["name"].as_str()?))
}

/// What is known of a volume whatever becomes of it.
pub(super) fn info_of(volume: &Value) -> BackupVolumeInfo {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (pvc_namespace, pvc_name) = claim_of(volume).unwrap_or_default();
    let labels = volume["metadata"]["labels"].as_object().into_iter().flatten();
    BackupVolumeInfo {
        pvc_name: pvc_name.to_owned(),
        pvc_namespace: pvc_namespace.to_owned(),
        pv_name: text(&volume["metadata"]["name"]),
        pv_info: Some(PvInfo {
            reclaim_policy: text(&volume["spec"]["persistentVolumeReclaimPolicy"]),
            labels: labels.map(|(key, value)| (key.clone(), text(value))).collect(),
            ..PvInfo::default()
        }),
        ..BackupVolumeInfo::default()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_api::records::{SnapshotPhase, VolumeResult};

    use super::*;

    fn volume(name: &str) -> Value {
        let claim = json!({"namespace": "shop", "name": "data"});
        let spec = json!({"claimRef": claim, "persistentVolumeReclaimPolicy": "Retain"});
        json!({"metadata": {"name": name, "labels": {"a": "b"}}, "spec": spec})
    }

    #[test]
    fn a_volume_is_told_of_with_its_claim_whatever_became_of_it() {
        let volumes = Volumes::new(&BackupSpec::default(), TakenSnapshots::default());
        let mut snapshot = Snapshot::default();
        snapshot.status.phase = Some(SnapshotPhase::Completed);
        snapshot.status.provider_snapshot_id = "s1".to_owned();
        volumes.note_snapshot(&volume("pv-1"), snapshot);
        volumes.note_skipped(&volume("pv-2"), BY_SNAPSHOT, "no reason");
        let [skipped, taken] = &volumes.infos()[..] else { panic!("two volumes") };
        assert_eq!((skipped.pv_name.as_str(), skipped.skipped_reason.as_str()), ("pv-2", "volumeSnapshot: no reason;"));
        assert_eq!((taken.pvc_namespace.as_str(), taken.pvc_name.as_str()), ("shop", "data"));
        assert_eq!(taken.result, Some(VolumeResult::Succeeded));
        assert_eq!(taken.native_snapshot_info.as_ref().unwrap().snapshot_handle, "s1");
        let kept = taken.pv_info.as_ref().unwrap();
        assert_eq!((kept.reclaim_policy.as_str(), kept.labels["a"].as_str()), ("Retain", "b"));
        assert_eq!(volumes.taken.all().len(), 1);
    }
}

//! Persistent volumes and their claims: which volume is made again, and which is left to a provisioner.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use serde_json::Value;
use velero_api::records::{
    BackupVolumeInfo, CsiSnapshotInfo, PvInfo, RestoreVolumeInfo, Snapshot, VolumeMethod, VolumeResult,
};
use velero_api::v1::RestoreSpec;
use velero_api::{FeatureFlags, annotations};

use super::object::{annotation, reset_binding, text};
use super::run::lock;
use super::volume_infos::Infos;

/// What is done with a volume of the backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeVerdict {
    /// It is made as it was; it holds its data.
    AsItWas,
    /// It is not made: its claim gets a new one, and there is no data to bring back.
    Anew,
    /// It is not made: its claim gets a new one, and its data is in the backup.
    AnewWithData(&'static str),
    /// It is made from its snapshot.
    FromSnapshot,
}

const NEEDS_CSI: &str = "a CSI snapshot, which needs a server with --features=EnableCSI";

/// The volumes of a restore.
pub(super) struct Volumes {
    infos: Infos,
    snapshots: BTreeMap<String, Snapshot>,
    restore_data: bool,
    /// Whether the actions on claims restore CSI snapshots.
    csi: bool,
    mapping: BTreeMap<String, String>,
    /// Volumes whose claims get new ones.
    anew: Mutex<HashSet<String>>,
    /// Volumes that are made under another name.
    renamed: Mutex<HashMap<String, String>>,
    /// Volumes that were made from a snapshot.
    restored: Mutex<Vec<RestoreVolumeInfo>>,
}

impl Volumes {
    pub(super) fn new(
        infos: Vec<BackupVolumeInfo>,
        snapshots: Vec<Snapshot>,
        spec: &RestoreSpec,
        features: &FeatureFlags,
    ) -> Self {
        let by_volume = |snapshot: Snapshot| (snapshot.spec.persistent_volume_name.clone(), snapshot);
        Self {
            infos: Infos::new(infos),
            snapshots: snapshots.into_iter().map(by_volume).collect(),
            restore_data: spec.restore_pvs != Some(false),
            csi: features.csi(),
            mapping: spec.namespace_mapping.clone(),
            anew: Mutex::default(),
            renamed: Mutex::default(),
            restored: Mutex::default(),
        }
    }

    /// Decides about a volume, prepares it if it is to be made, and remembers if its claim gets a new one.
    pub(super) fn handle(&self, volume: &mut Value) -> VolumeVerdict {
        let name = text(volume, "/metadata/name").to_owned();
        let verdict = self.decide(&name, volume);
        match verdict {
            VolumeVerdict::AsItWas => {
                self.map_claim(volume);
                reset_binding(volume);
            }
            VolumeVerdict::Anew | VolumeVerdict::AnewWithData(_) => {
                lock(&self.anew).insert(name);
            }
            VolumeVerdict::FromSnapshot => {}
        }
        verdict
    }

    /// What is known of a volume by its name, or else by its claim.
    fn known(&self, name: &str, volume: &Value) -> Option<(usize, &BackupVolumeInfo)> {
        let by_claim = || {
            let of = |pointer| text(volume, pointer);
            let mut known = self.infos.of_claim(of("/spec/claimRef/namespace"), of("/spec/claimRef/name"));
            known.find(|(_, info)| info.pv_name.is_empty())
        };
        self.infos.of_volume(name).or_else(by_claim)
    }

    fn decide(&self, name: &str, volume: &Value) -> VolumeVerdict {
        let known = self.known(name, volume);
        // Backups of old have no file about volumes, but the one about snapshots.
        let has_snapshot = self.snapshots.contains_key(name) && self.infos.of_volume(name).is_none();
        let method = match known {
            _ if has_snapshot => Some(&VolumeMethod::NativeSnapshot),
            Some((_, info)) => info.backup_method.as_ref(),
            None => None,
        };
        if let Some((index, what)) = known.filter(|_| !has_snapshot).and_then(|(at, info)| Some((at, self.lost(info)?)))
        {
            self.infos.tell(index);
            return VolumeVerdict::AnewWithData(what);
        }
        match method {
            Some(VolumeMethod::NativeSnapshot) if self.restore_data => VolumeVerdict::FromSnapshot,
            Some(VolumeMethod::NativeSnapshot) => VolumeVerdict::AsItWas,
            Some(VolumeMethod::PodVolumeBackup | VolumeMethod::CsiSnapshot) => VolumeVerdict::Anew,
            _ if text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" => VolumeVerdict::Anew,
            _ => VolumeVerdict::AsItWas,
        }
    }

    /// Where the data of a volume is that is wanted and cannot be brought back.
    fn lost(&self, info: &BackupVolumeInfo) -> Option<&'static str> {
        // A copy without a snapshot is that of an empty volume.
        let has_copy = || info.pvb_info.as_ref().is_none_or(|copy| !copy.snapshot_handle.is_empty());
        match info.backup_method {
            _ if !self.restore_data => None,
            Some(VolumeMethod::PodVolumeBackup) if has_copy() || info.result == Some(VolumeResult::Failed) => {
                Some("a pod volume backup, which this version cannot restore")
            }
            Some(VolumeMethod::CsiSnapshot) if info.snapshot_data_moved => {
                Some("a data mover's repository, which this version cannot restore")
            }
            Some(VolumeMethod::CsiSnapshot) if !self.csi => Some(NEEDS_CSI),
            _ => None,
        }
    }

    /// Where the data of a claim is that does not come back with it, unless that was told already.
    pub(super) fn left_of_claim(&self, namespace: &str, claim: &Value) -> Option<&'static str> {
        let mut known = self.infos.of_claim(namespace, text(claim, "/metadata/name")).peekable();
        if known.peek().is_none() {
            // Backups of old have no file about volumes, but their claims name their snapshots.
            let has_snapshot = annotation(claim, annotations::VOLUME_SNAPSHOT_NAME).is_some();
            return (self.infos.is_without_volumes() && has_snapshot && !self.csi && self.restore_data)
                .then_some(NEEDS_CSI);
        }
        let lost: Vec<_> = known.filter_map(|(index, info)| Some((index, self.lost(info)?))).collect();
        lost.into_iter().filter(|(index, _)| self.infos.tell(*index)).map(|(_, what)| what).next()
    }

    /// The volumes of a pod whose data does not come back with it, unless that was told already, and where it is.
    pub(super) fn left_of_pod(&self, namespace: &str, pod: &str) -> Vec<(String, &'static str)> {
        let lost = self.infos.of_pod(namespace, pod).filter_map(|(index, info)| Some((index, info, self.lost(info)?)));
        let untold = lost.filter(|(index, ..)| self.infos.tell(*index));
        let volume = |info: &BackupVolumeInfo| info.pvb_info.as_ref().map(|copy| copy.volume_name.clone());
        untold.map(|(_, info, what)| (volume(info).unwrap_or_default(), what)).collect()
    }

    /// The claim whose data an upload of a data mover holds, if nothing else tells of it.
    pub(super) fn left_of_upload<'u>(&self, upload: &'u Value) -> Option<(&'u str, &'u str)> {
        let claim = (text(upload, "/spec/sourceNamespace"), text(upload, "/spec/sourcePVC"));
        let is_known = self.infos.of_claim(claim.0, claim.1).next().is_some();
        (self.restore_data && !claim.1.is_empty() && !is_known).then_some(claim)
    }

    /// The snapshot of a volume.
    pub(super) fn snapshot(&self, volume: &str) -> Option<&Snapshot> {
        self.snapshots.get(volume)
    }

    /// Notes that a volume is made under another name.
    pub(super) fn rename(&self, volume: &str, name: &str) {
        lock(&self.renamed).insert(volume.to_owned(), name.to_owned());
    }

    /// Notes that a volume was made from a snapshot.
    pub(super) fn note_restored(&self, volume: &Value, snapshot: &Snapshot) {
        let of = |pointer: &str| text(volume, pointer).to_owned();
        lock(&self.restored).push(RestoreVolumeInfo {
            pvc_name: of("/spec/claimRef/name"),
            pvc_namespace: of("/spec/claimRef/namespace"),
            pv_name: of("/metadata/name"),
            restore_method: Some(VolumeMethod::NativeSnapshot),
            native_snapshot_info: Some(snapshot.info()),
            ..RestoreVolumeInfo::default()
        });
    }

    /// Notes a claim whose volume is made of a CSI snapshot.
    pub(super) fn note_claim(&self, claim: &Value, original: &str, target: &str) {
        let name = text(claim, "/metadata/name");
        if text(claim, "/spec/dataSource/kind") != "VolumeSnapshot" {
            return;
        }
        let info = self.of_claim(original, name).find(|info| info.csi_snapshot_info.is_some());
        let Some(snapshot) = info.and_then(|info| info.csi_snapshot_info.clone()) else {
            return;
        };
        lock(&self.restored).push(RestoreVolumeInfo {
            pvc_name: name.to_owned(),
            pvc_namespace: target.to_owned(),
            restore_method: Some(VolumeMethod::CsiSnapshot),
            csi_snapshot_info: Some(CsiSnapshotInfo {
                snapshot_handle: snapshot.snapshot_handle,
                size: snapshot.size,
                driver: snapshot.driver,
                vsc_name: text(claim, "/spec/dataSource/name").to_owned(),
                ..CsiSnapshotInfo::default()
            }),
            ..RestoreVolumeInfo::default()
        });
    }

    /// What is known of the volume that a claim had whose data comes from a CSI snapshot.
    pub(super) fn old_volume(&self, namespace: &str, claim: &str) -> Option<PvInfo> {
        if !self.csi || !self.restore_data {
            return None;
        }
        let is_csi = |info: &&BackupVolumeInfo| info.backup_method == Some(VolumeMethod::CsiSnapshot);
        self.of_claim(namespace, claim).find(is_csi)?.pv_info.clone()
    }

    /// What is known of the volumes that a claim had.
    fn of_claim(&self, namespace: &str, claim: &str) -> impl Iterator<Item = &BackupVolumeInfo> {
        self.infos.of_claim(namespace, claim).map(|(_, info)| info)
    }

    /// The volumes that were made from a snapshot, by name.
    pub(super) fn restored(&self) -> Vec<RestoreVolumeInfo> {
        let mut restored = std::mem::take(&mut *lock(&self.restored));
        let key = |info: &RestoreVolumeInfo| [&info.pv_name, &info.pvc_namespace, &info.pvc_name].map(String::clone);
        restored.sort_by_key(key);
        restored
    }

    /// Whether the claim of a volume goes into another namespace.
    pub(super) fn moves_claim(&self, volume: &Value) -> bool {
        self.mapping.contains_key(text(volume, "/spec/claimRef/namespace"))
    }

    /// Lets a volume wait for its claim in the namespace where that goes.
    pub(super) fn map_claim(&self, volume: &mut Value) {
        let target = self.mapping.get(text(volume, "/spec/claimRef/namespace")).cloned();
        if let (Some(target), Some(claim)) =
            (target, volume.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut))
        {
            claim.insert("namespace".to_owned(), target.into());
        }
    }

    /// Frees a claim from what bound it, and from its volume if that is not made again.
    pub(super) fn free_claim(&self, claim: &mut Value) {
        let volume = text(claim, "/spec/volumeName").to_owned();
        if volume.is_empty() {
            return;
        }
        reset_binding(claim);
        let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else {
            return;
        };
        if lock(&self.anew).contains(&volume) {
            spec.remove("volumeName");
        }
        if let Some(name) = lock(&self.renamed).get(&volume) {
            spec.insert("volumeName".to_owned(), name.as_str().into());
        }
    }
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;

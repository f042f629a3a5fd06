//! Persistent volumes and their claims: which volume is made again, and which is left to a provisioner.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use serde_json::Value;
use velero_api::FeatureFlags;
use velero_api::records::{BackupVolumeInfo, CsiSnapshotInfo, PvInfo, RestoreVolumeInfo, Snapshot, VolumeMethod};
use velero_api::v1::RestoreSpec;

use super::object::{reset_binding, text};
use super::run::lock;

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

/// The volumes of a restore.
pub(super) struct Volumes {
    infos: BTreeMap<String, BackupVolumeInfo>,
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
            infos: infos.into_iter().map(|info| (info.pv_name.clone(), info)).collect(),
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

    fn decide(&self, name: &str, volume: &Value) -> VolumeVerdict {
        // Backups of old have no file about volumes, but the one about snapshots.
        let by_snapshot = || self.snapshots.get(name).map(|_| &VolumeMethod::NativeSnapshot);
        let method = match self.infos.get(name) {
            Some(info) => info.backup_method.as_ref(),
            None => by_snapshot(),
        };
        match method {
            Some(VolumeMethod::NativeSnapshot) if self.restore_data => VolumeVerdict::FromSnapshot,
            Some(VolumeMethod::NativeSnapshot) => VolumeVerdict::AsItWas,
            Some(VolumeMethod::PodVolumeBackup) => {
                self.anew_with_data("a pod volume backup, which this version cannot restore")
            }
            Some(VolumeMethod::CsiSnapshot) if self.is_moved(name) => {
                self.anew_with_data("a data mover's repository, which this version cannot restore")
            }
            Some(VolumeMethod::CsiSnapshot) if self.csi => VolumeVerdict::Anew,
            Some(VolumeMethod::CsiSnapshot) => {
                self.anew_with_data("a CSI snapshot, which needs a server with --features=EnableCSI")
            }
            _ if text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" => VolumeVerdict::Anew,
            _ => VolumeVerdict::AsItWas,
        }
    }

    fn is_moved(&self, name: &str) -> bool {
        self.infos.get(name).is_some_and(|info| info.snapshot_data_moved)
    }

    fn anew_with_data(&self, what: &'static str) -> VolumeVerdict {
        if self.restore_data { VolumeVerdict::AnewWithData(what) } else { VolumeVerdict::Anew }
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
        self.infos.values().filter(move |info| info.pvc_name == claim && info.pvc_namespace == namespace)
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
mod tests {
    use serde_json::json;

    use super::*;

    fn volumes(method: Option<VolumeMethod>, restore_pvs: Option<bool>) -> Volumes {
        let info =
            BackupVolumeInfo { pv_name: "pv-1".to_owned(), backup_method: method, ..BackupVolumeInfo::default() };
        let mapping = BTreeMap::from([("shop".to_owned(), "shop-2".to_owned())]);
        let spec = RestoreSpec { restore_pvs, namespace_mapping: mapping, ..RestoreSpec::default() };
        Volumes::new(vec![info], Vec::new(), &spec, &FeatureFlags::default())
    }

    fn volume(policy: &str) -> Value {
        let claim = json!({"namespace": "shop", "name": "data", "uid": "1", "resourceVersion": "2"});
        json!({"metadata": {"name": "pv-1"}, "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": claim}})
    }

    #[test]
    fn the_way_it_was_backed_up_decides_then_the_reclaim_policy() {
        use VolumeMethod::{CsiSnapshot, NativeSnapshot, PodVolumeBackup};
        for (method, restore_pvs, policy, expected) in [
            (Some(NativeSnapshot), None, "Delete", VolumeVerdict::FromSnapshot),
            (Some(NativeSnapshot), Some(false), "Delete", VolumeVerdict::AsItWas),
            (
                Some(PodVolumeBackup),
                None,
                "Retain",
                VolumeVerdict::AnewWithData("a pod volume backup, which this version cannot restore"),
            ),
            (Some(PodVolumeBackup), Some(false), "Retain", VolumeVerdict::Anew),
            (
                Some(CsiSnapshot),
                Some(true),
                "Retain",
                VolumeVerdict::AnewWithData("a CSI snapshot, which needs a server with --features=EnableCSI"),
            ),
            (None, None, "Delete", VolumeVerdict::Anew),
            (None, None, "Retain", VolumeVerdict::AsItWas),
            (None, None, "", VolumeVerdict::AsItWas),
        ] {
            let verdict = volumes(method.clone(), restore_pvs).handle(&mut volume(policy));
            assert_eq!(verdict, expected, "{method:?} {restore_pvs:?} {policy}");
        }
    }

    #[test]
    fn with_the_feature_a_csi_snapshot_is_left_to_the_actions_on_the_claim_and_told_of() {
        let info = BackupVolumeInfo {
            pv_name: "pv-1".to_owned(),
            pvc_namespace: "shop".to_owned(),
            pvc_name: "data".to_owned(),
            backup_method: Some(VolumeMethod::CsiSnapshot),
            csi_snapshot_info: Some(CsiSnapshotInfo { snapshot_handle: "h".to_owned(), ..CsiSnapshotInfo::default() }),
            ..BackupVolumeInfo::default()
        };
        let moved = BackupVolumeInfo { pv_name: "pv-2".to_owned(), snapshot_data_moved: true, ..info.clone() };
        let features = ["EnableCSI"].into_iter().collect();
        let volumes = Volumes::new(vec![info, moved], Vec::new(), &RestoreSpec::default(), &features);
        assert_eq!(volumes.handle(&mut volume("Retain")), VolumeVerdict::Anew);
        let mut other = volume("Retain");
        other["metadata"]["name"] = json!("pv-2");
        assert!(matches!(volumes.handle(&mut other), VolumeVerdict::AnewWithData(_)));
        let source = json!({"kind": "VolumeSnapshot", "name": "new"});
        volumes.note_claim(&json!({"metadata": {"name": "data"}, "spec": {}}), "shop", "shop-2");
        volumes.note_claim(&json!({"metadata": {"name": "data"}, "spec": {"dataSource": source}}), "shop", "shop-2");
        let [restored] = &volumes.restored()[..] else { panic!("one claim") };
        assert_eq!((restored.pvc_namespace.as_str(), restored.pvc_name.as_str()), ("shop-2", "data"));
        let csi = restored.csi_snapshot_info.as_ref().unwrap();
        assert_eq!((csi.snapshot_handle.as_str(), csi.vsc_name.as_str()), ("h", "new"));
    }

    #[test]
    fn a_kept_volume_waits_for_its_claim_in_the_new_namespace() {
        let volumes = volumes(None, None);
        let mut kept = volume("Retain");
        volumes.handle(&mut kept);
        assert_eq!(kept["spec"]["claimRef"], json!({"namespace": "shop-2", "name": "data"}));
        let mut claim = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv-1"}});
        volumes.free_claim(&mut claim);
        assert_eq!(claim, json!({"metadata": {"annotations": {}}, "spec": {"volumeName": "pv-1"}}));
    }

    #[test]
    fn a_claim_whose_volume_is_not_made_again_gets_a_new_one() {
        let volumes = volumes(None, None);
        volumes.handle(&mut volume("Delete"));
        let mut claim = json!({"metadata": {}, "spec": {"volumeName": "pv-1", "accessModes": []}});
        volumes.free_claim(&mut claim);
        assert_eq!(claim["spec"], json!({"accessModes": []}));
    }

    #[test]
    fn a_backup_without_a_file_about_volumes_is_judged_by_its_snapshots() {
        let mut snapshot = Snapshot::default();
        snapshot.spec.persistent_volume_name = "pv-1".to_owned();
        let volumes = Volumes::new(Vec::new(), vec![snapshot], &RestoreSpec::default(), &FeatureFlags::default());
        assert_eq!(volumes.handle(&mut volume("Delete")), VolumeVerdict::FromSnapshot);
        assert!(volumes.snapshot("pv-1").is_some() && volumes.snapshot("pv-2").is_none());
    }

    #[test]
    fn a_claim_follows_its_volume_to_another_name() {
        let volumes = volumes(None, None);
        assert!(volumes.moves_claim(&volume("Retain")));
        volumes.rename("pv-1", "velero-clone-1");
        let mut claim = json!({"metadata": {}, "spec": {"volumeName": "pv-1"}});
        volumes.free_claim(&mut claim);
        assert_eq!(claim["spec"]["volumeName"], "velero-clone-1");
    }
}

//! Which snapshots in repositories a backup owns, from all records that tell of them.

use std::collections::{BTreeMap, BTreeSet};

use velero_api::DataMovePhase;
use velero_api::metadata::name;
use velero_api::records::{BackupVolumeInfo, VolumeMethod, VolumeResult};
use velero_api::repository::KOPIA;
use velero_api::v1::PodVolumeBackup;
use velero_api::v2alpha1::DataUpload;

/// A repository: that of a namespace in a location.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepositoryKey {
    /// The namespace whose volumes it holds.
    pub namespace: String,
    /// The location it is in.
    pub location: String,
}

/// The snapshots of a backup, and what of its volume data cannot be removed here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnedSnapshots {
    /// The snapshots by repository.
    pub by_repository: BTreeMap<RepositoryKey, BTreeSet<String>>,
    /// Repositories that may have snapshots of which no record tells: what was to be saved there has not ended well, and may
    /// have been saved all the same.
    pub searched: BTreeSet<RepositoryKey>,
    /// What cannot be removed, and why.
    obstacles: BTreeSet<String>,
    /// Claims whose data was moved, and of whose snapshot nothing is known so far.
    unknown: BTreeSet<(String, String)>,
    /// Claims whose DataUpload was seen.
    seen: BTreeSet<(String, String)>,
}

impl OwnedSnapshots {
    /// Why not everything can be removed; `None` when it can.
    pub fn obstacle(&self) -> Option<String> {
        let lost = self.unknown.difference(&self.seen).map(|(namespace, claim)| {
            format!("the data of claim {namespace}/{claim} was moved, and no record says which snapshot it is")
        });
        let all: Vec<String> = self.obstacles.iter().cloned().chain(lost).collect();
        if all.is_empty() { None } else { Some(all.join("; ")) }
    }

    /// Whether records are to be looked for in the archive.
    pub fn wants_uploads(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Takes a PodVolumeBackup of a backup in a location. What it says of its location itself does not count: where the backup
    /// was made the location may have another name.
    pub fn add_copy(&mut self, copy: &PodVolumeBackup, location: &str) {
        let (spec, snapshot) = (&copy.spec, &copy.status.snapshot_id);
        let pod = spec.pod.name.as_deref().unwrap_or_default();
        let namespace = spec.pod.namespace.as_deref().unwrap_or_default();
        if snapshot.is_empty() && spec.uploader_type == KOPIA && has_broken_off(copy.status.phase()) {
            self.search(namespace, location);
        }
        self.add_of_pod(&spec.uploader_type, (namespace, pod, &spec.volume), location, snapshot);
    }

    /// Takes a DataUpload of a backup in a location, as [`OwnedSnapshots::add_copy`] does.
    pub fn add_upload(&mut self, upload: &DataUpload, location: &str) {
        let spec = &upload.spec;
        self.seen.insert((spec.source_namespace.clone(), spec.source_pvc.clone()));
        if upload.status.snapshot_id.is_empty() {
            if is_own_mover(&spec.data_mover) && has_broken_off(upload.status.phase()) {
                self.search(&spec.source_namespace, location);
            }
            return;
        }
        if !is_own_mover(&spec.data_mover) {
            let what = format!("DataUpload {}", name(upload));
            self.refuse_mover(&what, &spec.data_mover);
            return;
        }
        self.add(&spec.source_namespace, location, &upload.status.snapshot_id);
    }

    /// Takes what a backup in a location says of a volume.
    pub fn add_volume(&mut self, volume: &BackupVolumeInfo, location: &str) {
        if volume.skipped {
            return;
        }
        if let Some(copy) = &volume.pvb_info {
            let place = (copy.pod_namespace.as_str(), copy.pod_name.as_str(), copy.volume_name.as_str());
            self.add_of_pod(&copy.uploader_type, place, location, &copy.snapshot_handle);
        }
        if !volume.snapshot_data_moved {
            return self.refuse_unknown(volume);
        }
        let claim = (volume.pvc_namespace.clone(), volume.pvc_name.clone());
        let moved = volume.snapshot_data_movement_info.as_ref();
        let mover = moved.map(|moved| moved.data_mover.as_str()).unwrap_or_default();
        let snapshot = moved.map(|moved| moved.snapshot_handle.as_str()).unwrap_or_default();
        let phase = moved.map(|moved| moved.phase.as_str()).unwrap_or_default();
        match snapshot {
            // What did not come to an end has left nothing that could be restored.
            "" if volume.result == Some(VolumeResult::Failed) || has_failed(phase) => {
                if is_own_mover(mover) && !volume.pvc_namespace.is_empty() {
                    self.search(&volume.pvc_namespace, location);
                }
            }
            "" => drop(self.unknown.insert(claim)),
            _ if !is_own_mover(mover) => self.refuse_mover(&format!("claim {}/{}", claim.0, claim.1), mover),
            snapshot => {
                self.add(&volume.pvc_namespace, location, snapshot);
                self.seen.insert(claim);
            }
        }
    }

    /// Takes a snapshot that Velero noted down in a ConfigMap when it began to delete the backup.
    pub fn add_note(&mut self, note: &BTreeMap<String, String>) {
        let value = |key: &str| note.get(key).map(String::as_str).unwrap_or_default();
        let (namespace, snapshot) = (value("volumeNamespace"), value("snapshotID"));
        if !namespace.is_empty() && !snapshot.is_empty() && value("repositoryType") == KOPIA {
            self.add(namespace, value("backupStorageLocation"), snapshot);
        }
    }

    fn add_of_pod(
        &mut self,
        uploader: &str,
        (namespace, pod, volume): (&str, &str, &str),
        location: &str,
        snapshot: &str,
    ) {
        if snapshot.is_empty() {
            return;
        }
        if uploader != KOPIA {
            let uploader = if uploader.is_empty() { "restic" } else { uploader };
            self.obstacles.insert(format!(
                "volume {volume} of pod {namespace}/{pod} was saved by {uploader}, whose repositories this server cannot use; \
                 delete it with the server that made it"
            ));
            return;
        }
        self.add(namespace, location, snapshot);
    }

    /// Refuses data that was saved in a way of which no more is known.
    fn refuse_unknown(&mut self, volume: &BackupVolumeInfo) {
        let by_snapshot = [Some(VolumeMethod::NativeSnapshot), Some(VolumeMethod::CsiSnapshot)];
        let is_known = by_snapshot.contains(&volume.backup_method) || volume.pvb_info.is_some();
        if is_known || volume.result == Some(VolumeResult::Failed) {
            return;
        }
        let method = volume.backup_method.as_ref().map_or_else(|| "nothing known".to_owned(), ToString::to_string);
        self.obstacles.insert(format!(
            "the data of volume {:?} (claim {}/{}) was saved by {method}, and no record says where it is; delete it with the \
             server that made it",
            volume.pv_name, volume.pvc_namespace, volume.pvc_name
        ));
    }

    fn refuse_mover(&mut self, what: &str, mover: &str) {
        self.obstacles.insert(format!(
            "the data of {what} was moved by data mover {mover:?}, which alone can remove it; delete it with the server that \
             has that data mover"
        ));
    }

    fn add(&mut self, namespace: &str, location: &str, snapshot: &str) {
        self.by_repository.entry(key(namespace, location)).or_default().insert(snapshot.to_owned());
    }

    fn search(&mut self, namespace: &str, location: &str) {
        self.searched.insert(key(namespace, location));
    }
}

fn key(namespace: &str, location: &str) -> RepositoryKey {
    RepositoryKey { namespace: namespace.to_owned(), location: location.to_owned() }
}

/// Whether data may have been saved of which no record tells: somebody took the transfer, and it did not end well.
fn has_broken_off(phase: &DataMovePhase) -> bool {
    !matches!(phase, DataMovePhase::New | DataMovePhase::Completed)
}

/// Whether the data mover is the built-in one.
fn is_own_mover(mover: &str) -> bool {
    matches!(mover, "" | "velero")
}

fn has_failed(phase: &str) -> bool {
    let failed = [DataMovePhase::Failed, DataMovePhase::Canceled];
    failed.iter().any(|failed| failed.to_string() == phase)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volume(value: Value) -> BackupVolumeInfo {
        serde_json::from_value(value).unwrap()
    }

    fn copy(uploader: &str, snapshot: &str) -> PodVolumeBackup {
        serde_json::from_value(json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": { "name": "b-1" },
            "spec": { "node": "n", "pod": { "namespace": "shop", "name": "web" }, "volume": "data",
                "backupStorageLocation": "elsewhere", "repoIdentifier": "", "uploaderType": uploader },
            "status": { "snapshotID": snapshot },
        }))
        .unwrap()
    }

    fn upload(mover: &str, snapshot: &str) -> DataUpload {
        serde_json::from_value(json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": { "name": "u-1" },
            "spec": { "snapshotType": "CSI", "sourcePVC": "c", "sourceNamespace": "shop", "datamover": mover,
                "backupStorageLocation": "elsewhere", "operationTimeout": "1m0s" },
            "status": { "snapshotID": snapshot },
        }))
        .unwrap()
    }

    fn ids(owned: &OwnedSnapshots) -> Vec<String> {
        let entries = owned.by_repository.iter();
        entries.map(|(key, ids)| format!("{}/{}: {ids:?}", key.namespace, key.location)).collect()
    }

    #[test]
    fn all_records_of_a_snapshot_mean_the_same_one() {
        let mut owned = OwnedSnapshots::default();
        owned.add_copy(&copy("kopia", "k1"), "default");
        owned.add_volume(
            &volume(json!({ "pvbInfo": { "snapshotHandle": "k1", "uploaderType": "kopia", "podNamespace": "shop" } })),
            "default",
        );
        owned.add_upload(&upload("velero", "k2"), "default");
        let moved = json!({ "pvcNamespace": "shop", "pvcName": "c", "snapshotDataMoved": true,
            "snapshotDataMovementInfo": { "dataMover": "", "snapshotHandle": "k2" } });
        owned.add_volume(&volume(moved), "default");
        owned.add_note(&BTreeMap::from(
            [("volumeNamespace", "other"), ("snapshotID", "k3"), ("repositoryType", "kopia")]
                .map(|(key, value)| (key.to_owned(), value.to_owned())),
        ));
        assert_eq!(ids(&owned), [r#"other/: {"k3"}"#, r#"shop/default: {"k1", "k2"}"#]);
        assert_eq!((owned.obstacle(), owned.wants_uploads()), (None, false));
    }

    #[test]
    fn what_has_no_snapshot_leaves_nothing() {
        let mut owned = OwnedSnapshots::default();
        owned.add_copy(&copy("kopia", ""), "default");
        owned.add_copy(&copy("restic", ""), "default");
        owned.add_upload(&upload("vendor", ""), "default");
        for value in [
            json!({ "backupMethod": "CSISnapshot" }),
            json!({ "snapshotDataMoved": true, "result": "failed" }),
            json!({ "snapshotDataMoved": true, "snapshotDataMovementInfo": { "Phase": "Canceled" } }),
            json!({ "snapshotDataMoved": true, "skipped": true }),
            json!({ "backupMethod": "PodVolumeBackup", "result": "failed" }),
        ] {
            owned.add_volume(&volume(value), "default");
        }
        assert_eq!((ids(&owned).len(), owned.obstacle()), (0, None));
    }

    #[test]
    fn where_something_has_broken_off_snapshots_without_a_record_are_looked_for() {
        for (phase, expected) in [
            (DataMovePhase::New, 0),
            (DataMovePhase::Completed, 0),
            (DataMovePhase::InProgress, 1),
            (DataMovePhase::Failed, 1),
            (DataMovePhase::Canceled, 1),
        ] {
            let (mut of_copy, mut of_upload) = (OwnedSnapshots::default(), OwnedSnapshots::default());
            let (mut copy, mut upload) = (copy("kopia", ""), upload("", ""));
            (copy.status.phase, upload.status.phase) = (Some(phase.clone()), Some(phase.clone()));
            of_copy.add_copy(&copy, "default");
            of_upload.add_upload(&upload, "default");
            assert_eq!((of_copy.searched.len(), of_upload.searched.len()), (expected, expected), "{phase}");
            assert!(of_copy.by_repository.is_empty() && of_upload.obstacle().is_none(), "{phase}");
            (copy.status.snapshot_id, copy.spec.uploader_type) = (String::new(), "restic".to_owned());
            upload.spec.data_mover = "vendor".to_owned();
            let mut of_others = OwnedSnapshots::default();
            of_others.add_copy(&copy, "default");
            of_others.add_upload(&upload, "default");
            assert!(of_others.searched.is_empty(), "{phase}: those of others are not known here");
        }
        let mut owned = OwnedSnapshots::default();
        let failed = json!({ "pvcNamespace": "shop", "pvcName": "c", "snapshotDataMoved": true, "result": "failed" });
        owned.add_volume(&volume(failed), "default");
        assert_eq!(owned.searched, BTreeSet::from([key("shop", "default")]));
    }

    #[test]
    fn what_others_saved_cannot_be_removed_here() {
        for uploader in ["restic", ""] {
            let mut owned = OwnedSnapshots::default();
            owned.add_copy(&copy(uploader, "r"), "default");
            assert!(owned.obstacle().unwrap().contains("pod shop/web was saved by restic"));
        }
        for value in [json!({ "backupMethod": "PodVolumeBackup", "pvName": "pv" }), json!({ "backupMethod": "Magic" })]
        {
            let mut owned = OwnedSnapshots::default();
            owned.add_volume(&volume(value), "default");
            assert!(owned.obstacle().unwrap().contains("no record says where it is"));
        }
        let mut owned = OwnedSnapshots::default();
        owned.add_upload(&upload("vendor.io/mover", "v"), "default");
        assert!(owned.obstacle().unwrap().contains("vendor.io/mover"));
        assert!(owned.by_repository.is_empty());
    }

    #[test]
    fn moved_data_without_a_handle_is_found_by_its_upload_or_named() {
        let moved = volume(json!({ "pvcNamespace": "shop", "pvcName": "c", "snapshotDataMoved": true }));
        let mut owned = OwnedSnapshots::default();
        owned.add_volume(&moved, "default");
        assert!(owned.wants_uploads());
        assert!(owned.obstacle().unwrap().contains("claim shop/c was moved"));
        owned.add_upload(&upload("", "k"), "default");
        assert_eq!((owned.obstacle(), ids(&owned).len()), (None, 1));
    }
}

//! What is told of volumes that a restore lets data movers fill, and what they get back when they are.

use serde_json::Value;
use velero_api::DataMovePhase;
use velero_api::records::{BackupVolumeInfo, PvInfo, RestoreVolumeInfo, SnapshotDataMovementInfo, VolumeMethod};
use velero_api::type_names::DATA_UPLOADS;
use velero_api::v2alpha1::{DOWNLOAD_OPERATION, DataUpload};
use velero_cluster::RawItem;

use super::super::CLAIMS;
use super::super::new_volumes::{Download, expect};
use super::super::restore_context::{RestoreContext, RestoreNotes, Wishes};
use super::{BUILT_IN, Claim, DataMovement, UPLOADER};
use crate::lock;
use crate::restore::{Item, Target};

impl DataMovement {
    /// Takes over what a DataUpload of the backup says. One that cannot be read is told of by the action on it.
    pub(super) fn learn(&self, resource: &str, work: &Value) {
        if resource != DATA_UPLOADS {
            return;
        }
        if let Ok(upload) = serde_json::from_value::<DataUpload>(work.clone()) {
            let claim = (upload.spec.source_namespace.clone(), upload.spec.source_pvc.clone());
            lock(&self.uploads).insert(claim, upload);
        }
    }

    pub(super) fn upload_of(&self, namespace: &str, claim: &str) -> Option<DataUpload> {
        lock(&self.uploads).get(&(namespace.to_owned(), claim.to_owned())).cloned()
    }

    /// Notes a claim whose volume is filled by an operation.
    pub(super) fn note_download(&self, restore: &RestoreContext<'_>, item: &Item, operation_id: &str) {
        let original = item.original.as_deref().unwrap_or_default();
        if &*item.resource != CLAIMS || !operation_id.starts_with(DOWNLOAD_OPERATION) {
            return;
        }
        lock(&self.downloads).insert(place(item), operation_id.to_owned());
        if let Some(upload) = self.upload_of(original, &item.name) {
            restore.volumes.note_restored(info(&upload, place(item), operation_id));
        }
    }

    /// Waits in the background for the new volume of a claim, if the old one is known.
    pub(super) fn expect_volume(&self, restore: &RestoreContext<'_>, target: &Target<'_>, created: &RawItem) {
        let Some(operation_id) = lock(&self.downloads).get(&place(target.item)).cloned() else {
            return;
        };
        let original = target.item.original.as_deref().unwrap_or_default();
        if let Some(old) = restore.volumes.moved_volume(original, &target.item.name) {
            expect(restore, target, created, old, Some(Download::new(restore, operation_id)));
        }
    }

    /// Where the data of a claim comes from, and how much it is.
    pub(super) fn source(&self, wishes: &Wishes, namespace: &str, claim: &str) -> Option<String> {
        let upload = self.upload_of(namespace, claim).filter(|_| wishes.restore_data && wishes.features.csi())?;
        (*upload.status.phase() == DataMovePhase::Completed).then(|| source_of(&upload))
    }
}

fn source_of(upload: &DataUpload) -> String {
    let (status, namespace) = (&upload.status, &upload.spec.source_namespace);
    let (snapshot, bytes) = (&status.snapshot_id, status.progress.total_bytes);
    match mover(upload) {
        BUILT_IN if snapshot.is_empty() => "its volume was empty".to_owned(),
        BUILT_IN => {
            format!(
                "its data, {bytes} bytes, comes from snapshot {snapshot} in the repository of namespace {namespace} at the location \
                 of the backup"
            )
        }
        mover => format!("its data, {bytes} bytes, is brought by data mover {mover} from its snapshot {snapshot:?}"),
    }
}

fn mover(upload: &DataUpload) -> &str {
    if upload.spec.data_mover.is_empty() { BUILT_IN } else { &upload.spec.data_mover }
}

/// Where a claim goes.
fn place(item: &Item) -> Claim {
    (item.target.as_deref().unwrap_or_default().to_owned(), item.name.to_string())
}

/// What is told of a claim whose volume is filled.
fn info(upload: &DataUpload, (pvc_namespace, pvc_name): Claim, operation_id: &str) -> RestoreVolumeInfo {
    RestoreVolumeInfo {
        pvc_name,
        pvc_namespace,
        restore_method: Some(VolumeMethod::CsiSnapshot),
        snapshot_data_moved: true,
        snapshot_data_movement_info: Some(SnapshotDataMovementInfo {
            data_mover: mover(upload).to_owned(),
            uploader_type: UPLOADER.to_owned(),
            snapshot_handle: upload.status.snapshot_id.clone(),
            operation_id: operation_id.to_owned(),
            ..SnapshotDataMovementInfo::default()
        }),
        ..RestoreVolumeInfo::default()
    }
}

impl RestoreNotes {
    /// What is known of the volume that a claim had whose data was moved.
    fn moved_volume(&self, namespace: &str, claim: &str) -> Option<PvInfo> {
        let is_moved = |info: &&BackupVolumeInfo| info.snapshot_data_moved;
        self.of_claim(namespace, claim).find(is_moved)?.pv_info.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_api::type_names::DATA_DOWNLOADS;

    use super::*;

    fn learned(mover: &str, status: &Value) -> DataMovement {
        let spec = json!({"sourceNamespace": "shop", "sourcePVC": "data", "datamover": mover});
        let movement = DataMovement::default();
        movement.learn(DATA_DOWNLOADS, &json!({"spec": spec}));
        movement.learn(DATA_UPLOADS, &json!({"metadata": {"name": "b-1"}, "spec": spec, "status": status}));
        movement
    }

    #[test]
    fn where_data_comes_from_and_how_much_is_said_before() {
        let done = json!({"phase": "Completed", "snapshotID": "k1", "progress": {"totalBytes": 4096}});
        let csi: velero_api::FeatureFlags = ["EnableCSI"].into_iter().collect();
        let wishes = |restore_data, features: &velero_api::FeatureFlags| {
            let features = features.clone();
            Wishes { restore_data, restore_copies: restore_data, features }
        };
        let wanted = wishes(true, &csi);
        let said = learned("", &done).source(&wanted, "shop", "data").unwrap();
        assert_eq!(
            said,
            "its data, 4096 bytes, comes from snapshot k1 in the repository of namespace shop at the location of the backup"
        );
        let vendor = learned("fast", &done).source(&wanted, "shop", "data").unwrap();
        assert!(vendor.contains("data mover fast"), "{vendor}");
        let empty = learned("", &json!({"phase": "Completed"})).source(&wanted, "shop", "data");
        assert_eq!(empty.as_deref(), Some("its volume was empty"));
        assert_eq!(learned("", &json!({"phase": "Failed"})).source(&wanted, "shop", "data"), None);
        assert_eq!(learned("", &done).source(&wanted, "shop", "other"), None);
        assert_eq!(learned("", &done).source(&wishes(false, &csi), "shop", "data"), None);
        assert_eq!(learned("", &done).source(&wishes(true, &Default::default()), "shop", "data"), None);
    }

    #[test]
    fn a_filled_volume_is_told_of_as_velero_does() {
        let movement = learned("", &json!({"phase": "Completed", "snapshotID": "k1"}));
        let upload = movement.upload_of("shop", "data").unwrap();
        let told = serde_json::to_value(info(&upload, ("shop-2".to_owned(), "data".to_owned()), "dd-1")).unwrap();
        let moved = json!({"dataMover": "velero", "uploaderType": "kopia", "snapshotHandle": "k1", "operationID": "dd-1",
            "size": 0, "Phase": ""});
        assert_eq!(
            told,
            json!({"pvcName": "data", "pvcNamespace": "shop-2", "restoreMethod": "CSISnapshot", "snapshotDataMoved": true,
                "snapshotDataMovementInfo": moved})
        );
    }
}

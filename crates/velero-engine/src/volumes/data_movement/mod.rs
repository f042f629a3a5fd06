//! CSI snapshots whose data is moved into a repository, by data movers that DataUploads and DataDownloads ask for it. The
//! actions on claims make these objects and follow them; here is noted what is known of them.
//!
//! Snapshots in repositories go with their backup. Who removes them finds each in the file about volumes
//! (`snapshotDataMovementInfo.snapshotHandle`, in the repository of `pvcNamespace` at the location of the backup, where the
//! result is `succeeded` and `dataMover` is `velero`); of backups that did not come so far in the DataUploads of the cluster
//! (label `velero.io/backup-uid`, `status.snapshotID`, `spec.sourceNamespace`). The DataUploads are in the archive too, as they
//! ended: there Velero looks for them.

mod restore;
mod saved;

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::Value;
use velero_api::annotations;
use velero_api::records::{
    BackupOperation, BackupVolumeInfo, CsiSnapshotInfo, SnapshotDataMovementInfo, UNKNOWN_VALUE, VolumeMethod,
    VolumeResult,
};
use velero_api::v2alpha1::DataUpload;
use velero_cluster::{ItemRef, RawItem};
use velero_plugin::item::{self, annotation, text};
use velero_rules::resource_policies::SnapshotParameters;
use velero_rules::volume_decision::VolumeDecision;

use super::backup_context::{BackupContext, VolumeNotes, claim_of, info_of};
use super::csi::FAILED;
use super::error::VolumeError;
use super::method::Method;
use super::restore_context::{LeftData, RestoreContext, VolumeVerdict, Wishes};
use super::saved::{AfterRun, SavedVolumes};
use super::{CLAIMS, VOLUMES};
use crate::lock;
use crate::restore::{Item, Target};

/// What a restore says that finds moved data and cannot bring it back.
const NEEDS_CSI: &str = "a data mover's repository, which needs a server with --features=EnableCSI";
/// What the data mover of Velero is called.
const BUILT_IN: &str = "velero";
/// The uploader of all data movers, as Velero names it.
const UPLOADER: &str = "kopia";
/// What is not known of a volume yet, or does not matter any more.
const NEW: &str = "New";

/// A claim: its namespace and name.
type Claim = (String, String);

/// Snapshots whose data is moved into a repository.
#[derive(Default)]
pub(super) struct DataMovement {
    /// What the backup says of DataUploads, by the claim as it was.
    uploads: Mutex<HashMap<Claim, DataUpload>>,
    /// Operations that fill new volumes, by the claim as it is.
    downloads: Mutex<HashMap<Claim, String>>,
}

#[async_trait]
impl Method for DataMovement {
    fn name(&self) -> VolumeMethod {
        VolumeMethod::CsiSnapshot
    }

    fn takes(&self, decision: VolumeDecision) -> bool {
        decision == VolumeDecision::MovedSnapshot
    }

    async fn save_volume(&self, backup: &BackupContext<'_>, volume: &Value) -> Result<(), VolumeError> {
        let entry = backup.journal.info().item(ItemRef::new(VOLUMES, None, item::name(volume)));
        entry.message("The snapshot of the volume, and moving its data, is left to the CSI actions on its claim");
        Ok(())
    }

    fn begin_claim(&self, backup: &BackupContext<'_>, volume: &Value, parameters: &SnapshotParameters) {
        let data_mover = parameters.data_mover.as_ref().unwrap_or(&backup.backup.spec.data_mover);
        backup.volumes.note_movement(volume, data_mover);
    }

    fn follow(&self, backup: &BackupContext<'_>, resource: &str, item: &Value, operation_id: &str) {
        backup.volumes.note_upload(resource, item, operation_id);
    }

    fn end_claim(&self, backup: &BackupContext<'_>, volume: &Value) -> Result<(), VolumeError> {
        backup.volumes.check_followed(volume)
    }

    fn settle(&self, saved: &mut SavedVolumes, operations: &[BackupOperation]) -> bool {
        saved::settle(saved, operations)
    }

    async fn release(&self, after: &AfterRun<'_>, saved: &SavedVolumes) -> velero_plugin::Result<()> {
        saved::release(after, saved).await
    }

    fn has_saved(&self, info: &BackupVolumeInfo) -> bool {
        info.backup_method == Some(VolumeMethod::CsiSnapshot) && info.snapshot_data_moved
    }

    fn has_saved_unlisted(&self, volume: &Value) -> bool {
        claim_of(volume).is_some_and(|(namespace, claim)| self.upload_of(namespace, claim).is_some())
    }

    fn verdict(&self, wishes: &Wishes, info: Option<&BackupVolumeInfo>) -> VolumeVerdict {
        match wishes.restore_data {
            true if info.is_some_and(has_never_begun) => VolumeVerdict::AnewWithData(FAILED),
            true if !wishes.features.csi() => VolumeVerdict::AnewWithData(NEEDS_CSI),
            _ => VolumeVerdict::Anew,
        }
    }

    fn meet_work(&self, resource: &str, work: &Value) {
        self.learn(resource, work);
    }

    fn follow_restore(&self, restore: &RestoreContext<'_>, item: &Item, operation_id: &str) {
        self.note_download(restore, item, operation_id);
    }

    fn claim_made(&self, restore: &RestoreContext<'_>, target: &Target<'_>, created: &RawItem) {
        self.expect_volume(restore, target, created);
    }

    fn source_of_claim(&self, wishes: &Wishes, namespace: &str, claim: &str) -> Option<String> {
        self.source(wishes, namespace, claim)
    }

    fn left_by_work<'o>(&self, wishes: &Wishes, work: &'o Value) -> Option<LeftData<'o>> {
        let claim = (text(work, "/spec/sourceNamespace"), text(work, "/spec/sourcePVC"));
        let place = format!("{NEEDS_CSI} (DataUpload {})", text(work, "/metadata/name"));
        (!claim.1.is_empty() && !wishes.features.csi()).then_some(LeftData { claim, place })
    }
}

/// Whether nobody was asked to move the data of a volume. Of an upload that failed the action on its claim tells.
fn has_never_begun(info: &BackupVolumeInfo) -> bool {
    let movement = info.snapshot_data_movement_info.as_ref();
    info.result == Some(VolumeResult::Failed) && movement.is_none_or(|movement| movement.operation_id.is_empty())
}

impl VolumeNotes {
    /// Notes that the data of a volume is about to be moved. It has failed unless something else is heard of it.
    fn note_movement(&self, volume: &Value, data_mover: &str) {
        let unknown = || UNKNOWN_VALUE.to_owned();
        let data_mover = if data_mover.is_empty() { BUILT_IN } else { data_mover };
        self.note(BackupVolumeInfo {
            backup_method: Some(VolumeMethod::CsiSnapshot),
            snapshot_data_moved: true,
            result: Some(VolumeResult::Failed),
            csi_snapshot_info: Some(CsiSnapshotInfo {
                snapshot_handle: unknown(),
                vsc_name: unknown(),
                operation_id: unknown(),
                driver: text(volume, "/spec/csi/driver").to_owned(),
                ..CsiSnapshotInfo::default()
            }),
            snapshot_data_movement_info: Some(SnapshotDataMovementInfo {
                data_mover: data_mover.to_owned(),
                uploader_type: UPLOADER.to_owned(),
                ..SnapshotDataMovementInfo::default()
            }),
            ..info_of(volume)
        });
    }

    /// Notes the operation that moves the data of a claim. How it ends is known when that ends.
    fn note_upload(&self, resource: &str, claim: &Value, operation_id: &str) {
        if resource != CLAIMS || annotation(claim, annotations::DATA_UPLOAD_NAME).is_none() {
            return;
        }
        let mut infos = lock(&self.infos);
        let is_of = |info: &&mut BackupVolumeInfo| {
            (info.pvc_namespace.as_str(), info.pvc_name.as_str()) == (item::namespace(claim), item::name(claim))
        };
        let Some(info) = infos.values_mut().find(is_of) else {
            return;
        };
        if let Some(movement) = &mut info.snapshot_data_movement_info {
            operation_id.clone_into(&mut movement.operation_id);
            NEW.clone_into(&mut movement.phase);
            info.result = None;
        }
    }
}

impl BackupContext<'_> {
    /// Says that the data of a volume is not moved, which the backup asks for.
    pub(super) fn tell_of_unmoved(&self, volume: &Value, where_it_is: &str) {
        let name = item::name(volume);
        let of_claim = claim_of(volume).map(|(namespace, claim)| format!(" (claim {namespace}/{claim})"));
        let message = format!(
            "The data of volume {name}{} is not moved, which snapshotMoveData of the backup asks for; {where_it_is}. Back it up \
             without snapshotMoveData, or leave it out with a volume policy",
            of_claim.unwrap_or_default()
        );
        self.journal.error().item(ItemRef::new(VOLUMES, None, name)).message(&message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_movement_has_failed_until_it_is_followed() {
        let volumes = VolumeNotes::default();
        let claim_ref = json!({"namespace": "shop", "name": "data"});
        let volume = json!({"metadata": {"name": "pv-1"}, "spec": {"claimRef": claim_ref, "csi": {"driver": "disk"}}});
        volumes.note_movement(&volume, "");
        assert!(volumes.check_followed(&volume).unwrap_err().to_string().contains("pv-1"));
        let mut claim = json!({"metadata": {"namespace": "shop", "name": "data"}});
        volumes.note_upload(CLAIMS, &claim, "du-1");
        assert!(volumes.check_followed(&volume).is_err(), "another operation on the claim");
        claim["metadata"]["annotations"] = json!({annotations::DATA_UPLOAD_NAME: "velero/b-1"});
        volumes.note_upload("pods", &claim, "du-1");
        assert!(volumes.check_followed(&volume).is_err(), "another type");
        volumes.note_upload(CLAIMS, &claim, "du-1");
        volumes.check_followed(&volume).unwrap();
        let [info] = &volumes.infos()[..] else { panic!("one volume") };
        let written = serde_json::to_value(info).unwrap();
        assert_eq!((&written["snapshotDataMoved"], &written["preserveLocalSnapshot"]), (&json!(true), &json!(false)));
        let csi = json!({"snapshotHandle": "unknown", "vscName": "unknown", "operationID": "unknown", "driver": "disk",
            "size": 0, "ReadyToUse": null});
        assert_eq!(written["csiSnapshotInfo"], csi);
        let movement = json!({"dataMover": "velero", "uploaderType": "kopia", "snapshotHandle": "", "operationID": "du-1",
            "size": 0, "Phase": "New"});
        assert_eq!(written["snapshotDataMovementInfo"], movement);
        volumes.note_movement(&volume, "vendor");
        let info = &volumes.infos()[0];
        assert_eq!(info.snapshot_data_movement_info.as_ref().unwrap().data_mover, "vendor");
    }
}

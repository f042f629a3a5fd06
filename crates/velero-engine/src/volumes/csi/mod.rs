//! CSI snapshots: taken by the action on the claim, followed by that on the VolumeSnapshot. Noted here when one is begun
//! and when its object comes by; a restore leaves the volume to the claim, whose action makes it of the snapshot.

mod restore;
mod saved;

use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use velero_api::annotations;
use velero_api::records::{BackupOperation, BackupVolumeInfo, CsiSnapshotInfo, VolumeMethod, VolumeResult};
use velero_api::type_names::VOLUME_SNAPSHOTS as CSI_SNAPSHOTS;
use velero_cluster::{ItemRef, RawItem};
use velero_plugin::item::{self, annotation};
use velero_rules::quantity::Quantity;
use velero_rules::resource_policies::SnapshotParameters;
use velero_rules::volume_decision::VolumeDecision;

use super::VOLUMES;
use super::backup_context::{BackupContext, VolumeNotes, info_of};
use super::error::VolumeError;
use super::method::Method;
use super::new_volumes;
use super::restore_context::{RestoreContext, VolumeVerdict, Wishes};
use super::saved::{AfterRun, SavedVolumes};
use crate::lock;
use crate::restore::{Item, Target};

/// What a restore says that finds a CSI snapshot and cannot use it.
pub(super) const NEEDS_CSI: &str = "a CSI snapshot, which needs a server with --features=EnableCSI";
/// What it says where the backup has none.
pub(super) const FAILED: &str = "no snapshot, for that of the backup failed";

/// Snapshots of CSI drivers.
pub(super) struct Csi;

#[async_trait]
impl Method for Csi {
    fn name(&self) -> VolumeMethod {
        VolumeMethod::CsiSnapshot
    }

    fn takes(&self, decision: VolumeDecision) -> bool {
        decision == VolumeDecision::CsiSnapshot
    }

    async fn save_volume(&self, backup: &BackupContext<'_>, volume: &Value) -> Result<(), VolumeError> {
        let entry = backup.journal.info().item(ItemRef::new(VOLUMES, None, item::name(volume)));
        entry.message("The snapshot of the volume is left to the CSI actions on its claim");
        Ok(())
    }

    fn begin_claim(&self, backup: &BackupContext<'_>, volume: &Value, _: &SnapshotParameters) {
        backup.volumes.note_csi(volume);
    }

    fn follow(&self, backup: &BackupContext<'_>, resource: &str, item: &Value, operation_id: &str) {
        backup.volumes.note_csi_snapshot(resource, item, operation_id);
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

    async fn discard(&self, after: &AfterRun<'_>, _: &mut SavedVolumes) -> Vec<String> {
        saved::discard(after).await
    }

    async fn delete(&self, after: &AfterRun<'_>, saved: &mut SavedVolumes) -> Vec<String> {
        saved::delete(after, saved).await
    }

    fn has_saved(&self, info: &BackupVolumeInfo) -> bool {
        info.backup_method == Some(VolumeMethod::CsiSnapshot) && !info.snapshot_data_moved
    }

    fn verdict(&self, wishes: &Wishes, info: Option<&BackupVolumeInfo>) -> VolumeVerdict {
        let has_failed = info.is_some_and(|info| info.result == Some(VolumeResult::Failed));
        match wishes.restore_data {
            true if has_failed => VolumeVerdict::AnewWithData(FAILED),
            true if !wishes.features.csi() => VolumeVerdict::AnewWithData(NEEDS_CSI),
            _ => VolumeVerdict::Anew,
        }
    }

    fn restore_claim(&self, restore: &RestoreContext<'_>, item: &Item, claim: &Value) {
        let namespace = |namespace: &Option<Box<str>>| namespace.as_deref().unwrap_or_default().to_owned();
        restore.volumes.note_claim(claim, &namespace(&item.original), &namespace(&item.target));
    }

    fn claim_made(&self, restore: &RestoreContext<'_>, target: &Target<'_>, created: &RawItem) {
        let original = target.item.original.as_deref().unwrap_or_default();
        if let Some(old) = restore.volumes.old_volume(original, &target.item.name) {
            new_volumes::expect(restore, target, created, old, None);
        }
    }

    /// The claims of backups of old name their snapshots.
    fn left_of_unlisted_claim(&self, wishes: &Wishes, claim: &Value) -> Option<&'static str> {
        let has_snapshot = annotation(claim, annotations::VOLUME_SNAPSHOT_NAME).is_some()
            && annotation(claim, annotations::DATA_UPLOAD_NAME).is_none();
        (has_snapshot && !wishes.features.csi() && wishes.restore_data).then_some(NEEDS_CSI)
    }
}

impl VolumeNotes {
    /// Notes that a CSI snapshot of a volume is begun. It has failed unless something else is heard of it.
    fn note_csi(&self, volume: &Value) {
        let driver = volume["spec"]["csi"]["driver"].as_str().unwrap_or_default().to_owned();
        self.note(BackupVolumeInfo {
            backup_method: Some(VolumeMethod::CsiSnapshot),
            preserve_local_snapshot: true,
            result: Some(VolumeResult::Failed),
            csi_snapshot_info: Some(CsiSnapshotInfo { driver, ..CsiSnapshotInfo::default() }),
            ..info_of(volume)
        });
    }

    /// Notes what a CSI snapshot says of itself that an operation follows. How it ends is known when that ends.
    fn note_csi_snapshot(&self, type_name: &str, snapshot: &Value, operation_id: &str) {
        if type_name != CSI_SNAPSHOTS {
            return;
        }
        let claim = (snapshot["metadata"]["namespace"].as_str(), source_of(snapshot));
        let mut infos = lock(&self.infos);
        let is_of = |info: &&mut BackupVolumeInfo| {
            (Some(info.pvc_namespace.as_str()), Some(info.pvc_name.as_str())) == claim
                && info.backup_method == Some(VolumeMethod::CsiSnapshot)
        };
        if let Some(info) = infos.values_mut().find(is_of) {
            info.csi_snapshot_info = Some(snapshot_info(snapshot, operation_id));
            let created = snapshot["status"]["creationTime"].as_str().and_then(|time| time.parse().ok());
            info.start_timestamp = created.map(Time);
            info.result = None;
        }
    }

    /// An error unless the CSI snapshot of a volume, or the movement of its data, is followed now.
    pub(in crate::volumes) fn check_followed(&self, volume: &Value) -> Result<(), VolumeError> {
        let name = item::name(volume);
        let followed = lock(&self.infos).get(name).is_some_and(|info| info.result.is_none());
        if followed {
            return Ok(());
        }
        Err(VolumeError::SnapshotGone(name.to_owned()))
    }
}

/// The claim of which a CSI snapshot was taken.
fn source_of(snapshot: &Value) -> Option<&str> {
    snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str()
}

/// What a CSI snapshot says of itself. Its action has noted on it what its content says.
fn snapshot_info(snapshot: &Value, operation_id: &str) -> CsiSnapshotInfo {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (notes, status) = (&snapshot["metadata"]["annotations"], &snapshot["status"]);
    let size = status["restoreSize"].as_str().and_then(|size| size.parse::<Quantity>().ok());
    CsiSnapshotInfo {
        snapshot_handle: text(&notes[annotations::VOLUME_SNAPSHOT_HANDLE]),
        size: size.unwrap_or_default().whole(),
        driver: text(&notes[annotations::CSI_DRIVER_NAME]),
        vsc_name: text(&status["boundVolumeSnapshotContentName"]),
        operation_id: operation_id.to_owned(),
        ready_to_use: status["readyToUse"].as_bool(),
        volume_group_snapshot_handle: text(&notes[annotations::VOLUME_GROUP_SNAPSHOT_HANDLE]),
        ..CsiSnapshotInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_csi_snapshot_has_failed_until_it_is_followed() {
        let volumes = VolumeNotes::default();
        let claim = json!({"namespace": "shop", "name": "data"});
        let csi = json!({"metadata": {"name": "pv-1"}, "spec": {"claimRef": claim, "csi": {"driver": "disk"}}});
        volumes.note_csi(&csi);
        assert!(volumes.check_followed(&csi).unwrap_err().to_string().contains("pv-1"));
        let notes = json!({annotations::VOLUME_SNAPSHOT_HANDLE: "h", annotations::CSI_DRIVER_NAME: "disk"});
        let snapshot = json!({
            "metadata": {"namespace": "shop", "name": "velero-data-x", "annotations": notes},
            "spec": {"source": {"persistentVolumeClaimName": "data"}},
            "status": {"boundVolumeSnapshotContentName": "c", "restoreSize": "1Gi", "readyToUse": false,
                "creationTime": "2026-01-01T00:00:00Z"},
        });
        volumes.note_csi_snapshot("pods", &snapshot, "1");
        assert!(volumes.check_followed(&csi).is_err(), "another type");
        volumes.note_csi_snapshot(CSI_SNAPSHOTS, &snapshot, "1");
        volumes.check_followed(&csi).unwrap();
        let [info] = &volumes.infos()[..] else { panic!("one volume") };
        let csi = info.csi_snapshot_info.as_ref().unwrap();
        assert_eq!((csi.snapshot_handle.as_str(), csi.vsc_name.as_str(), csi.size), ("h", "c", 1 << 30));
        assert_eq!((info.result.clone(), csi.ready_to_use), (None, Some(false)));
        assert!(info.start_timestamp.is_some());
    }
}

//! What is told of volumes that a restore makes of CSI snapshots.

use serde_json::Value;
use velero_api::records::{BackupVolumeInfo, CsiSnapshotInfo, PvInfo, RestoreVolumeInfo, VolumeMethod};
use velero_plugin::item::text;

use super::super::restore_context::RestoreNotes;

impl RestoreNotes {
    /// Notes a claim whose volume is made of a CSI snapshot.
    pub(in crate::volumes) fn note_claim(&self, claim: &Value, original: &str, target: &str) {
        let name = text(claim, "/metadata/name");
        if text(claim, "/spec/dataSource/kind") != "VolumeSnapshot" {
            return;
        }
        let info = self.of_claim(original, name).find(|info| info.csi_snapshot_info.is_some());
        let Some(snapshot) = info.and_then(|info| info.csi_snapshot_info.clone()) else {
            return;
        };
        self.note_restored(RestoreVolumeInfo {
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

    /// What is known of the volume that a claim had whose data comes from a CSI snapshot, or from a copy.
    pub(super) fn old_volume(&self, namespace: &str, claim: &str) -> Option<PvInfo> {
        let wishes = &self.wishes;
        let is_made_anew = |info: &&BackupVolumeInfo| match info.backup_method {
            Some(VolumeMethod::CsiSnapshot) => {
                wishes.features.csi() && wishes.restore_data && !info.snapshot_data_moved
            }
            Some(VolumeMethod::PodVolumeBackup) => wishes.restore_copies,
            _ => false,
        };
        self.of_claim(namespace, claim).find(is_made_anew)?.pv_info.clone()
    }
}

//! What is known of the CSI snapshots of a backup: noted when one is begun, and when its object comes by.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use velero_api::annotations;
use velero_api::records::{BackupVolumeInfo, CsiSnapshotInfo, VolumeMethod, VolumeResult};
use velero_rules::quantity::Quantity;

use super::act::ItemResult;
use super::volumes::{Volumes, info_of, lock};

/// The type of CSI snapshots.
const CSI_SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";

impl Volumes {
    /// Notes that a CSI snapshot of a volume is begun. It has failed unless something else is heard of it.
    pub(super) fn note_csi(&self, volume: &Value) {
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
    pub(super) fn note_csi_snapshot(&self, type_name: &str, snapshot: &Value, operation_id: &str) {
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
            info.csi_snapshot_info = Some(csi_info(snapshot, operation_id));
            let created = snapshot["status"]["creationTime"].as_str().and_then(|time| time.parse().ok());
            info.start_timestamp = created.map(Time);
            info.result = None;
        }
    }

    /// An error unless the CSI snapshot of a volume is followed now.
    pub(super) fn check_csi(&self, volume: &Value) -> ItemResult<()> {
        let name = volume["metadata"]["name"].as_str().unwrap_or_default();
        let followed = lock(&self.infos).get(name).is_some_and(|info| info.result.is_none());
        if followed {
            return Ok(());
        }
        Err(format!("the CSI snapshot of volume {name} was gone before it could be backed up"))
    }
}

/// The claim of which a CSI snapshot was taken.
fn source_of(snapshot: &Value) -> Option<&str> {
    snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str()
}

/// What a CSI snapshot says of itself. Its action has noted on it what its content says.
fn csi_info(snapshot: &Value, operation_id: &str) -> CsiSnapshotInfo {
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
    use velero_api::v1::BackupSpec;

    use super::*;
    use crate::backup::TakenSnapshots;

    #[test]
    fn a_csi_snapshot_has_failed_until_it_is_followed() {
        let volumes = Volumes::new(&BackupSpec::default(), TakenSnapshots::default());
        let claim = json!({"namespace": "shop", "name": "data"});
        let csi = json!({"metadata": {"name": "pv-1"}, "spec": {"claimRef": claim, "csi": {"driver": "disk"}}});
        volumes.note_csi(&csi);
        assert!(volumes.check_csi(&csi).unwrap_err().contains("pv-1"));
        let notes = json!({annotations::VOLUME_SNAPSHOT_HANDLE: "h", annotations::CSI_DRIVER_NAME: "disk"});
        let snapshot = json!({
            "metadata": {"namespace": "shop", "name": "velero-data-x", "annotations": notes},
            "spec": {"source": {"persistentVolumeClaimName": "data"}},
            "status": {"boundVolumeSnapshotContentName": "c", "restoreSize": "1Gi", "readyToUse": false,
                "creationTime": "2026-01-01T00:00:00Z"},
        });
        volumes.note_csi_snapshot("pods", &snapshot, "1");
        assert!(volumes.check_csi(&csi).is_err(), "another type");
        volumes.note_csi_snapshot(CSI_SNAPSHOTS, &snapshot, "1");
        volumes.check_csi(&csi).unwrap();
        let [info] = &volumes.infos()[..] else { panic!("one volume") };
        let csi = info.csi_snapshot_info.as_ref().unwrap();
        assert_eq!((csi.snapshot_handle.as_str(), csi.vsc_name.as_str(), csi.size), ("h", "c", 1 << 30));
        assert_eq!((info.result.clone(), csi.ready_to_use), (None, Some(false)));
        assert!(info.start_timestamp.is_some());
    }
}

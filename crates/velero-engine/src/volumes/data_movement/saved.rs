//! The moved data of a backup after its run.

use velero_api::DataMovePhase;
use velero_api::records::{BackupOperation, OperationPhase, VolumeMethod, VolumeResult};
use velero_api::v2alpha1::DataUpload;
use velero_plugin::Result;

use super::super::saved::{AfterRun, SavedVolumes};

/// Takes over how operations that move data ended, and what DataUploads say of that; says whether that changed anything. Data of
/// which no DataUpload says where it is cannot be restored.
pub(super) fn settle(saved: &mut SavedVolumes, operations: &[BackupOperation]) -> bool {
    let (infos, uploads) = (&mut saved.infos, &saved.uploads);
    let mut changed = false;
    for volume in infos.iter_mut().filter(|volume| volume.result.is_none() && volume.snapshot_data_moved) {
        let Some(movement) = volume.snapshot_data_movement_info.as_mut() else {
            continue;
        };
        let followed = operations.iter().find(|operation| operation.spec.operation_id == movement.operation_id);
        let completed = followed.is_some_and(|operation| *operation.status.phase() == OperationPhase::Completed);
        let is_of = |upload: &&DataUpload| {
            upload.spec.source_namespace == volume.pvc_namespace && upload.spec.source_pvc == volume.pvc_name
        };
        let upload = uploads.iter().find(is_of);
        if let Some(DataUpload { spec, status, .. }) = upload {
            status.snapshot_id.clone_into(&mut movement.snapshot_handle);
            let snapshot = spec.csi_snapshot.as_ref().map(|snapshot| snapshot.volume_snapshot.clone());
            movement.retained_snapshot = snapshot.unwrap_or_default();
            movement.size = status.progress.total_bytes;
            movement.incremental_size = status.incremental_bytes;
            status.phase().as_str().clone_into(&mut movement.phase);
            volume.start_timestamp.clone_from(&status.start_timestamp);
            volume.completion_timestamp.clone_from(&status.completion_timestamp);
        }
        let moved = upload.is_some_and(|upload| *upload.status.phase() == DataMovePhase::Completed);
        volume.result = Some(if completed && moved { VolumeResult::Succeeded } else { VolumeResult::Failed });
        if volume.completion_timestamp.is_none() {
            volume.completion_timestamp = followed.and_then(|operation| operation.status.updated.clone());
        }
        changed = true;
    }
    changed
}

/// What is left of the snapshots whose data was moved goes.
pub(super) async fn release(after: &AfterRun<'_>, saved: &SavedVolumes) -> Result<()> {
    if after.backup.spec.snapshot_move_data == Some(true) {
        for keeper in after.keepers(&VolumeMethod::CsiSnapshot, true) {
            keeper.release(after.backup, &saved.infos).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use velero_api::records::{BackupVolumeInfo, SnapshotDataMovementInfo};

    use super::*;

    fn volume(claim: &str) -> BackupVolumeInfo {
        let operation_id = format!("du-{claim}");
        BackupVolumeInfo {
            pvc_namespace: "shop".to_owned(),
            pvc_name: claim.to_owned(),
            backup_method: Some(VolumeMethod::CsiSnapshot),
            snapshot_data_moved: true,
            snapshot_data_movement_info: Some(SnapshotDataMovementInfo { operation_id, ..Default::default() }),
            ..BackupVolumeInfo::default()
        }
    }

    fn upload(claim: &str, status: &Value) -> DataUpload {
        let spec = json!({"sourceNamespace": "shop", "sourcePVC": claim, "csiSnapshot": {"volumeSnapshot": "vs"}});
        serde_json::from_value(json!({"metadata": {"name": claim}, "spec": spec, "status": status})).unwrap()
    }

    fn operation(claim: &str, phase: OperationPhase) -> BackupOperation {
        let mut operation = BackupOperation::default();
        operation.spec.operation_id = format!("du-{claim}");
        operation.status.phase = Some(phase);
        operation
    }

    #[test]
    fn data_is_safe_once_its_operation_and_its_upload_have_ended_well() {
        let done = json!({"phase": "Completed", "snapshotID": "k1", "incrementalBytes": 3,
            "progress": {"totalBytes": 9, "bytesDone": 9}, "startTimestamp": "2026-01-01T00:00:00Z",
            "completionTimestamp": "2026-01-01T00:01:00Z"});
        let names = ["good", "failed", "gone", "unknown", "late"];
        let mut saved = SavedVolumes {
            infos: names.map(volume).to_vec(),
            uploads: vec![
                upload("good", &done),
                upload("failed", &json!({"phase": "Failed", "message": "no space"})),
                upload("unknown", &json!({"phase": "Completed", "snapshotID": "k2"})),
                upload("late", &json!({"phase": "Canceling"})),
            ],
            ..SavedVolumes::default()
        };
        let operations = [
            operation("good", OperationPhase::Completed),
            operation("failed", OperationPhase::Failed),
            operation("gone", OperationPhase::Completed),
            operation("late", OperationPhase::Failed),
        ];
        assert!(saved.settle(&operations));
        use VolumeResult::{Failed, Succeeded};
        let results: Vec<_> = saved.infos.iter().map(|volume| volume.result.clone()).collect();
        assert_eq!(results, [Some(Succeeded), Some(Failed), Some(Failed), Some(Failed), Some(Failed)]);
        let written = serde_json::to_value(&saved.infos[0]).unwrap();
        assert_eq!(
            written["snapshotDataMovementInfo"],
            json!({"dataMover": "", "uploaderType": "", "retainedSnapshot": "vs", "snapshotHandle": "k1",
                "operationID": "du-good", "size": 9, "incrementalSize": 3, "Phase": "Completed"})
        );
        assert_eq!(written["completionTimestamp"], "2026-01-01T00:01:00Z");
        assert_eq!(saved.infos[4].snapshot_data_movement_info.as_ref().unwrap().phase, "Canceling");
        assert!(!saved.settle(&operations), "what has ended stays as it is");
        assert_eq!(saved.csi_snapshots(), 0, "none of them is kept");
    }
}

//! What a backup has saved of volumes, after its run: how it ended, and its removal. Each method looks after its own.

use velero_api::records::BackupOperation;
use velero_plugin::Result;

use super::methods::{Given, methods};
use super::saved::{AfterRun, SavedVolumes};

impl SavedVolumes {
    /// Takes over how the operations on volumes ended; says whether that changed anything. An operation of which
    /// nothing is known has failed.
    pub fn settle(&mut self, operations: &[BackupOperation]) -> bool {
        let mut changed = false;
        for method in methods(Given::default()) {
            changed |= method.settle(self, operations);
        }
        changed
    }
}

impl AfterRun<'_> {
    /// Frees the cluster of what is in the files of the backup now, which tell of these volumes. What was saved stays.
    pub async fn release(&self, saved: &SavedVolumes) -> Result<()> {
        for method in methods(Given::default()) {
            method.release(self, saved).await?;
        }
        Ok(())
    }

    /// Removes what a backup that failed has saved: nobody can restore from it. Gives what may be left, in words; the
    /// snapshots that are left stay listed.
    pub async fn discard(&self, saved: &mut SavedVolumes) -> Vec<String> {
        let mut left = Vec::new();
        for method in methods(Given::default()) {
            left.extend(method.discard(self, saved).await);
        }
        left
    }

    /// Removes what a backup has saved that is deleted, after the delete item actions have seen its items; gives what is
    /// left, in words.
    pub async fn delete(&self, saved: &mut SavedVolumes) -> Vec<String> {
        let mut left = Vec::new();
        for method in methods(Given::default()) {
            left.extend(method.delete(self, saved).await);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use velero_api::records::{
        BackupVolumeInfo, CsiSnapshotInfo, NativeSnapshotInfo, OperationPhase, Snapshot, SnapshotPhase, VolumeMethod,
        VolumeResult,
    };

    use super::*;

    fn snapshot(volume: &str, id: &str, phase: SnapshotPhase) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.spec.persistent_volume_name = volume.to_owned();
        snapshot.spec.location = "disk".to_owned();
        snapshot.status.provider_snapshot_id = id.to_owned();
        snapshot.status.phase = Some(phase);
        snapshot
    }

    fn operation(location: &str, id: &str, phase: OperationPhase) -> BackupOperation {
        let mut operation = BackupOperation::default();
        operation.spec.volume_snapshot_location = location.to_owned();
        operation.spec.operation_id = id.to_owned();
        operation.status.phase = Some(phase);
        operation
    }

    fn csi(operation: &str, result: Option<VolumeResult>) -> BackupVolumeInfo {
        let snapshot = CsiSnapshotInfo { operation_id: operation.to_owned(), ..CsiSnapshotInfo::default() };
        BackupVolumeInfo {
            backup_method: Some(VolumeMethod::CsiSnapshot),
            csi_snapshot_info: Some(snapshot),
            result,
            ..BackupVolumeInfo::default()
        }
    }

    #[test]
    fn a_native_snapshot_is_good_once_its_own_upload_has_ended_well() {
        let snapshots = vec![
            snapshot("a", "1", SnapshotPhase::New),
            snapshot("b", "2", SnapshotPhase::New),
            snapshot("c", "3", SnapshotPhase::New),
            snapshot("d", "4", SnapshotPhase::New),
            snapshot("e", "", SnapshotPhase::Failed),
            snapshot("f", "6", SnapshotPhase::Completed),
        ];
        let mut saved = SavedVolumes { snapshots, ..SavedVolumes::default() };
        let operations = [
            operation("disk", "1", OperationPhase::Completed),
            operation("disk", "2", OperationPhase::Failed),
            operation("other", "3", OperationPhase::Completed),
            operation("disk", "4", OperationPhase::InProgress),
        ];
        assert!(saved.settle(&operations));
        let good: Vec<bool> = saved.snapshots.iter().map(Snapshot::is_complete).collect();
        assert_eq!(good, [true, false, false, false, false, true]);
        assert_eq!(saved.native_snapshots(), (6, 2));
        assert!(!saved.settle(&[]), "what has ended stays as it is");
    }

    #[test]
    fn the_list_of_volumes_follows_the_native_snapshots() {
        let volume = |name: &str, native| BackupVolumeInfo {
            pv_name: name.to_owned(),
            native_snapshot_info: native,
            ..BackupVolumeInfo::default()
        };
        let mut saved = SavedVolumes {
            infos: vec![volume("a", Some(NativeSnapshotInfo::default())), volume("b", None)],
            snapshots: vec![snapshot("a", "1", SnapshotPhase::New), snapshot("b", "2", SnapshotPhase::New)],
            ..SavedVolumes::default()
        };
        assert!(saved.settle(&[operation("disk", "2", OperationPhase::Completed)]));
        assert_eq!(saved.infos[0].result, Some(VolumeResult::Failed));
        assert_eq!(saved.infos[0].native_snapshot_info.as_ref().unwrap().phase, "Failed");
        assert_eq!(saved.infos[1].result, None);
    }

    #[test]
    fn a_csi_snapshot_is_good_once_its_operation_has_ended_well() {
        let operations =
            [operation("", "good", OperationPhase::Completed), operation("", "bad", OperationPhase::Failed)];
        let infos = vec![
            csi("good", None),
            csi("bad", None),
            csi("unknown", None),
            csi("", Some(VolumeResult::Failed)),
            BackupVolumeInfo::default(),
        ];
        let mut saved = SavedVolumes { infos, ..SavedVolumes::default() };
        assert!(saved.settle(&operations));
        use VolumeResult::{Failed, Succeeded};
        let results: Vec<_> = saved.infos.iter().map(|volume| volume.result.clone()).collect();
        assert_eq!(results, [Some(Succeeded), Some(Failed), Some(Failed), Some(Failed), None]);
        assert_eq!(saved.infos[0].csi_snapshot_info.as_ref().unwrap().ready_to_use, Some(true));
        assert_eq!(saved.csi_snapshots(), 4);
        assert!(!saved.settle(&operations), "what has ended stays as it is");
    }
}

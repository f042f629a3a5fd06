//! The CSI snapshots of a backup after its run.
//!
//! While a backup runs and waits, its snapshots are objects of the cluster that carry its labels. When it is finished
//! they are in the archive. The action that has taken them removes those of a backup that never gets there.

use std::time::Duration;

use velero_api::records::{BackupOperation, OperationPhase, VolumeMethod, VolumeResult};
use velero_api::with_causes;
use velero_plugin::Result;

use super::super::saved::{AfterRun, SavedVolumes};

const METHOD: VolumeMethod = VolumeMethod::CsiSnapshot;
/// How long it may take to ask for the removal of snapshots.
const PATIENCE: Duration = Duration::from_secs(30);

/// Takes over how the operations on snapshots ended; says whether that changed anything.
pub(super) fn settle(saved: &mut SavedVolumes, operations: &[BackupOperation]) -> bool {
    let mut changed = false;
    for volume in saved.infos.iter_mut().filter(|volume| volume.result.is_none() && !volume.snapshot_data_moved) {
        let Some(snapshot) = volume.csi_snapshot_info.as_mut().filter(|snapshot| !snapshot.operation_id.is_empty())
        else {
            continue;
        };
        let followed = operations.iter().find(|operation| operation.spec.operation_id == snapshot.operation_id);
        let good = followed.is_some_and(|operation| *operation.status.phase() == OperationPhase::Completed);
        if good {
            snapshot.ready_to_use = Some(true);
        }
        volume.result = Some(if good { VolumeResult::Succeeded } else { VolumeResult::Failed });
        volume.completion_timestamp = followed.and_then(|operation| operation.status.updated.clone());
        changed = true;
    }
    changed
}

pub(super) async fn release(after: &AfterRun<'_>, saved: &SavedVolumes) -> Result<()> {
    if after.backup.status.csi_volume_snapshots_attempted > 0 {
        for keeper in after.keepers(&METHOD, true) {
            keeper.release(after.backup, &saved.infos).await?;
        }
    }
    Ok(())
}

pub(super) async fn discard(after: &AfterRun<'_>) -> Vec<String> {
    let mut left = Vec::new();
    for keeper in after.keepers(&METHOD, false) {
        left.extend(match tokio::time::timeout(PATIENCE, keeper.discard(after.backup)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("error removing the CSI snapshots of the backup: {}", with_causes(&error))),
            Err(_) => Some(format!("the removal of the CSI snapshots of the backup was not taken within {PATIENCE:?}")),
        });
    }
    left
}

/// A server that is told to leave CSI alone removes the snapshots that are known to be there.
pub(super) async fn delete(after: &AfterRun<'_>, saved: &SavedVolumes) -> Vec<String> {
    let mut left = Vec::new();
    for keeper in after.keepers(&METHOD, saved.csi_snapshots() > 0) {
        match keeper.delete(after.backup, &saved.infos).await {
            Ok(still_there) => left.extend(still_there),
            Err(error) => left.push(format!("error deleting CSI snapshots of the backup: {}", with_causes(&error))),
        }
    }
    left
}

//! The CSI snapshots of a backup after its run: their end, and their removal.
//!
//! While a backup runs and waits, its snapshots are objects of the cluster that carry its labels. When it is finished
//! they are in the archive. Those of a backup that never gets there are found by their labels and removed.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use velero_api::records::{BackupOperation, BackupVolumeInfo, OperationPhase, VolumeMethod, VolumeResult};
use velero_api::v1::Backup;
use velero_archive::BackupFile;
use velero_plugin_csi::removal::{discard_of_backup, forget_restored, left_of_backup, release_of_backup};
use velero_store::BackupStore;

use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::objects::name;

/// How long drivers may take to delete snapshots.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_secs(2);
/// How long it may take to ask for the removal of snapshots.
const ASK_PATIENCE: Duration = Duration::from_secs(30);

/// How many CSI snapshots were tried.
pub(crate) fn attempted(volumes: &[BackupVolumeInfo]) -> i64 {
    let of_csi = volumes.iter().filter(|volume| volume.backup_method == Some(VolumeMethod::CsiSnapshot));
    i64::try_from(of_csi.count()).unwrap_or(i64::MAX)
}

/// Writes into the file about volumes how the snapshots of a backup ended.
pub(crate) async fn settle(store: &BackupStore, backup: &str, operations: &[BackupOperation]) -> Result<()> {
    let mut volumes: Vec<BackupVolumeInfo> = store.get_json(backup, BackupFile::VolumeInfos).await?;
    if end(&mut volumes, operations) {
        store.put_json(backup, BackupFile::VolumeInfos, &volumes).await?;
    }
    Ok(())
}

/// Takes over how the operations on snapshots ended; says whether that changed anything. An operation of which nothing
/// is known has failed.
fn end(volumes: &mut [BackupVolumeInfo], operations: &[BackupOperation]) -> bool {
    let mut changed = false;
    for volume in volumes.iter_mut().filter(|volume| volume.result.is_none()) {
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

/// Frees the cluster of the objects of a backup's snapshots: they are in the archive now.
pub(crate) async fn release(context: &Context, backup: &Backup) -> Result<()> {
    if backup.status.csi_volume_snapshots_attempted > 0 {
        release_of_backup(context.objects.cluster(), backup).await?;
    }
    Ok(())
}

/// Asks for the removal of the snapshots of a backup that failed: nobody can restore from them. What cannot be removed
/// is told in the log, and removed when the backup is deleted.
pub(crate) async fn discard(context: &Context, backup: &Backup) {
    if let Err(error) = try_discard(context, backup).await {
        tracing::warn!(
            backup = name(backup),
            problem = describe(&error),
            "CSI snapshots of the failed backup are left"
        );
    }
}

/// The same for who tries again until it works.
pub(crate) async fn try_discard(context: &Context, backup: &Backup) -> Result<()> {
    if !context.settings.features.csi() {
        return Ok(());
    }
    let removal = discard_of_backup(context.objects.cluster(), backup);
    match tokio::time::timeout(ASK_PATIENCE, removal).await {
        Ok(removed) => Ok(removed?),
        Err(_) => {
            let problem = format!("the API server did not take the removal of its snapshots within {ASK_PATIENCE:?}");
            Err(Error::unmet("Backup", name(backup), problem))
        }
    }
}

/// Removes what is left of the snapshots of a backup that is deleted, after the delete item actions have seen its
/// items; gives what could not be removed, in words.
pub(crate) async fn delete(context: &Context, backup: &Backup, store: &BackupStore) -> Vec<String> {
    match remove(context, backup, store).await {
        Ok(left) => left,
        Err(error) => vec![format!("error deleting CSI snapshots of the backup: {}", describe(&error))],
    }
}

async fn remove(context: &Context, backup: &Backup, store: &BackupStore) -> Result<Vec<String>> {
    let volumes: Vec<BackupVolumeInfo> = store.get_json(name(backup), BackupFile::VolumeInfos).await?;
    if attempted(&volumes) == 0 && !context.settings.features.csi() {
        return Ok(Vec::new());
    }
    let cluster = context.objects.cluster();
    let handles: BTreeSet<String> =
        volumes.into_iter().filter_map(|volume| Some(volume.csi_snapshot_info?.snapshot_handle)).collect();
    forget_restored(cluster, backup, &handles).await?;
    discard_of_backup(cluster, backup).await?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = left_of_backup(cluster, backup).await?;
        if left.is_empty() || Instant::now() >= deadline {
            return Ok(left);
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use velero_api::records::CsiSnapshotInfo;

    use super::*;

    fn volume(operation: &str, result: Option<VolumeResult>) -> BackupVolumeInfo {
        let snapshot = CsiSnapshotInfo { operation_id: operation.to_owned(), ..CsiSnapshotInfo::default() };
        BackupVolumeInfo {
            backup_method: Some(VolumeMethod::CsiSnapshot),
            csi_snapshot_info: Some(snapshot),
            result,
            ..BackupVolumeInfo::default()
        }
    }

    #[test]
    fn a_snapshot_is_good_once_its_operation_has_ended_well() {
        let operation = |id: &str, phase| {
            let mut operation = BackupOperation::default();
            operation.spec.operation_id = id.to_owned();
            operation.status.phase = Some(phase);
            operation
        };
        let operations = [operation("good", OperationPhase::Completed), operation("bad", OperationPhase::Failed)];
        let mut volumes = [
            volume("good", None),
            volume("bad", None),
            volume("unknown", None),
            volume("", Some(VolumeResult::Failed)),
            BackupVolumeInfo::default(),
        ];
        assert!(end(&mut volumes, &operations));
        use VolumeResult::{Failed, Succeeded};
        let results = volumes.each_ref().map(|volume| volume.result.clone());
        assert_eq!(results, [Some(Succeeded), Some(Failed), Some(Failed), Some(Failed), None]);
        assert_eq!(volumes[0].csi_snapshot_info.as_ref().unwrap().ready_to_use, Some(true));
        assert_eq!(attempted(&volumes), 4);
        assert!(!end(&mut volumes, &operations), "what has ended stays as it is");
    }
}

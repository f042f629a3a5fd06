//! What a backup owns, and whether all of it can be removed. Nothing is touched to find out.

use std::collections::BTreeSet;

use velero_api::metadata::name;
use velero_api::records::{BackupOperation, BackupVolumeInfo, Snapshot, VolumeMethod, VolumeResult};
use velero_api::v1::Backup;
use velero_archive::BackupFile;
use velero_store::{BackupStore, Error as StoreError};

use crate::lifecycle::kind::Kind;
use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result, describe};

/// Why a backup cannot be deleted as a whole; `None` when it can. Of what a damaged file names nobody can tell.
pub(crate) async fn obstacle(context: &Context, backup: &Backup, store: &BackupStore) -> Result<Option<String>> {
    match find_obstacle(context, backup, store).await {
        Err(Error::Store(error @ StoreError::Decode { .. })) => Ok(Some(describe(&error))),
        found => found,
    }
}

async fn find_obstacle(context: &Context, backup: &Backup, store: &BackupStore) -> Result<Option<String>> {
    let volumes: Vec<BackupVolumeInfo> = store.get_json(name(backup), BackupFile::VolumeInfos).await?;
    let copies: Vec<serde_json::Value> = store.get_json(name(backup), BackupFile::PodVolumeBackups).await?;
    let operations = backup.files(store).readable_operations::<BackupOperation>().await?;
    if !copies.is_empty() || volumes.iter().any(is_copied) || operations.iter().any(moves_data) {
        let problem = "it owns copies of volume data, whose deletion this server does not support yet; \
                       delete it with the server that made it";
        return Ok(Some(format!("Backup {:?}: {problem}", name(backup))));
    }
    if !context.settings.features.csi() && volumes.iter().any(is_csi_snapshot) {
        let problem = "it owns CSI snapshots; start the server with --features=EnableCSI to delete them";
        return Ok(Some(format!("Backup {:?}: {problem}", name(backup))));
    }
    let snapshots: Vec<Snapshot> = store.get_json(name(backup), BackupFile::VolumeSnapshots).await?;
    unreachable_location(context, &snapshots).await
}

/// Whether the data of a volume were copied into a repository.
fn is_copied(volume: &BackupVolumeInfo) -> bool {
    let by_snapshot = [Some(VolumeMethod::NativeSnapshot), Some(VolumeMethod::CsiSnapshot)];
    let in_another_way = !by_snapshot.contains(&volume.backup_method) && volume.result != Some(VolumeResult::Failed);
    let is_known = volume.pvb_info.is_some() || volume.snapshot_data_movement_info.is_some();
    !volume.skipped && (in_another_way || is_known || volume.snapshot_data_moved)
}

/// The same as told by backups that are older than the file about volumes.
fn moves_data(operation: &BackupOperation) -> bool {
    operation.spec.post_operation_items.iter().any(|item| item.group_resource() == "datauploads.velero.io")
}

fn is_csi_snapshot(volume: &BackupVolumeInfo) -> bool {
    volume.backup_method == Some(VolumeMethod::CsiSnapshot)
        && !volume.skipped
        && volume.result != Some(VolumeResult::Failed)
}

/// Why the snapshotter of a location cannot be used that snapshots are in.
async fn unreachable_location(context: &Context, snapshots: &[Snapshot]) -> Result<Option<String>> {
    let taken = snapshots.iter().filter(|snapshot| !snapshot.status.provider_snapshot_id.is_empty());
    let locations: BTreeSet<&String> = taken.map(|snapshot| &snapshot.spec.location).collect();
    if locations.is_empty() {
        return Ok(None);
    }
    let questions = context.plugins.for_questions()?;
    let mut problem = None;
    for location in locations {
        if let Err(error) = questions.actions.volume_snapshotter(location).await {
            let error = describe(&error);
            problem = Some(format!("error getting volume snapshotter for location {location:?}: {error}"));
            break;
        }
    }
    drop(questions);
    context.rest_plugins().await;
    Ok(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_snapshots_hold_can_be_removed() {
        let volume = |method, moved, skipped| BackupVolumeInfo {
            backup_method: Some(method),
            snapshot_data_moved: moved,
            skipped,
            ..BackupVolumeInfo::default()
        };
        for (volume, expected) in [
            (volume(VolumeMethod::NativeSnapshot, false, false), false),
            (volume(VolumeMethod::CsiSnapshot, false, false), false),
            (volume(VolumeMethod::CsiSnapshot, true, false), true),
            (volume(VolumeMethod::PodVolumeBackup, false, false), true),
            (volume(VolumeMethod::PodVolumeBackup, false, true), false),
            // It failed before anything was copied.
            (BackupVolumeInfo { result: Some(VolumeResult::Failed), ..BackupVolumeInfo::default() }, false),
        ] {
            assert_eq!(is_copied(&volume), expected, "{volume:?}");
        }
        let mut operation = BackupOperation::default();
        assert!(!moves_data(&operation));
        operation.spec.post_operation_items = vec![velero_api::records::ResourceIdentifier {
            group: "velero.io".to_owned(),
            resource: "datauploads".to_owned(),
            ..Default::default()
        }];
        assert!(moves_data(&operation));
    }
}

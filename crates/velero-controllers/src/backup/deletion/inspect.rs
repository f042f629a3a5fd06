//! What a backup owns, and whether all of it can be removed. Nothing is touched to find out.

use std::collections::BTreeSet;

use velero_api::metadata::name;
use velero_api::records::{BackupVolumeInfo, Snapshot, VolumeMethod, VolumeResult};
use velero_api::v1::Backup;
use velero_archive::BackupFile;
use velero_store::{BackupStore, Error as StoreError};

use crate::backup::deletion::snapshots::owned_snapshots;
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
    if let Some(problem) = owned_snapshots(context, backup, store).await?.obstacle() {
        return Ok(Some(format!("Backup {:?}: {problem}", name(backup))));
    }
    if !context.settings.features.csi() && volumes.iter().any(is_csi_snapshot) {
        let problem = "it owns CSI snapshots; start the server with --features=EnableCSI to delete them";
        return Ok(Some(format!("Backup {:?}: {problem}", name(backup))));
    }
    let snapshots: Vec<Snapshot> = store.get_json(name(backup), BackupFile::VolumeSnapshots).await?;
    unreachable_location(context, &snapshots).await
}

/// Whether a volume has a snapshot at its driver; that of one whose data was moved is gone.
fn is_csi_snapshot(volume: &BackupVolumeInfo) -> bool {
    volume.backup_method == Some(VolumeMethod::CsiSnapshot)
        && !volume.skipped
        && !volume.snapshot_data_moved
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
    fn only_snapshots_that_stayed_at_their_driver_need_the_feature() {
        let volume = |method, moved, skipped, result| BackupVolumeInfo {
            backup_method: Some(method),
            snapshot_data_moved: moved,
            skipped,
            result,
            ..BackupVolumeInfo::default()
        };
        for (volume, expected) in [
            (volume(VolumeMethod::CsiSnapshot, false, false, None), true),
            (volume(VolumeMethod::CsiSnapshot, true, false, None), false),
            (volume(VolumeMethod::CsiSnapshot, false, true, None), false),
            (volume(VolumeMethod::CsiSnapshot, false, false, Some(VolumeResult::Failed)), false),
            (volume(VolumeMethod::PodVolumeBackup, false, false, None), false),
        ] {
            assert_eq!(is_csi_snapshot(&volume), expected, "{volume:?}");
        }
    }
}

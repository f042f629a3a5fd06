//! The native snapshots of a backup after its run: their end, and their removal.
//!
//! While an upload goes on, its snapshot is New in the file of snapshots. When all operations have ended, the file and
//! the one about volumes say how each ended.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use velero_api::records::{BackupOperation, BackupVolumeInfo, OperationPhase, Snapshot, SnapshotPhase};
use velero_api::v1::Backup;
use velero_archive::BackupFile;
use velero_plugin::Actions;
use velero_store::BackupStore;

use crate::lifecycle::kind::Kind;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};
use crate::runtime::objects::name;

/// How many snapshots are removed at the same time.
const AT_ONCE: usize = 16;

/// How many snapshots were tried, and how many of them are good.
pub(crate) fn count(snapshots: &[Snapshot]) -> (i64, i64) {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    (number(snapshots.len()), number(snapshots.iter().filter(|snapshot| snapshot.is_complete()).count()))
}

/// Writes how the uploads of a backup's snapshots ended; gives how many snapshots are good then. An upload of which
/// nothing is known has failed.
pub(crate) async fn settle(store: &BackupStore, backup: &str, operations: &[BackupOperation]) -> Result<i64> {
    let mut snapshots: Vec<Snapshot> = store.get_json(backup, BackupFile::VolumeSnapshots).await?;
    if end_uploads(&mut snapshots, operations) {
        let mut volumes: Vec<BackupVolumeInfo> = store.get_json(backup, BackupFile::VolumeInfos).await?;
        update_volumes(&mut volumes, &snapshots);
        store.put_json(backup, BackupFile::VolumeInfos, &volumes).await?;
        store.put_json(backup, BackupFile::VolumeSnapshots, &snapshots).await?;
    }
    Ok(count(&snapshots).1)
}

/// Takes over how uploads ended; says whether that changed anything.
fn end_uploads(snapshots: &mut [Snapshot], operations: &[BackupOperation]) -> bool {
    let key = |location: &str, id: &str| (location.to_owned(), id.to_owned());
    let ended: BTreeMap<_, _> = operations
        .iter()
        .map(|operation| {
            let spec = &operation.spec;
            (key(&spec.volume_snapshot_location, &spec.operation_id), operation.status.phase())
        })
        .collect();
    let mut changed = false;
    for snapshot in snapshots.iter_mut().filter(|snapshot| snapshot.is_unfinished()) {
        let upload = ended.get(&key(&snapshot.spec.location, &snapshot.status.provider_snapshot_id));
        snapshot.status.phase = Some(match upload {
            Some(OperationPhase::Completed) => SnapshotPhase::Completed,
            _ => SnapshotPhase::Failed,
        });
        changed = true;
    }
    changed
}

fn update_volumes(volumes: &mut [BackupVolumeInfo], snapshots: &[Snapshot]) {
    for snapshot in snapshots {
        let is_of = |info: &&mut BackupVolumeInfo| {
            info.pv_name == snapshot.spec.persistent_volume_name && info.native_snapshot_info.is_some()
        };
        if let Some(volume) = volumes.iter_mut().find(is_of) {
            volume.native_snapshot_info = Some(snapshot.info());
            volume.result = snapshot.result();
        }
    }
}

/// Removes the snapshots that the files of a backup name; gives what could not be removed, in words.
pub(crate) async fn delete_stored(context: &Context, backup: &Backup, store: &BackupStore) -> Vec<String> {
    let snapshots: Vec<Snapshot> = match store.get_json(name(backup), BackupFile::VolumeSnapshots).await {
        Ok(snapshots) => snapshots,
        Err(error) => return vec![format!("error getting backup's volume snapshots: {}", describe(&error))],
    };
    if snapshots.is_empty() {
        return Vec::new();
    }
    match context.plugins.open(Some(&backup.journal(context))).await {
        Err(error) => vec![format!("error starting the plugins that delete volume snapshots: {}", describe(&error))],
        Ok(tools) => {
            let left = delete(&snapshots, &tools.actions).await;
            tools.put_away().await;
            left.into_iter().map(|(_, problem)| problem).collect()
        }
    }
}

/// Removes snapshots; gives those that are left, and why.
pub(crate) fn delete<'a>(snapshots: &'a [Snapshot], actions: &'a Actions) -> BoxFuture<'a, Vec<(Snapshot, String)>> {
    let mut removals: Vec<BoxFuture<'a, Option<(Snapshot, String)>>> = Vec::with_capacity(snapshots.len());
    for snapshot in snapshots {
        let removal = async move {
            let problem = delete_one(snapshot, actions).await.err()?;
            Some((snapshot.clone(), problem))
        };
        removals.push(removal.boxed());
    }
    stream::iter(removals).buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().boxed()
}

async fn delete_one(snapshot: &Snapshot, actions: &Actions) -> Result<(), String> {
    let (id, location) = (&snapshot.status.provider_snapshot_id, &snapshot.spec.location);
    // Without an identity it was never taken.
    if id.is_empty() {
        return Ok(());
    }
    let volume = &snapshot.spec.persistent_volume_name;
    tracing::info!(snapshot = id, location, volume, "Removing a volume snapshot");
    let snapshotter = actions.volume_snapshotter(location).await;
    let snapshotter = snapshotter
        .map_err(|error| format!("error getting volume snapshotter for location {location:?}: {}", describe(&error)))?;
    let deleted = snapshotter.delete_snapshot(id).await;
    deleted.map_err(|error| format!("error deleting snapshot {id} of volume {volume}: {}", describe(&error)))
}

#[cfg(test)]
mod tests {
    use velero_api::records::{NativeSnapshotInfo, VolumeResult};

    use super::*;

    fn snapshot(volume: &str, id: &str, phase: SnapshotPhase) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.spec.persistent_volume_name = volume.to_owned();
        snapshot.spec.location = "disk".to_owned();
        snapshot.status.provider_snapshot_id = id.to_owned();
        snapshot.status.phase = Some(phase);
        snapshot
    }

    fn upload(location: &str, id: &str, phase: OperationPhase) -> BackupOperation {
        let mut operation = BackupOperation::default();
        operation.spec.volume_snapshot_location = location.to_owned();
        operation.spec.operation_id = id.to_owned();
        operation.status.phase = Some(phase);
        operation
    }

    #[test]
    fn a_snapshot_is_good_once_its_own_upload_has_ended_well() {
        let mut snapshots = [
            snapshot("a", "1", SnapshotPhase::New),
            snapshot("b", "2", SnapshotPhase::New),
            snapshot("c", "3", SnapshotPhase::New),
            snapshot("d", "4", SnapshotPhase::New),
            snapshot("e", "", SnapshotPhase::Failed),
            snapshot("f", "6", SnapshotPhase::Completed),
        ];
        let operations = [
            upload("disk", "1", OperationPhase::Completed),
            upload("disk", "2", OperationPhase::Failed),
            upload("other", "3", OperationPhase::Completed),
            upload("disk", "4", OperationPhase::InProgress),
        ];
        assert!(end_uploads(&mut snapshots, &operations));
        let good: Vec<bool> = snapshots.iter().map(Snapshot::is_complete).collect();
        assert_eq!(good, [true, false, false, false, false, true]);
        assert_eq!(count(&snapshots), (6, 2));
        assert!(!end_uploads(&mut snapshots, &[]), "what has ended stays as it is");
    }

    #[test]
    fn the_file_about_volumes_follows_the_snapshots() {
        let volume = |name: &str, native| BackupVolumeInfo {
            pv_name: name.to_owned(),
            native_snapshot_info: native,
            ..BackupVolumeInfo::default()
        };
        let mut volumes = [volume("a", Some(NativeSnapshotInfo::default())), volume("b", None)];
        let snapshots = [snapshot("a", "1", SnapshotPhase::Failed), snapshot("b", "2", SnapshotPhase::Completed)];
        update_volumes(&mut volumes, &snapshots);
        assert_eq!(volumes[0].result, Some(VolumeResult::Failed));
        assert_eq!(volumes[0].native_snapshot_info.as_ref().unwrap().phase, "Failed");
        assert_eq!(volumes[1].result, None);
    }
}

//! The native snapshots of a backup after its run. While an upload goes on, its snapshot is New.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use velero_api::records::{BackupOperation, BackupVolumeInfo, OperationPhase, Snapshot, SnapshotPhase};
use velero_api::with_causes;
use velero_plugin::Actions;

use super::super::saved::SavedVolumes;

/// How many snapshots are removed at the same time.
const AT_ONCE: usize = 16;
/// How long the removal of the snapshots of a failed backup may take. They can be removed with the backup too.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes over how uploads ended; says whether that changed anything.
pub(super) fn settle(saved: &mut SavedVolumes, operations: &[BackupOperation]) -> bool {
    let key = |location: &str, id: &str| (location.to_owned(), id.to_owned());
    let ended: BTreeMap<_, _> = operations
        .iter()
        .map(|operation| {
            let spec = &operation.spec;
            (key(&spec.volume_snapshot_location, &spec.operation_id), operation.status.phase())
        })
        .collect();
    let mut changed = false;
    for snapshot in saved.snapshots.iter_mut().filter(|snapshot| snapshot.is_unfinished()) {
        let upload = ended.get(&key(&snapshot.spec.location, &snapshot.status.provider_snapshot_id));
        snapshot.status.phase = Some(match upload {
            Some(OperationPhase::Completed) => SnapshotPhase::Completed,
            _ => SnapshotPhase::Failed,
        });
        changed = true;
    }
    if changed {
        update_infos(&mut saved.infos, &saved.snapshots);
    }
    changed
}

fn update_infos(infos: &mut [BackupVolumeInfo], snapshots: &[Snapshot]) {
    for snapshot in snapshots {
        let is_of = |info: &&mut BackupVolumeInfo| {
            info.pv_name == snapshot.spec.persistent_volume_name && info.native_snapshot_info.is_some()
        };
        if let Some(volume) = infos.iter_mut().find(is_of) {
            volume.native_snapshot_info = Some(snapshot.info());
            volume.result = snapshot.result();
        }
    }
}

/// Removes the snapshots of a failed backup; those that are left stay listed, and are given in words.
pub(super) async fn discard(saved: &mut SavedVolumes, actions: &Actions) -> Vec<String> {
    match tokio::time::timeout(PATIENCE, delete(saved, actions)).await {
        Ok(left) => left,
        Err(_) => vec![format!("the snapshots of the volumes could not be removed within {PATIENCE:?}")],
    }
}

/// Removes snapshots; those that are left stay listed, and are given in words.
pub(super) async fn delete(saved: &mut SavedVolumes, actions: &Actions) -> Vec<String> {
    let mut removals: Vec<BoxFuture<'_, Option<(Snapshot, String)>>> = Vec::with_capacity(saved.snapshots.len());
    for snapshot in &saved.snapshots {
        let removal = async move {
            let problem = delete_one(snapshot, actions).await.err()?;
            Some((snapshot.clone(), problem))
        };
        removals.push(removal.boxed());
    }
    let left = stream::iter(removals).buffer_unordered(AT_ONCE).filter_map(std::future::ready);
    let (snapshots, problems) = left.collect::<Vec<_>>().await.into_iter().unzip();
    saved.snapshots = snapshots;
    problems
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
    let snapshotter = snapshotter.map_err(|error| {
        format!("error getting volume snapshotter for location {location:?}: {}", with_causes(&error))
    })?;
    let deleted = snapshotter.delete_snapshot(id).await;
    deleted.map_err(|error| format!("error deleting snapshot {id} of volume {volume}: {}", with_causes(&error)))
}

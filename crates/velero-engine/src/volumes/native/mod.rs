//! Native snapshots: the first location whose snapshotter knows a volume takes one, and a restore makes a volume of it.

mod restore;
mod saved;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::OnceCell;
use velero_api::metadata;
use velero_api::records::{
    BackupOperation, BackupOperationSpec, BackupVolumeInfo, ResourceIdentifier, Snapshot, SnapshotPhase, SnapshotSpec,
    SnapshotStatus, VolumeMethod,
};
use velero_api::v1::Backup;
use velero_cluster::ItemRef;
use velero_plugin::item;
use velero_plugin::{VolumeInfo, VolumeSnapshotter};
use velero_rules::volume_decision::VolumeDecision;
use velero_rules::volume_zone::zone_of;

use super::VOLUMES;
use super::backup_context::{BY_SNAPSHOT, BackupContext, info_of};
use super::error::VolumeError;
use super::method::Method;
use super::restore_context::{RestoreContext, VolumeVerdict, Wishes};
use super::saved::{AfterRun, SavedVolumes};
use crate::recorder::BackupRecorder;
use crate::restore::{Item, Trouble};

/// Tags of every snapshot, besides the labels of the backup.
const BACKUP_TAG: &str = "velero.io/backup";
const VOLUME_TAG: &str = "velero.io/pv";

type Opened = Result<Arc<dyn VolumeSnapshotter>, String>;

/// The snapshot locations of a backup; each is opened when it is first needed.
struct SnapshotLocations {
    locations: Vec<(String, OnceCell<Opened>)>,
}

impl SnapshotLocations {
    fn new(names: &[String]) -> Self {
        Self { locations: names.iter().map(|name| (name.clone(), OnceCell::new())).collect() }
    }
}

/// A volume in the hands of a snapshotter.
#[derive(Clone)]
struct Known {
    location: String,
    snapshotter: Arc<dyn VolumeSnapshotter>,
    volume_id: String,
}

/// Snapshots of volume snapshotter plugins.
pub(super) struct Native {
    locations: SnapshotLocations,
    /// The snapshots of the backup that is restored, by volume.
    snapshots: BTreeMap<String, Snapshot>,
}

impl Native {
    pub(super) fn new(locations: &[String], snapshots: Vec<Snapshot>) -> Self {
        let by_volume = |snapshot: Snapshot| (snapshot.spec.persistent_volume_name.clone(), snapshot);
        Self { locations: SnapshotLocations::new(locations), snapshots: snapshots.into_iter().map(by_volume).collect() }
    }
}

#[async_trait]
impl Method for Native {
    fn name(&self) -> VolumeMethod {
        VolumeMethod::NativeSnapshot
    }

    fn takes(&self, decision: VolumeDecision) -> bool {
        decision == VolumeDecision::Snapshot
    }

    async fn save_volume(&self, backup: &BackupContext<'_>, volume: &Value) -> Result<(), VolumeError> {
        let name = item::name(volume);
        let moves = backup.moves_data();
        if self.take_snapshot(backup, name, volume).await? {
            if moves {
                let warning = backup.journal.warning().item(ItemRef::new(VOLUMES, None, name));
                warning.message("The data of the volume stays where its snapshot is: snapshotters do not move data");
            }
            return Ok(());
        }
        let reason = "no applicable volumesnapshotter found";
        let entry = backup.journal.info().item(ItemRef::new(VOLUMES, None, name));
        entry.message(&format!("No snapshot of the volume is taken: {reason}"));
        backup.volumes.note_skipped(volume, BY_SNAPSHOT, reason);
        if moves && volume["spec"]["csi"].is_object() {
            let neither = "no snapshot of it is taken either (the server lacks --features=EnableCSI)";
            backup.tell_of_unmoved(volume, neither);
        }
        Ok(())
    }

    fn settle(&self, saved: &mut SavedVolumes, operations: &[BackupOperation]) -> bool {
        saved::settle(saved, operations)
    }

    async fn discard(&self, after: &AfterRun<'_>, saved: &mut SavedVolumes) -> Vec<String> {
        saved::discard(saved, after.actions).await
    }

    async fn delete(&self, after: &AfterRun<'_>, saved: &mut SavedVolumes) -> Vec<String> {
        saved::delete(saved, after.actions).await
    }

    fn has_saved_unlisted(&self, volume: &Value) -> bool {
        self.snapshots.contains_key(item::name(volume))
    }

    fn verdict(&self, wishes: &Wishes, _: Option<&BackupVolumeInfo>) -> VolumeVerdict {
        match wishes.restore_data {
            true => VolumeVerdict::FromSnapshot,
            false => VolumeVerdict::AsItWas,
        }
    }

    async fn restore_volume(
        &self,
        restore: &RestoreContext<'_>,
        item: &Item,
        volume: &mut Value,
    ) -> Result<(), Trouble> {
        self.volume_from_snapshot(restore, item, volume).await
    }
}

/// What is told of a volume and its snapshot.
fn info_with(volume: &Value, snapshot: &Snapshot) -> BackupVolumeInfo {
    BackupVolumeInfo {
        backup_method: Some(VolumeMethod::NativeSnapshot),
        result: snapshot.result(),
        native_snapshot_info: Some(snapshot.info()),
        ..info_of(volume)
    }
}

impl Native {
    /// Takes a snapshot of a volume; false when no snapshotter knows it.
    async fn take_snapshot(&self, backup: &BackupContext<'_>, name: &str, volume: &Value) -> Result<bool, VolumeError> {
        let Some(known) = self.find_snapshotter(backup, name, volume).await else {
            return Ok(false);
        };
        let (snapshotter, zone) = (&known.snapshotter, zone_of(volume));
        let failed = |doing, error| VolumeError::Snapshotter {
            doing,
            volume_id: known.volume_id.clone(),
            location: known.location.clone(),
            source: Box::new(error),
        };
        let info = snapshotter.get_volume_info(&known.volume_id, &zone).await;
        let info = info.map_err(|error| failed("getting information on", error))?;
        let spec = known.snapshot_spec(backup, name, info, zone);
        let (recorder, owner) = (backup.recorder.clone(), backup.backup.clone());
        let taking = known.clone().take_and_record(recorder, owner, spec, tags(backup, name));
        let (snapshot, answer) = backup.recorder.call(taking).await;
        backup.volumes.note(info_with(volume, &snapshot));
        let id = answer.map_err(|error| failed("taking a snapshot of", error))?;
        let entry = backup.journal.info().item(ItemRef::new(VOLUMES, None, name)).field("snapshot", id);
        entry.field("volumeSnapshotLocation", known.location.clone()).message("Took a snapshot of the volume");
        Ok(true)
    }

    /// The first snapshotter that knows a volume. One that cannot be asked is an error of the backup, and the next is
    /// asked.
    async fn find_snapshotter(&self, backup: &BackupContext<'_>, name: &str, volume: &Value) -> Option<Known> {
        for (location, opened) in &self.locations.locations {
            let trouble = |error: &dyn std::fmt::Display, message: &str| {
                let entry = backup.journal.error().item(ItemRef::new(VOLUMES, None, name)).error(error);
                entry.field("volumeSnapshotLocation", location.clone()).message(message);
            };
            let opened = opened.get_or_init(|| async {
                backup.actions.volume_snapshotter(location).await.map_err(|error| error.to_string())
            });
            let snapshotter = match opened.await {
                Ok(snapshotter) => Arc::clone(snapshotter),
                Err(error) => {
                    trouble(error, "Error getting the volume snapshotter of a volume snapshot location");
                    continue;
                }
            };
            match snapshotter.get_volume_id(volume).await {
                Ok(Some(volume_id)) => return Some(Known { location: location.clone(), snapshotter, volume_id }),
                Ok(None) => {}
                Err(error) => trouble(&error, "Error getting the ID of a volume"),
            }
        }
        None
    }
}

impl Known {
    fn snapshot_spec(&self, backup: &BackupContext<'_>, name: &str, info: VolumeInfo, zone: String) -> SnapshotSpec {
        SnapshotSpec {
            backup_name: metadata::name(backup.backup).to_owned(),
            backup_uid: metadata::uid(backup.backup).to_owned(),
            location: self.location.clone(),
            persistent_volume_name: name.to_owned(),
            provider_volume_id: self.volume_id.clone(),
            volume_type: info.volume_type,
            volume_az: zone,
            volume_iops: info.iops,
            ..SnapshotSpec::default()
        }
    }

    /// Takes a snapshot and records it, one that failed included. Its upload is an operation that the backup waits for.
    async fn take_and_record(
        self,
        recorder: BackupRecorder,
        backup: Backup,
        spec: SnapshotSpec,
        tags: BTreeMap<String, String>,
    ) -> (Snapshot, velero_plugin::Result<String>) {
        let answer = self.snapshotter.create_snapshot(&self.volume_id, &spec.volume_az, &tags).await;
        let follows_uploads = self.snapshotter.follows_uploads();
        let status = match &answer {
            Ok(id) if follows_uploads => status(id, SnapshotPhase::New),
            Ok(id) => status(id, SnapshotPhase::Completed),
            Err(_) => status("", SnapshotPhase::Failed),
        };
        let snapshot = Snapshot { spec, status };
        recorder.snapshots.add(snapshot.clone());
        if let Ok(id) = &answer
            && follows_uploads
        {
            recorder.add_operation(&backup, self.upload(&snapshot.spec.persistent_volume_name, id));
        }
        (snapshot, answer)
    }

    /// The upload of a snapshot of a volume.
    fn upload(&self, volume: &str, snapshot_id: &str) -> BackupOperationSpec {
        BackupOperationSpec {
            backup_item_action: self.snapshotter.name().to_owned(),
            resource_identifier: ResourceIdentifier::new("", VOLUMES, "", volume),
            operation_id: snapshot_id.to_owned(),
            volume_snapshot_location: self.location.clone(),
            ..BackupOperationSpec::default()
        }
    }
}

fn tags(backup: &BackupContext<'_>, name: &str) -> BTreeMap<String, String> {
    let mut tags = backup.backup.metadata.labels.clone().unwrap_or_default();
    tags.insert(BACKUP_TAG.to_owned(), metadata::name(backup.backup).to_owned());
    tags.insert(VOLUME_TAG.to_owned(), name.to_owned());
    tags
}

fn status(snapshot_id: &str, phase: SnapshotPhase) -> SnapshotStatus {
    SnapshotStatus { provider_snapshot_id: snapshot_id.to_owned(), phase: Some(phase), ..SnapshotStatus::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_api::records::VolumeResult;

    use super::*;

    #[test]
    fn a_volume_is_told_of_with_its_claim_and_its_snapshot() {
        let claim = json!({"namespace": "shop", "name": "data"});
        let volume = json!({"metadata": {"name": "pv-1"}, "spec": {"claimRef": claim}});
        let snapshot = Snapshot { status: status("s1", SnapshotPhase::Completed), ..Snapshot::default() };
        let taken = info_with(&volume, &snapshot);
        assert_eq!((taken.pvc_namespace.as_str(), taken.pvc_name.as_str()), ("shop", "data"));
        assert_eq!(taken.result, Some(VolumeResult::Succeeded));
        assert_eq!(taken.native_snapshot_info.as_ref().unwrap().snapshot_handle, "s1");
    }
}

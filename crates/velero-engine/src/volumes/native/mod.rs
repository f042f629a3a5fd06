//! Native snapshots: the first location whose snapshotter knows a volume takes one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{OnceCell, watch};
use velero_api::records::{
    BackupOperationSpec, ResourceIdentifier, Snapshot, SnapshotPhase, SnapshotSpec, SnapshotStatus,
};
use velero_plugin::{VolumeInfo, VolumeSnapshotter};
use velero_rules::volume_zone::zone_of;

use super::act::{ItemResult, Run};
use super::pool::VOLUMES;

/// Tags of every snapshot, besides the labels of the backup.
const BACKUP_TAG: &str = "velero.io/backup";
const VOLUME_TAG: &str = "velero.io/pv";

/// The snapshots a backup has taken so far. Clones share them, so that it is known what was taken also of a backup that
/// never came to its end.
#[derive(Clone, Debug, Default)]
pub struct TakenSnapshots {
    snapshots: watch::Sender<Vec<Snapshot>>,
}

impl TakenSnapshots {
    /// All of them, those that failed included.
    pub fn all(&self) -> Vec<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// Tells whoever waits for it that there are more.
    pub fn subscribe(&self) -> watch::Receiver<Vec<Snapshot>> {
        self.snapshots.subscribe()
    }

    pub(super) fn add(&self, snapshot: Snapshot) {
        self.snapshots.send_modify(|snapshots| snapshots.push(snapshot));
    }
}

type Opened = Result<Arc<dyn VolumeSnapshotter>, String>;

/// The snapshot locations of a backup; each is opened when it is first needed.
pub(super) struct SnapshotLocations {
    locations: Vec<(String, OnceCell<Opened>)>,
}

impl SnapshotLocations {
    pub(super) fn new(names: &[String]) -> Self {
        Self { locations: names.iter().map(|name| (name.clone(), OnceCell::new())).collect() }
    }
}

/// A volume in the hands of a snapshotter.
struct Known {
    location: String,
    snapshotter: Arc<dyn VolumeSnapshotter>,
    volume_id: String,
}

impl Run {
    /// Takes a snapshot of a volume; false when no snapshotter knows it.
    pub(super) async fn take_snapshot(&self, name: &str, volume: &Value) -> ItemResult<bool> {
        let Some(Known { location, snapshotter, volume_id }) = self.find_snapshotter(name, volume).await else {
            return Ok(false);
        };
        let zone = zone_of(volume);
        let failed = |what: &str, error: velero_plugin::Error| {
            format!("error {what} volume {volume_id} of volume snapshot location {location}: {error}")
        };
        let info = snapshotter.get_volume_info(&volume_id, &zone).await;
        let info = info.map_err(|error| failed("getting information on", error))?;
        let answer = snapshotter.create_snapshot(&volume_id, &zone, &self.tags(name)).await;
        let status = match &answer {
            Ok(id) if snapshotter.follows_uploads() => status(id, SnapshotPhase::New),
            Ok(id) => status(id, SnapshotPhase::Completed),
            Err(_) => status("", SnapshotPhase::Failed),
        };
        let spec = self.snapshot_spec(name, info, (&location, &volume_id, zone));
        self.volumes.note_snapshot(volume, Snapshot { spec, status });
        let id = answer.map_err(|error| failed("taking a snapshot of", error))?;
        let entry = self.journal.info().object(VOLUMES, None, name).field("snapshot", id.clone());
        entry.field("volumeSnapshotLocation", location.clone()).message("Took a snapshot of the volume");
        if snapshotter.follows_uploads() {
            self.record_upload(name, snapshotter.name(), location, id);
        }
        Ok(true)
    }

    /// The first snapshotter that knows a volume. One that cannot be asked is an error of the backup, and the next is
    /// asked.
    async fn find_snapshotter(&self, name: &str, volume: &Value) -> Option<Known> {
        for (location, opened) in &self.volumes.locations.locations {
            let trouble = |error: &dyn std::fmt::Display, message: &str| {
                let entry = self.journal.error().object(VOLUMES, None, name).error(error);
                entry.field("volumeSnapshotLocation", location.clone()).message(message);
            };
            let opened = opened.get_or_init(|| async {
                self.request.actions.volume_snapshotter(location).await.map_err(|error| error.to_string())
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

    fn tags(&self, name: &str) -> BTreeMap<String, String> {
        let metadata = &self.request.backup.metadata;
        let mut tags = metadata.labels.clone().unwrap_or_default();
        tags.insert(BACKUP_TAG.to_owned(), metadata.name.clone().unwrap_or_default());
        tags.insert(VOLUME_TAG.to_owned(), name.to_owned());
        tags
    }

    fn snapshot_spec(
        &self,
        name: &str,
        info: VolumeInfo,
        (location, volume_id, zone): (&str, &str, String),
    ) -> SnapshotSpec {
        let metadata = &self.request.backup.metadata;
        SnapshotSpec {
            backup_name: metadata.name.clone().unwrap_or_default(),
            backup_uid: metadata.uid.clone().unwrap_or_default(),
            location: location.to_owned(),
            persistent_volume_name: name.to_owned(),
            provider_volume_id: volume_id.to_owned(),
            volume_type: info.volume_type,
            volume_az: zone,
            volume_iops: info.iops,
            ..SnapshotSpec::default()
        }
    }

    /// The upload of a snapshot is an operation that the backup waits for.
    fn record_upload(&self, name: &str, snapshotter: &str, location: String, snapshot_id: String) {
        self.add_operation(BackupOperationSpec {
            backup_item_action: snapshotter.to_owned(),
            resource_identifier: ResourceIdentifier {
                resource: VOLUMES.to_owned(),
                name: name.to_owned(),
                ..ResourceIdentifier::default()
            },
            operation_id: snapshot_id,
            volume_snapshot_location: location,
            ..BackupOperationSpec::default()
        });
    }
}

fn status(snapshot_id: &str, phase: SnapshotPhase) -> SnapshotStatus {
    SnapshotStatus { provider_snapshot_id: snapshot_id.to_owned(), phase: Some(phase), ..SnapshotStatus::default() }
}

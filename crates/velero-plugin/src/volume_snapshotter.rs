//! The trait of plugins that take snapshots of volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::actions::OperationProgress;
use crate::error::Result;

/// Takes snapshots of volumes in a storage system, and makes volumes of them.
#[async_trait]
pub trait VolumeSnapshotter: Send + Sync {
    /// The name, such as `velero.io/aws`.
    fn name(&self) -> &str;

    /// Prepares it with the config of a VolumeSnapshotLocation. Called before anything else, and again after the
    /// process was restarted.
    async fn init(&self, config: &BTreeMap<String, String>) -> Result<()>;

    /// Makes a volume of a snapshot and gives its ID.
    async fn create_volume_from_snapshot(&self, snapshot_id: &str, volume: &VolumeInfo, zone: &str) -> Result<String>;

    /// The type and speed of a volume.
    async fn get_volume_info(&self, volume_id: &str, zone: &str) -> Result<VolumeInfo>;

    /// Takes a snapshot of a volume and gives its ID, which is also the ID of the upload that may follow.
    async fn create_snapshot(&self, volume_id: &str, zone: &str, tags: &BTreeMap<String, String>) -> Result<String>;

    /// Removes a snapshot, and ends its upload if there is one.
    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<()>;

    /// The ID of the volume behind a PersistentVolume; `None` when it is not a volume of this storage system.
    async fn get_volume_id(&self, persistent_volume: &Value) -> Result<Option<String>>;

    /// The PersistentVolume with another volume behind it.
    async fn set_volume_id(&self, persistent_volume: &Value, volume_id: &str) -> Result<Value>;

    /// Whether it can be asked about the uploads of its snapshots; snapshotters of the first version cannot.
    fn follows_uploads(&self) -> bool {
        true
    }

    /// How far the upload of a snapshot is. Complete at once unless the storage system says otherwise.
    async fn progress(&self, snapshot_id: &str) -> Result<OperationProgress> {
        let _ = snapshot_id;
        Ok(OperationProgress { completed: true, ..OperationProgress::default() })
    }

    /// Says that nobody waits for the upload of a snapshot any more.
    async fn cancel(&self, snapshot_id: &str) -> Result<()> {
        let _ = snapshot_id;
        Ok(())
    }
}

/// Finds the snapshotters of VolumeSnapshotLocations.
#[async_trait]
pub trait SnapshotterSource: Send + Sync {
    /// The snapshotter of a location, ready to be used.
    async fn snapshotter(&self, location: &str) -> Result<Arc<dyn VolumeSnapshotter>>;
}

/// What a volume is like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeInfo {
    /// The type, in the words of the storage system.
    pub volume_type: String,
    /// The provisioned operations a second, where the type has them.
    pub iops: Option<i64>,
}

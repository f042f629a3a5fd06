//! The JSON records beside a backup or restore in the object store, and those pods hand to each other.

mod data_path;
mod operation;
mod resource_identifier;
mod results;
mod snapshot;
mod volume_info;

use std::collections::BTreeMap;

pub use data_path::{
    BackupResult, CANCELED_ENDING, DATA_PATH_CANCELED, DATA_PATH_CANCELING, DATA_PATH_COMPLETED, DATA_PATH_FAILED,
    DATA_PATH_PROGRESS, DATA_PATH_STARTED, DATA_PATH_STOPPED, DataPathEndpoint, DataPathProgress, RestoreResult,
    VOLUME_MODE_BLOCK, VOLUME_MODE_FILESYSTEM,
};
pub use operation::{
    BackupOperation, BackupOperationSpec, OperationPhase, OperationStatus, RestoreOperation, RestoreOperationSpec,
};
pub use resource_identifier::ResourceIdentifier;
pub use results::{Results, ResultsFile};
pub use snapshot::{Snapshot, SnapshotPhase, SnapshotSpec, SnapshotStatus};
pub use volume_info::{
    BackupVolumeInfo, CsiSnapshotInfo, NativeSnapshotInfo, PodVolumeInfo, PvInfo, RestoreVolumeInfo,
    SnapshotDataMovementInfo, UNKNOWN_VALUE, VolumeMethod, VolumeResult,
};

/// The objects of a backup or restore by type: from `apps/v1/Deployment` to a sorted list of
/// `namespace/name`, or `name` when cluster-scoped. A restore adds what it did: `default/web(created)`.
pub type ResourceList = BTreeMap<String, Vec<String>>;

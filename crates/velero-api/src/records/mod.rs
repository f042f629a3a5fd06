//! The JSON records beside a backup or restore in the object store.

mod operation;
mod resource_identifier;
mod results;
mod snapshot;
mod volume_info;

use std::collections::BTreeMap;

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

//! The kinds of `velero.io/v1`, one file each.

mod backup;
mod backup_hooks;
mod backup_repository;
mod backup_status;
mod backup_storage_location;
mod delete_backup_request;
mod download_request;
mod pod_volume_backup;
mod pod_volume_restore;
mod restore;
mod restore_hooks;
mod restore_status;
mod schedule;
mod server_status_request;
mod stage;
mod volume_snapshot_location;

pub use backup::{Backup, BackupSpec, Metadata, UploaderConfigForBackup};
pub use backup_hooks::{BackupHooks, BackupResourceHook, BackupResourceHookSpec, ExecHook, HookErrorMode};
pub use backup_repository::{
    BackupRepository, BackupRepositoryMaintenanceResult, BackupRepositoryMaintenanceStatus, BackupRepositoryPhase,
    BackupRepositorySpec, BackupRepositoryStatus,
};
pub use backup_status::{BackupPhase, BackupProgress, BackupStatus, HookStatus};
pub use backup_storage_location::{
    BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationPhase, BackupStorageLocationSpec,
    BackupStorageLocationStatus, ObjectStorageLocation,
};
pub use delete_backup_request::{
    DeleteBackupRequest, DeleteBackupRequestPhase, DeleteBackupRequestSpec, DeleteBackupRequestStatus,
};
pub use download_request::{
    DownloadRequest, DownloadRequestPhase, DownloadRequestSpec, DownloadRequestStatus, DownloadTarget,
    DownloadTargetKind,
};
pub use pod_volume_backup::{PodVolumeBackup, PodVolumeBackupPhase, PodVolumeBackupSpec, PodVolumeBackupStatus};
pub use pod_volume_restore::{PodVolumeRestore, PodVolumeRestorePhase, PodVolumeRestoreSpec, PodVolumeRestoreStatus};
pub use restore::{ExistingResourcePolicy, Restore, RestoreSpec, RestoreStatusSpec, UploaderConfigForRestore};
pub use restore_hooks::{ExecRestoreHook, InitRestoreHook, RestoreHooks, RestoreResourceHook, RestoreResourceHookSpec};
pub use restore_status::{RestorePhase, RestoreProgress, RestoreStatus};
pub use schedule::{Schedule, SchedulePhase, ScheduleSpec, ScheduleStatus};
pub use server_status_request::{
    PluginInfo, SERVER_STATUS_NAME, ServerStatus, ServerStatusRequest, ServerStatusRequestPhase,
    ServerStatusRequestSpec, ServerStatusRequestStatus,
};
pub use stage::{Ending, Stage};
pub use volume_snapshot_location::{
    VolumeSnapshotLocation, VolumeSnapshotLocationPhase, VolumeSnapshotLocationSpec, VolumeSnapshotLocationStatus,
};

//! The controllers, by the names that flags and the log call them.

use std::fmt;
use std::str::FromStr;

/// A part of the server that reconciles, or a step of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Runs backups.
    Backup,
    /// Deletes backups.
    BackupDeletion,
    /// Finishes backups whose operations have ended.
    BackupFinalizer,
    /// Follows the operations of backups.
    BackupOperations,
    /// Lets backups wait for their turn.
    BackupQueue,
    /// Looks after repositories of volume data.
    BackupRepository,
    /// Says whether locations can be used. It always runs.
    BackupStorageLocation,
    /// Brings backups of the bucket into the cluster.
    BackupSync,
    /// Fills volumes with moved data, in the node agent.
    DataDownload,
    /// Moves the data of snapshots, in the node agent.
    DataUpload,
    /// Hands out files.
    DownloadRequest,
    /// Asks for the deletion of backups whose time is over.
    GarbageCollection,
    /// Saves volumes of pods, in the node agent.
    PodVolumeBackup,
    /// Fills volumes of pods, in the node agent.
    PodVolumeRestore,
    /// Runs restores.
    Restore,
    /// Finishes restores that were left behind.
    RestoreFinalizer,
    /// Follows the operations of restores.
    RestoreOperations,
    /// Makes backups when schedules say so.
    Schedule,
    /// Says version and plugins.
    ServerStatusRequest,
}

impl Controller {
    /// The controllers that `--disable-controllers` may name.
    const DISABLEABLE: [Self; 14] = [
        Self::Backup,
        Self::BackupDeletion,
        Self::BackupFinalizer,
        Self::BackupOperations,
        Self::BackupQueue,
        Self::BackupRepository,
        Self::BackupSync,
        Self::DownloadRequest,
        Self::GarbageCollection,
        Self::Restore,
        Self::RestoreFinalizer,
        Self::RestoreOperations,
        Self::Schedule,
        Self::ServerStatusRequest,
    ];

    /// Its name, as in `--disable-controllers`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::BackupDeletion => "backup-deletion",
            Self::BackupFinalizer => "backup-finalizer",
            Self::BackupOperations => "backup-operations",
            Self::BackupQueue => "backup-queue",
            Self::BackupRepository => "backup-repo",
            Self::BackupStorageLocation => "backup-storage-location",
            Self::BackupSync => "backup-sync",
            Self::DataDownload => "data-download",
            Self::DataUpload => "data-upload",
            Self::DownloadRequest => "download-request",
            Self::GarbageCollection => "gc",
            Self::PodVolumeBackup => "pod-volume-backup",
            Self::PodVolumeRestore => "pod-volume-restore",
            Self::Restore => "restore",
            Self::RestoreFinalizer => "restore-finalizer",
            Self::RestoreOperations => "restore-operations",
            Self::Schedule => "schedule",
            Self::ServerStatusRequest => "server-status-request",
        }
    }

    /// Whether `--restore-only` switches it off.
    pub(crate) fn is_off_when_restore_only(self) -> bool {
        matches!(
            self,
            Self::Backup
                | Self::BackupDeletion
                | Self::BackupFinalizer
                | Self::BackupOperations
                | Self::GarbageCollection
                | Self::Schedule
        )
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that `--disable-controllers` does not know.
#[derive(Debug, thiserror::Error)]
#[error("{name:?} is not a controller; known are {}", Controller::DISABLEABLE.map(Controller::name).join(", "))]
pub struct UnknownController {
    name: String,
}

impl FromStr for Controller {
    type Err = UnknownController;

    /// Reads the name of a controller that can be switched off.
    fn from_str(name: &str) -> Result<Self, UnknownController> {
        let found = Self::DISABLEABLE.into_iter().find(|controller| controller.name() == name);
        found.ok_or_else(|| UnknownController { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_known_by_its_name() {
        for controller in Controller::DISABLEABLE {
            assert_eq!(controller.name().parse::<Controller>().unwrap(), controller);
        }
        for unknown in ["nope", "", "Backup", "backup-storage-location"] {
            let problem = unknown.parse::<Controller>().unwrap_err().to_string();
            assert!(problem.starts_with(&format!("{unknown:?} is not a controller; known are backup, ")), "{problem}");
        }
    }
}

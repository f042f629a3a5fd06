//! The files in the object store a description draws on.

use std::fmt;

use serde_json::Value;
use velero_api::records::{
    BackupOperation, BackupVolumeInfo, ResourceList, RestoreOperation, RestoreVolumeInfo, ResultsFile, Snapshot,
};

/// Why a file could not be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FetchError {
    /// The object store does not have it.
    NotFound,
    /// It could not be fetched.
    Failed(String),
    /// It could not be read.
    Unreadable(String),
}

impl fmt::Display for FetchError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => formatter.write_str("file not found"),
            Self::Failed(message) | Self::Unreadable(message) => formatter.write_str(message),
        }
    }
}

/// A file that was asked for.
pub(crate) type Fetched<T> = Result<T, FetchError>;

/// A file, or nothing when the description does not need it.
pub(crate) type Wanted<T> = Option<Fetched<T>>;

/// The files of a backup.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackupFiles {
    /// Errors and warnings.
    pub(crate) results: Wanted<ResultsFile>,
    /// Asynchronous operations.
    pub(crate) operations: Wanted<Vec<BackupOperation>>,
    /// The names of all objects.
    pub(crate) resource_list: Wanted<ResourceList>,
    /// What was done with each volume.
    pub(crate) volume_infos: Wanted<Vec<BackupVolumeInfo>>,
    /// Native snapshots, where there is no file about volumes.
    pub(crate) native_snapshots: Wanted<Vec<Snapshot>>,
    /// CSI snapshots and their contents, where there is no file about volumes.
    pub(crate) csi_snapshots: Wanted<(Vec<Value>, Vec<Value>)>,
}

/// The files of a restore.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoreFiles {
    /// Errors and warnings.
    pub(crate) results: Wanted<ResultsFile>,
    /// Asynchronous operations.
    pub(crate) operations: Wanted<Vec<RestoreOperation>>,
    /// The names of all objects.
    pub(crate) resource_list: Wanted<ResourceList>,
    /// What was done with each volume.
    pub(crate) volume_infos: Wanted<Vec<RestoreVolumeInfo>>,
}

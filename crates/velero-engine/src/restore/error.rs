//! Why a restore could not be made at all.

use super::chunks::ScratchError;

/// Why a restore could not be made. Nothing was written to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The archive cannot be used.
    #[error("the archive of the backup cannot be restored: {0}")]
    Archive(#[from] velero_archive::Error),
    /// The archive is too large for memory, and cannot be kept elsewhere.
    #[error("the archive of the backup cannot be restored: {0}")]
    Scratch(#[from] ScratchError),
    /// The restore asks for something that cannot be done.
    #[error("{0}")]
    Request(String),
    /// An action does not say what it applies to.
    #[error(transparent)]
    Action(#[from] velero_plugin::Error),
    /// The cluster could not be asked.
    #[error(transparent)]
    Cluster(#[from] velero_cluster::Error),
    /// The archive was not read to its end.
    #[error("reading the archive stopped unexpectedly")]
    Interrupted,
}

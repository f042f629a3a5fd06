//! Why node agents are not asked to copy or fill the volumes of a pod.

use velero_api::with_causes;
use velero_cluster::Error as ClusterError;

use super::agents::NoAgent;
use super::repositories::NoRepository;

/// Why no volume of a pod can be copied or filled.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReady {
    /// Nobody can reach the volumes.
    #[error(transparent)]
    NoAgent(#[from] NoAgent),
    /// There is no place for the data.
    #[error(transparent)]
    NoRepository(#[from] NoRepository),
}

/// Why the object is not there that asks for one volume.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAsked {
    /// The claim of the volume cannot be read.
    #[error("its claim cannot be read: {}", with_causes(.0))]
    ClaimUnread(ClusterError),
    /// The claim of the volume is not there.
    #[error("its claim {0} does not exist")]
    NoClaim(String),
    /// The object cannot be written as JSON.
    #[error("{}", with_causes(.0))]
    Unwritable(serde_json::Error),
    /// The API server did not make it.
    #[error("its {kind} cannot be made: {}", with_causes(.problem))]
    NotMade { kind: &'static str, problem: ClusterError },
    /// What the API server made cannot be read.
    #[error("its {kind} cannot be read: {problem}")]
    Unread { kind: &'static str, problem: serde_json::Error },
}

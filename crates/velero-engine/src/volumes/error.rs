//! Why the data of a volume is not saved.

/// Why the data of a volume is not saved, or why nobody knows whether it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    /// The claim of a volume cannot be read.
    #[error("error getting claim {namespace}/{claim} of the volume: {source}")]
    Claim { namespace: String, claim: String, source: velero_cluster::Error },
    /// The volume of a claim cannot be read.
    #[error("error getting volume {volume} of the claim: {source}")]
    Volume { volume: String, source: velero_cluster::Error },
    /// A claim is bound to a volume that is not there.
    #[error("volume {0} of the claim does not exist")]
    NoVolume(String),
    /// The pods of a namespace cannot be listed.
    #[error("error getting the pods that mount the volume: {0}")]
    Pods(#[source] velero_cluster::Error),
    /// The volumes of a pod cannot be understood.
    #[error("error getting the pods that mount the volume: {0}")]
    PodVolumes(#[source] serde_json::Error),
    /// An object behind the volume of a pod cannot be read.
    #[error("error getting {resource} {name}: {source}")]
    Object { resource: &'static str, name: String, source: velero_cluster::Error },
    /// A volume snapshotter failed.
    #[error("error {doing} volume {volume_id} of volume snapshot location {location}: {source}")]
    Snapshotter { doing: &'static str, volume_id: String, location: String, source: Box<velero_plugin::Error> },
    /// A CSI snapshot went away before it could be followed.
    #[error("the CSI snapshot of volume {0} was gone before it could be backed up")]
    SnapshotGone(String),
}

//! What a restore is asked for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use velero_api::FeatureFlags;
use velero_api::records::{BackupVolumeInfo, RestoreOperation, Snapshot};
use velero_api::v1::{Backup, Restore};
use velero_archive::Limits;
use velero_cluster::{Cluster, Discovery};
use velero_plugin::Actions;
use velero_rules::ordering::Priorities;
use velero_rules::resource_modifiers::ResourceModifiers;
use velero_rules::resource_policies::ResourcePolicies;
use velero_rules::resume::Relative;

use crate::recorder::Recorded;
use crate::volumes::CopyMeans;

/// What to restore, and with what. The restore has been completed and validated.
pub struct RestoreRequest {
    /// The restore, its defaults filled in.
    pub restore: Restore,
    /// The backup to restore from.
    pub backup: Backup,
    /// The cluster to write to.
    pub cluster: Cluster,
    /// What the cluster serves.
    pub discovery: Arc<Discovery>,
    /// The actions that take part.
    pub actions: Actions,
    /// Changes to make to objects on the way.
    pub modifiers: Option<ResourceModifiers>,
    /// The resource policies the restore refers to.
    pub policies: Option<ResourcePolicies>,
    /// What the backup did with volumes, as its volume info file says.
    pub volumes: Vec<BackupVolumeInfo>,
    /// The native snapshots of the backup.
    pub snapshots: Vec<Snapshot>,
    /// Where the operations are written down that actions start.
    pub operations: Recorded<RestoreOperation>,
    /// The features of the server.
    pub features: FeatureFlags,
    /// The order of types.
    pub priorities: Priorities,
    /// The versions the user prefers, by type, when all versions are in the backup.
    pub version_priorities: velero_rules::api_versions::VersionPriorities,
    /// How long one object may take to become usable.
    pub resource_timeout: Duration,
    /// How long to wait for a namespace or volume that is going away.
    pub terminating_timeout: Duration,
    /// How much the archive may hold.
    pub limits: Limits,
    /// Where an archive is kept that is too large for memory.
    pub scratch: PathBuf,
    /// What volumes that are filled from copies need.
    pub copy_means: CopyMeans,
    /// The restores that this one goes on with; none for most.
    pub resumes: Vec<Relative>,
    /// Cancelled when no further item is to be begun: what is at hand is finished, and the rest is told as not restored.
    pub halt: CancellationToken,
}

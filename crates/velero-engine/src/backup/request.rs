//! What a backup is asked for, and what it came to.

use std::sync::Arc;

use velero_api::FeatureFlags;
use velero_api::records::{BackupOperation, ResourceIdentifier};
use velero_api::v1::{Backup, BackupProgress, BackupSpec, HookStatus};
use velero_archive::Limits;
use velero_cluster::{Cluster, Discovery};
use velero_plugin::Actions;
use velero_rules::resource_policies::ResourcePolicies;

use crate::ItemList;
use crate::hooks::OwedHooks;
use crate::recorder::BackupRecorder;
use crate::volumes::{CopyMeans, SavedVolumes};

/// What to back up, and with what. The backup has been completed and validated.
pub struct BackupRequest {
    /// The backup, its defaults filled in.
    pub backup: Backup,
    /// What the user wrote, before anything was filled in: filters are judged by it.
    pub asked: BackupSpec,
    /// The cluster to read from.
    pub cluster: Cluster,
    /// What the cluster serves.
    pub discovery: Arc<Discovery>,
    /// The actions that take part.
    pub actions: Actions,
    /// The resource policies the backup refers to.
    pub policies: Option<ResourcePolicies>,
    /// The features of the server.
    pub features: FeatureFlags,
    /// The most items a page of a list may hold; zero asks for whole lists.
    pub page_size: u32,
    /// How many groups of related items are worked on at the same time.
    pub item_block_workers: usize,
    /// Where it is written down what is set going: operations and snapshots.
    pub recorder: BackupRecorder,
    /// How much the archive may hold: as much as may be restored.
    pub limits: Limits,
    /// Where it is written down in which pods hooks ran whose counterparts are still to run.
    pub owed_hooks: OwedHooks,
    /// What copies of volumes through pods need.
    pub copy_means: CopyMeans,
}

/// What a backup came to. Warnings and errors are in the journal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BackupOutcome {
    /// Items in the archive, and the same number again: nothing is left to do.
    pub progress: BackupProgress,
    /// What is in the archive, by `<apiVersion>/<Kind>`.
    pub resource_list: ItemList,
    /// Operations that were started and go on.
    pub operations: Vec<BackupOperation>,
    /// How the hooks went.
    pub hook_status: HookStatus,
    /// Items that should be in the archive but are not.
    pub failed_items: Vec<ResourceIdentifier>,
    /// Items that an action kept out.
    pub skipped_items: Vec<ResourceIdentifier>,
    /// What was done with the data of volumes.
    pub saved: SavedVolumes,
}

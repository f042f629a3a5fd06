//! The backup pipeline.
//!
//! ```text
//! plan ── which namespaces, types and actions
//!   └─ collect ── pages of raw items, listed ahead
//!        └─ group ── items that belong together: a pod, its claims, their volumes
//!             └─ block ── hooks around the items of a group
//!                  └─ item ── actions, additional items
//!                       └─ write ── one thread that fills the archive
//! ```
//!
//! Items stay the bytes the API server sent, from the list call to the archive; only those that an action or a hook
//! looks at are parsed. Every stage waits for the next one, so no more than a few pages are in memory at any time;
//! only claims and volumes are held until the pods they belong to have come by.
//!
//! What waits for something slow comes last in its block or batch (`waiting`): volumes whose data is saved first, in the room
//! for volumes, and items whose actions wait for a storage driver. `run` holds what the stages share, and their order.
//!
//! When operations have changed items after that, [`finalize`] has a second look at them.

mod admit;
mod block;
mod collect;
mod custom_resource_definitions;
mod error;
mod finalize;
mod group;
mod item;
mod ledger;
mod missing_types;
mod namespaces;
mod plan;
mod pool;
mod run;
mod waiting;
mod write;

use std::io::Write;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::watch;
use velero_api::FeatureFlags;
use velero_api::records::{BackupOperation, ResourceIdentifier, ResourceList};
use velero_api::v1::{Backup, BackupProgress, BackupSpec, HookStatus};
use velero_archive::Limits;
use velero_cluster::{Cluster, Discovery};
use velero_plugin::Actions;
use velero_rules::resource_policies::ResourcePolicies;

pub use error::BackupError;
pub use finalize::{Finalized, finalize};

pub use crate::hooks::{NotWritten, OwedHooks, OwedPod, run_owed_hooks};

use crate::Journal;
use crate::backup::run::Run;
use crate::recorder::BackupRecorder;
use crate::volumes::SavedVolumes;

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
}

/// What a backup came to. Warnings and errors are in the journal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BackupOutcome {
    /// Items in the archive, and the same number again: nothing is left to do.
    pub progress: BackupProgress,
    /// What is in the archive, by `<apiVersion>/<Kind>`.
    pub resource_list: ResourceList,
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

/// Runs a backup and writes its archive to `sink`, which is given back complete.
///
/// What goes wrong with single items is in the journal; an error means that there is no usable archive. Dropping the
/// future ends the backup and leaves `sink` without a proper end.
pub async fn run<W: Write + Send + 'static>(
    request: BackupRequest,
    sink: W,
    journal: &Journal,
    progress: watch::Sender<BackupProgress>,
) -> Result<(BackupOutcome, W), BackupError> {
    // Boxed here and below, or the compiler does not see that the whole future can move between threads.
    let plan = plan::prepare(&request, journal).boxed().await?;
    let (run, archive) = Run::start(request, plan, journal, progress, sink);
    let filled = run.fill().boxed().await;
    let sink = archive.close(filled).await?;
    Ok((run.finish(), sink))
}

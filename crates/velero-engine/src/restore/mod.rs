//! The restore pipeline.
//!
//! ```text
//! read ── the archive, once, into memory: compressed, indexed, nothing on disk
//!   └─ plan ── which items, in which order, into which namespaces: the total is known before the first write
//!        └─ act ── one item: actions, additional items, modifiers
//!             └─ apply ── create it, or compare it with what is there
//!                  └─ settle ── what needs time: definitions that become served, hooks in restored pods
//! ```
//!
//! Types follow each other in the order of the priorities; the items of one type go out at the same time, as many as
//! the API server takes well. `again` decides which writes are sent once more. What was refused for want of a webhook or
//! a namespace is `postponed` to the end; what could refuse others, admission, comes last of all. [`preview`] walks the same path with a last step that looks instead of writing.

mod act;
mod again;
mod apply;
mod contents;
mod data_left;
mod error;
mod existing;
mod hooks;
mod ledger;
mod missing_types;
mod namespaces;
pub(crate) mod object;
mod outcome;
mod pace;
mod plan;
mod postponed;
mod read;
mod run;
mod selection;
mod settle;
mod trouble;
mod types;
mod versions;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use velero_api::FeatureFlags;
use velero_api::records::{BackupVolumeInfo, RestoreOperation, Snapshot};
use velero_api::v1::{Backup, Restore, RestoreProgress};
use velero_archive::Limits;
use velero_cluster::{Cluster, Discovery};
use velero_plugin::Actions;
use velero_rules::ordering::Priorities;
use velero_rules::resource_modifiers::ResourceModifiers;
use velero_rules::resource_policies::ResourcePolicies;

pub use error::RestoreError;
pub use outcome::{Change, HIDDEN, ItemPreview, Preview, PreviewAction, RestoreOutcome, RunningHooks};

pub(crate) use act::Item;
pub(crate) use apply::Target;
pub(crate) use pace::Pace;
pub(crate) use trouble::Trouble;

use crate::Journal;
use crate::recorder::Recorded;
use crate::restore::plan::Plan;
use crate::restore::run::{Mode, Run};
use crate::restore::selection::Selection;

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
}

/// Restores the items of `archive`.
///
/// What goes wrong with single items is in the journal; an error means that nothing was written. Hooks in restored pods
/// may still run when this returns.
pub async fn run<R: Read + Send + 'static>(
    request: RestoreRequest,
    archive: R,
    journal: &Journal,
    progress: watch::Sender<RestoreProgress>,
) -> Result<(RestoreOutcome, RunningHooks), RestoreError> {
    let run = prepare(request, archive, journal, Mode::Write, progress).await?;
    run.restore().await;
    Ok(run.finish())
}

/// Says what [`run`] would do to each object, from the live cluster, and writes nothing.
pub async fn preview<R: Read + Send + 'static>(
    request: RestoreRequest,
    archive: R,
    journal: &Journal,
) -> Result<Preview, RestoreError> {
    let (progress, _) = watch::channel(RestoreProgress::default());
    let run = prepare(request, archive, journal, Mode::Preview, progress).await?;
    run.restore().await;
    Ok(run.finish_preview())
}

async fn prepare<R: Read + Send + 'static>(
    request: RestoreRequest,
    archive: R,
    journal: &Journal,
    mode: Mode,
    progress: watch::Sender<RestoreProgress>,
) -> Result<Run, RestoreError> {
    let spec = &request.restore.spec;
    let discovery = &request.discovery;
    let selection = Selection::new(spec, request.policies.as_ref(), discovery)?;
    let all_versions = versions::are_chosen(&request.features, &request.backup);
    let (mut contents, selection) = read::contents(archive, request.limits, all_versions, selection).await?;
    if all_versions {
        contents.choose_versions(|resource, found| versions::choose(resource, found, &request));
    }
    let plan = Plan::new(&contents, &selection, spec, &request.priorities, discovery)?;
    missing_types::report(&request, &contents, &selection, journal);
    Run::new(request, mode, plan, contents, selection, journal.clone(), progress).await
}

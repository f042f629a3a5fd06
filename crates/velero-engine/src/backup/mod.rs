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
//! What waits for something slow comes last in its block or `batch` (`waiting`): volumes whose data is saved first, in the room
//! for volumes, and items whose actions wait for a storage driver. `run` holds what the stages share, and their order; it
//! lends a stage what that one needs: a `Lister`, a `Grouper`, an `ItemSaver`.
//!
//! Volumes that are copied through pods are waited for last of all, but for those of pods with hooks: their block is `held`
//! between its hooks until its copies are made, while other blocks go on.
//!
//! When operations have changed items after that, [`finalize`] has a second look at them.

mod admit;
mod batch;
mod block;
mod collect;
mod custom_resource_definitions;
mod error;
mod finalize;
mod group;
mod held;
mod item;
mod item_block;
mod ledger;
mod missing_types;
mod namespaces;
mod plan;
mod pool;
mod release;
mod request;
mod run;
mod waiting;
mod write;

use std::io::Write;

use futures::FutureExt;
use tokio::sync::watch;
use velero_api::v1::BackupProgress;

pub use error::BackupError;
pub use finalize::{Finalized, finalize};
pub use request::{BackupOutcome, BackupRequest};

pub use crate::hooks::{NotWritten, OwedHooks, OwedPod, run_owed_hooks};

use crate::Journal;
use crate::backup::run::Run;
use crate::stage;
use crate::stage::{try_within, within};

/// Runs a backup and writes its archive to `sink`, which is given back complete.
///
/// What goes wrong with single items is in the journal; an error means that there is no usable archive. Dropping the
/// future ends the backup and leaves `sink` without a proper end; calls under way go on, see
/// [`BackupRecorder::settle`](crate::recorder::BackupRecorder::settle).
pub async fn run<W: Write + Send + 'static>(
    request: BackupRequest,
    sink: W,
    journal: &Journal,
    progress: watch::Sender<BackupProgress>,
) -> Result<(BackupOutcome, W), BackupError> {
    let _caller = request.recorder.caller();
    // Boxed here and below, or the compiler does not see that the whole future can move between threads.
    let plan = try_within(stage!("plan"), plan::prepare(&request, journal).boxed()).await?;
    let (run, archive) = Run::start(request, plan, journal, progress, sink);
    let filled = try_within(run.stage.clone(), run.fill().boxed()).await;
    let sink = try_within(stage!("archive"), archive.close(filled)).await?;
    within(stage!("volumes"), run.volume_context().close().boxed()).await;
    Ok((run.finish(), sink))
}

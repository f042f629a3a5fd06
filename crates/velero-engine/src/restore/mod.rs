//! The restore pipeline.
//!
//! ```text
//! read ── the archive, once: indexed, compressed in memory, or sealed in the scratch folder when it is large
//!   └─ plan ── which items, in which order, into which namespaces: the total is known before the first write
//!        └─ act ── one item: actions, additional items, modifiers
//!             └─ apply ── create it, or compare it with what is there
//!                  └─ settle ── what needs time: definitions that become served, hooks in restored pods
//! ```
//!
//! Types follow each other in the order of the priorities; the items of one type go out at the same time, as many as
//! the API server takes well. `again` decides which writes are sent once more, `resume` what becomes of what an
//! interrupted restore left that this one goes on with. What was refused for want of a webhook or
//! a namespace is `postponed` to the end; what could refuse others, admission, comes last of all. [`preview`] walks the same path with a last step that looks instead of writing.

mod act;
mod again;
mod apply;
mod chunks;
mod cluster_changes;
mod contents;
mod data_left;
mod error;
mod existing;
mod hooks;
mod item;
mod known_namespaces;
#[cfg(test)]
mod large_tests;
mod ledger;
mod missing_types;
mod namespaces;
pub(crate) mod object;
mod outages;
mod outcome;
mod pace;
mod plan;
mod postponed;
mod read;
mod request;
mod resume;
mod run;
mod selection;
mod settle;
mod trouble;
mod types;
mod versions;

use std::io::Read;

use tokio::sync::watch;
use velero_api::v1::RestoreProgress;

pub use chunks::ScratchError;
pub use error::RestoreError;
pub use outcome::{ItemPreview, Preview, PreviewAction, RestoreOutcome, RunningHooks};
pub use request::RestoreRequest;

pub(crate) use item::{Item, Target};
pub(crate) use pace::Pace;
pub(crate) use trouble::Trouble;

use crate::Journal;
use crate::restore::plan::Plan;
use crate::restore::run::{Mode, Run};
use crate::restore::selection::Selection;
use crate::stage;
use crate::stage::{try_within, within};

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
    within(run.stage.clone(), run.restore()).await;
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
    let room = read::Room { limits: request.limits, scratch: request.scratch.clone() };
    let reading = read::contents(archive, room, all_versions, selection);
    let (mut contents, selection) = try_within(stage!("read"), reading).await?;
    if all_versions {
        contents.choose_versions(|resource, found| versions::choose(resource, found, &request));
    }
    let planning = async {
        let (spec, discovery) = (&request.restore.spec, &request.discovery);
        let plan = Plan::new(&contents, &selection, spec, &request.priorities, discovery)?;
        missing_types::report(&request, &contents, &selection, journal);
        Ok::<_, RestoreError>(plan)
    };
    let plan = try_within(stage!("plan"), planning).await?;
    Run::new(request, mode, plan, contents, selection, journal.clone(), progress).await
}

//! What comes after the last object: the files of the restore, and hooks that still run in restored pods.

use std::time::Duration;

use velero_api::v1::{HookStatus, Restore};
use velero_engine::Journal;
use velero_engine::restore::{RestoreOutcome, RunningHooks};
use velero_store::BackupStore;

use super::{report, transfer};
use crate::clock;
use crate::context::Context;
use crate::error::Result;
use crate::objects::name;
use crate::restore_finalizer::end_phase;
use crate::restore_phase::move_to;
use crate::store_message::explain;

/// How long files may take to be stored once the server is told to end.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How often is looked whether somebody still wants the restore whose hooks are waited for.
const LOOK: Duration = Duration::from_secs(5);

/// Stores the files of a restore, waits for its hooks, and gives the restore at its end.
pub(super) async fn settle(
    context: &Context,
    restore: Restore,
    journal: &Journal,
    store: &BackupStore,
    outcome: &RestoreOutcome,
    hooks: RunningHooks,
) -> Result<Restore> {
    let work_left = !hooks.is_empty();
    let stored = hurried(context, transfer::files(store, name(&restore), journal, outcome)).await;
    let mut problem = note_storage(journal, stored);
    let mut ended = report::restored(&restore, journal, outcome, work_left)?;
    if work_left {
        let Some(finalizing) = context.write_end(&restore, &ended).await? else { return Ok(ended) };
        ended.status.hook_status = Some(wait_for_hooks(context, &finalizing, journal, hooks).await);
        let stored = hurried(context, transfer::journal_files(store, name(&restore), journal)).await;
        problem = note_storage(journal, stored);
        let phase = end_phase(ended.status.phase(), journal.counts().errors > 0);
        move_to(&mut ended, phase)?;
    }
    let (counts, status) = (journal.counts(), &mut ended.status);
    (status.warnings, status.errors) = (counts.warnings, counts.errors);
    status.failure_reason = problem;
    status.completion_timestamp = Some(clock::now_time());
    Ok(ended)
}

/// Waits for the hooks, unless the server ends or nobody wants the restore any more.
async fn wait_for_hooks(context: &Context, restore: &Restore, journal: &Journal, hooks: RunningHooks) -> HookStatus {
    tokio::select! {
        status = hooks.wait() => return status,
        () = context.stop.cancelled() => {
            journal.error().message("The server was stopped before all hooks in restored pods had ended");
        }
        () = deleted(context, restore) => {
            journal.error().message("The restore was deleted before all hooks in restored pods had ended");
        }
    }
    HookStatus::default()
}

/// Ends when the restore is gone or going.
async fn deleted(context: &Context, restore: &Restore) {
    loop {
        tokio::time::sleep(LOOK).await;
        // A look that fails is repeated: only an answer tells.
        if let Ok(found) = context.objects.get::<Restore>(name(restore)).await
            && found.is_none_or(|restore| restore.metadata.deletion_timestamp.is_some())
        {
            return;
        }
    }
}

/// Lets the store take its time, unless the server is told to end.
async fn hurried(
    context: &Context,
    storing: impl Future<Output = Result<(), velero_store::Error>>,
) -> Result<(), String> {
    let out_of_time = async {
        context.stop.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        stored = storing => stored.map_err(|error| explain(&error)),
        () = out_of_time => Err("the server was stopped before the store had taken them".to_owned()),
    }
}

/// What to say when files could not be stored; nothing when they were. The objects are restored all the same.
fn note_storage(journal: &Journal, stored: Result<(), String>) -> String {
    let Err(problem) = stored else { return String::new() };
    journal.error().error(&problem).message("Error storing the files of the restore");
    format!("the log and results of the restore could not be stored: {problem}")
}

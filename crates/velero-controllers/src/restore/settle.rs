//! What comes after the last object: the files of the restore, operations that go on, and hooks that still run in
//! restored pods.

use std::time::Duration;

use velero_api::v1::{HookStatus, Restore};
use velero_engine::Journal;
use velero_engine::restore::{RestoreOutcome, RunningHooks};
use velero_plugin::Actions;
use velero_rules::operations::Tally;
use velero_store::BackupStore;

use super::{Parked, report, transfer};
use crate::clock;
use crate::context::Context;
use crate::error::Result;
use crate::objects::{name, uid};
use crate::operations::{Operation, note_failures, poll};
use crate::ownership::End;
use crate::restore_finalizer::end_phase;
use crate::restore_phase::move_to;
use crate::store_message::explain;

/// How long files may take to be stored once the server is told to end.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How often is looked whether somebody still wants the restore whose hooks are waited for.
const LOOK: Duration = Duration::from_secs(5);

/// Asks once how far the operations of a restore are, stores its files, and waits for its hooks; gives the restore at
/// its end. One whose operations go on has not ended yet: it waits, and others run.
pub(super) async fn settle(
    context: &Context,
    restore: Restore,
    journal: &Journal,
    store: &BackupStore,
    mut outcome: RestoreOutcome,
    (hooks, actions): (RunningHooks, &Actions),
) -> Result<Restore> {
    let work_left = !hooks.is_empty();
    let operations = &mut outcome.operations;
    let failures = poll(operations, actions, &restore, context.settings.default_item_operation_timeout).await;
    note_failures(journal, failures.iter().filter_map(|place| operations.get(*place)));
    let tally = Tally::of(operations.iter().map(Operation::status));
    let stored = hurried(context, transfer::files(store, name(&restore), journal, &outcome)).await;
    let is_stored = stored.is_ok();
    let problem = note_storage(journal, stored);
    let mut ended = report::restored(&restore, journal, &outcome, tally, work_left)?;
    ended.status.failure_reason = problem;
    if tally.running() > 0 {
        let pause = context.settings.item_operation_period().to_std();
        context.restore_operations.keep(name(&restore), uid(&restore), outcome.operations, is_stored, pause);
        if work_left {
            context.parked_hooks.park(name(&restore), Parked { hooks, journal: journal.clone() });
        }
        return Ok(ended);
    }
    if work_left {
        return finish_hooks(context, &restore, ended, store, Parked { hooks, journal: journal.clone() }).await;
    }
    ended.status.completion_timestamp = Some(clock::now_time());
    Ok(ended)
}

/// Waits for the hooks of a restore of which nothing else is left; gives the restore at its end, which is written.
/// `finalizing` is what it is until then.
pub(crate) async fn finish_hooks(
    context: &Context,
    restore: &Restore,
    finalizing: Restore,
    store: &BackupStore,
    parked: Parked,
) -> Result<Restore> {
    let Parked { hooks, journal } = parked;
    let mut ended = finalizing;
    let End::Written(written) = context.write_end(restore, &ended).await? else { return Ok(ended) };
    ended.status.hook_status = Some(wait_for_hooks(context, &written, &journal, hooks).await);
    let stored = hurried(context, transfer::journal_files(store, name(restore), &journal)).await;
    let problem = note_storage(&journal, stored);
    let counts = journal.counts();
    let phase = end_phase(ended.status.phase(), counts.errors > 0);
    move_to(&mut ended, phase)?;
    let status = &mut ended.status;
    (status.warnings, status.errors) = (counts.warnings, counts.errors);
    status.failure_reason = problem;
    status.completion_timestamp = Some(clock::now_time());
    context.write_end(&written, &ended).await?;
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
pub(super) async fn deleted(context: &Context, restore: &Restore) {
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

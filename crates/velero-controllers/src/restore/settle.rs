//! What comes after the last object: the files of the restore, operations that go on, and hooks that still run in
//! restored pods.

use std::time::Duration;

use velero_api::metadata::{name, uid};
use velero_api::v1::{HookStatus, Restore};
use velero_engine::Journal;
use velero_engine::restore::RunningHooks;
use velero_engine::stage;
use velero_engine::stage::{try_within, within};
use velero_plugin::Actions;
use velero_store::{BackupStore, Error as StoreError};

use crate::lifecycle::cancellation::until_requested;
use crate::lifecycle::ending::end_phase;
use crate::lifecycle::follow::pause;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::operation::tally;
use crate::lifecycle::phase::move_to;
use crate::lifecycle::poll::{note_failures, poll};
use crate::lifecycle::trace;
use crate::restore::awaited::Awaited;
use crate::restore::error::NotStored;
use crate::restore::report;
use crate::restore::transfer::{self, Restored};
use crate::runtime::busy::Hold;
use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};
use crate::runtime::ownership::End;
use crate::runtime::parked::Parked;

/// The pauses before files that could not be stored are stored once more: a store may refuse for a while, and what became of a
/// restore is told nowhere else.
const STORED_AGAIN_AFTER: [u64; 6] = [1, 2, 4, 8, 15, 30];

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
    Restored { mut outcome, hooks }: Restored,
    actions: &Actions,
    hold: &Hold<'_>,
) -> Result<Restore> {
    let awaited = Awaited::of(&hooks);
    let operations = &mut outcome.operations;
    let failures = poll(operations, actions, &restore, context.settings.default_item_operation_timeout).await;
    note_failures(journal, failures.iter().filter_map(|place| operations.get(*place)));
    trace::tell_operations(&restore, operations);
    let tally = tally(operations);
    // Counted before the files are stored: hooks that go on may add to the journal meanwhile.
    let counts = journal.counts();
    let storing = || transfer::files(store, &restore, journal, &outcome);
    let stored = try_within(stage!("files"), hurried(context, storing)).await;
    let is_stored = stored.is_ok();
    let problem = note_storage(journal, stored);
    let counts = if is_stored { counts } else { journal.counts() };
    let mut ended = report::restored(&restore, counts, &outcome, tally, awaited)?;
    ended.status.failure_reason = problem;
    if tally.running() > 0 {
        let kept = &context.restores.operations;
        kept.keep(name(&restore), uid(&restore), outcome.operations, is_stored, pause(context));
        if !awaited.is_nothing() {
            context.parked_hooks.park(name(&restore), Parked { hooks, journal: journal.clone() });
        }
        return Ok(ended);
    }
    if !awaited.is_nothing() {
        let parked = Parked { hooks, journal: journal.clone() };
        return finish_hooks(context, &restore, ended, store, parked, Some(hold)).await;
    }
    ended.status.completion_timestamp = Some(clock::now_time());
    Ok(ended)
}

/// Waits for the hooks and volumes of a restore of which nothing else is left; gives the restore at its end, which is
/// written.
/// `finalizing` is what it is until then.
pub(super) async fn finish_hooks(
    context: &Context,
    restore: &Restore,
    finalizing: Restore,
    store: &BackupStore,
    parked: Parked,
    hold: Option<&Hold<'_>>,
) -> Result<Restore> {
    let Parked { hooks, journal } = parked;
    let mut ended = finalizing;
    let End::Written(written) = context.write_end(restore, &ended).await? else { return Ok(ended) };
    let waiting = wait_for_hooks(context, &written, &journal, hooks, hold);
    let (hook_status, cancelled) = within(stage!("hooks"), waiting).await;
    ended.status.hook_status = Some(hook_status);
    Awaited::default().note(&mut ended);
    let stored = hurried(context, || async { restore.files(store).put_journal(&journal).await }).await;
    let problem = note_storage(&journal, stored);
    let counts = journal.counts();
    let phase = end_phase::<Restore>(ended.status.phase(), counts.errors > 0);
    move_to(&mut ended, phase)?;
    ended.put_counts(counts);
    ended.put_failure_reason(cancelled.unwrap_or(problem));
    ended.put_completion(clock::now_time());
    context.write_end(&written, &ended).await?;
    Ok(ended)
}

/// Waits for the hooks and volumes, unless the server ends or nobody wants the restore any more. Gives the words of who
/// asked for its end.
async fn wait_for_hooks(
    context: &Context,
    restore: &Restore,
    journal: &Journal,
    hooks: RunningHooks,
    hold: Option<&Hold<'_>>,
) -> (HookStatus, Option<String>) {
    let awaited = Awaited::of(&hooks);
    let interrupted = async {
        match hold {
            Some(hold) => hold.interrupted().await,
            None => std::future::pending().await,
        }
    };
    let reason = tokio::select! {
        status = hooks.wait() => return (status, None),
        reason = until_requested(context, restore) => {
            note_unfinished(journal, "The restore was cancelled", awaited);
            journal.error().error(&reason).message("The restore was cancelled before it was finished");
            return (HookStatus::default(), Some(reason));
        }
        () = context.stop.cancelled() => "The server was stopped",
        () = interrupted => "The backup of the restore was deleted",
        () = deleted(context, restore) => "The restore was deleted",
    };
    note_unfinished(journal, reason, awaited);
    (HookStatus::default(), None)
}

/// Tells what was not waited for to its end. A volume without the labels of the old one can be used.
pub(super) fn note_unfinished(journal: &Journal, reason: &str, awaited: Awaited) {
    if awaited.hooks {
        let problem = "before the restore was finished; hooks in restored pods may not have run to their end";
        journal.error().message(&format!("{reason} {problem}"));
    }
    if awaited.volumes {
        let problem = "before all new volumes had the labels and the reclaim policy of the old ones";
        journal.warning().message(&format!("{reason} {problem}"));
    }
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

/// Lets the store take its time and asks it again where it refuses, unless the server is told to end.
async fn hurried<S>(context: &Context, storing: impl Fn() -> S) -> Result<(), NotStored>
where
    S: Future<Output = Result<(), StoreError>>,
{
    let out_of_time = async {
        context.stop.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        stored = stored_at_last(storing) => stored.map_err(NotStored::Store),
        () = out_of_time => Err(NotStored::Stopped),
    }
}

async fn stored_at_last<S>(storing: impl Fn() -> S) -> Result<(), StoreError>
where
    S: Future<Output = Result<(), StoreError>>,
{
    for pause in STORED_AGAIN_AFTER {
        let Err(error) = storing().await else { return Ok(()) };
        let error = describe(&error);
        tracing::warn!(
            error,
            pause,
            "The files of the restore could not be stored; they are stored again after a pause"
        );
        tokio::time::sleep(Duration::from_secs(pause)).await;
    }
    storing().await
}

/// What to say when files could not be stored; nothing when they were. The objects are restored all the same.
fn note_storage(journal: &Journal, stored: Result<(), NotStored>) -> String {
    let Err(problem) = stored else { return String::new() };
    journal.error().error(&problem).message("Error storing the files of the restore");
    format!("the log and results of the restore could not be stored: {problem}")
}

//! Follows the operations that a restore waits for.
//!
//! They are asked about every now and then. When all have ended the restore ends too, or waits for hooks that still run
//! in restored pods.

use velero_api::records::{OperationPhase, RestoreOperation};
use velero_api::v1::{Restore, RestorePhase};
use velero_engine::Journal;
use velero_engine::journal::Counts;
use velero_rules::operations::Tally;
use velero_rules::phases::restore_phase_after_run;
use velero_store::BackupStore;

use crate::clock;
use crate::context::Context;
use crate::driver::{Next, WHILE_HELD};
use crate::error::{Result, describe};
use crate::objects::{name, uid};
use crate::operations::{Files, Operation, cancel_owned, note_failures, poll};
use crate::ownership::End;
use crate::restore::{Awaited, finish_hooks, journal_files};
use crate::restore_finalizer::{report, store_of};
use crate::restore_phase::move_to;

/// Whether a restore waits for operations.
pub(crate) fn is_waiting(phase: &RestorePhase) -> bool {
    use RestorePhase::{WaitingForPluginOperations, WaitingForPluginOperationsPartiallyFailed};
    matches!(phase, WaitingForPluginOperations | WaitingForPluginOperationsPartiallyFailed)
}

/// Asks about the operations of a restore if it is time, and moves the restore on.
pub(crate) async fn follow(context: &Context, restore: &Restore) -> Result<Next> {
    let Some(hold) = context.busy_restores.enter(name(restore)) else { return Ok(Next::After(WHILE_HELD)) };
    // Somebody may have had it until now.
    let Some(restore) = context.objects.get::<Restore>(name(restore)).await? else { return Ok(Next::Change) };
    if !is_waiting(restore.status.phase()) {
        return Ok(Next::Change);
    }
    let left = context.restore_operations.pause_left(name(&restore), uid(&restore));
    if !left.is_zero() {
        return Ok(Next::After(left));
    }
    tokio::select! {
        next = step(context, &restore) => next,
        () = hold.interrupted() => Ok(Next::Change),
        () = context.stop.cancelled() => Ok(Next::Change),
    }
}

async fn step(context: &Context, restore: &Restore) -> Result<Next> {
    let Some(store) = store_of(context, restore).await? else {
        return give_up(context, restore, None, "its backup or the location of its backup is gone").await;
    };
    let mut operations = match load(context, restore, &store).await? {
        Ok(operations) => operations,
        Err(problem) => return give_up(context, restore, Some(&store), &problem).await,
    };
    let before = operations.clone();
    let questions = context.plugins.for_questions()?;
    let timeout = context.settings.default_item_operation_timeout;
    let failures = poll(&mut operations, &questions.actions, restore, timeout).await;
    let tally = tally(&operations);
    let ended = tally != self::tally(&before);
    if ended {
        Files::of_restore(&store, name(restore)).put_operations(&operations).await?;
    }
    let counts = tell(context, restore, &store, &operations, &failures).await?;
    let pause = context.settings.item_operation_period().to_std();
    let is_stored = ended || operations == before && context.restore_operations.unstored(name(restore)).is_none();
    context.restore_operations.keep(name(restore), uid(restore), operations, is_stored, pause);
    let moved = moved(restore, tally, counts)?;
    if tally.running() > 0 {
        write(context, restore, &moved).await?;
        return Ok(Next::After(pause));
    }
    leave(context, restore, moved, &store).await?;
    Ok(Next::Change)
}

/// The restore as its operations stand now.
fn moved(restore: &Restore, tally: Tally, counts: Counts) -> Result<Restore> {
    let mut moved = restore.clone();
    let status = &mut moved.status;
    (status.warnings, status.errors) = (counts.warnings, counts.errors);
    status.restore_item_operations_completed = tally.completed;
    status.restore_item_operations_failed = tally.failed;
    let work_left = Awaited::noted(restore).is_some();
    let phase = restore_phase_after_run(tally.running() > 0, work_left, counts.errors > 0);
    if phase != *restore.status.phase() {
        move_to(&mut moved, phase)?;
    }
    Ok(moved)
}

/// Ends a restore whose operations have ended. What an earlier server left behind is the finalizer's to tell of.
async fn leave(context: &Context, restore: &Restore, moved: Restore, store: &BackupStore) -> Result<()> {
    let mut ended = moved;
    if let Some(parked) = context.parked_hooks.take(name(restore)) {
        ended = finish_hooks(context, restore, ended, store, (parked, None)).await?;
    } else if ended.status.phase().is_terminal() {
        ended.status.completion_timestamp = Some(clock::now_time());
    }
    write(context, restore, &ended).await?;
    context.restore_operations.forget(name(restore));
    context.rest_plugins().await;
    if ended.status.phase().is_terminal() {
        report(context, &ended);
    }
    Ok(())
}

async fn write(context: &Context, restore: &Restore, moved: &Restore) -> Result<()> {
    if let End::Gone = context.write_end(restore, moved).await? {
        cancel(context, restore, None).await;
    }
    Ok(())
}

/// The operations of a restore as they are known here, or else as they are stored.
async fn load(
    context: &Context,
    restore: &Restore,
    store: &BackupStore,
) -> Result<Result<Vec<RestoreOperation>, String>> {
    if let Some(known) = context.restore_operations.get(name(restore), uid(restore)) {
        return Ok(Ok(known));
    }
    let stored = Files::of_restore(store, name(restore)).operations::<RestoreOperation>().await?;
    let attempted = restore.status.restore_item_operations_attempted;
    Ok(stored.and_then(|operations| {
        let found = tally(&operations).attempted;
        if found < attempted {
            return Err(format!("the file of its operations names {found} of {attempted} operations"));
        }
        Ok(operations)
    }))
}

/// Tells results and log of operations that failed; gives the counts of the restore then.
async fn tell(
    context: &Context,
    restore: &Restore,
    store: &BackupStore,
    operations: &[RestoreOperation],
    failures: &[usize],
) -> Result<Counts> {
    let failed_now = || failures.iter().filter_map(|place| operations.get(*place));
    // The journal of a restore whose hooks still run holds everything, and is stored whole.
    if let Some(journal) = context.parked_hooks.journal(name(restore)) {
        note_failures(&journal, failed_now());
        if !failures.is_empty() {
            journal_files(store, name(restore), &journal).await?;
        }
        return Ok(journal.counts());
    }
    let status = &restore.status;
    let known = Counts { warnings: status.warnings, errors: status.errors };
    let failed = tally(operations).failed;
    if failed == status.restore_item_operations_failed {
        return Ok(known);
    }
    let journal = journal(context, restore);
    let newly = i64::try_from(failures.len()).unwrap_or(i64::MAX);
    // More have failed than were noticed now: a server was stopped after it had stored so and before it told.
    let untold = failed != status.restore_item_operations_failed + newly;
    if untold {
        let is_failed = |operation: &&RestoreOperation| *operation.status().phase() == OperationPhase::Failed;
        note_failures(&journal, operations.iter().filter(is_failed));
    } else {
        note_failures(&journal, failed_now());
    }
    Ok(Files::of_restore(store, name(restore)).amend(&journal, known, untold).await?)
}

fn journal(context: &Context, restore: &Restore) -> Journal {
    let (format, level) = context.settings.journal_form();
    Journal::for_restore(context.objects.namespace(), name(restore), format, level)
}

fn tally(operations: &[RestoreOperation]) -> Tally {
    Tally::of(operations.iter().map(Operation::status))
}

/// Ends a restore whose operations cannot be followed any more. It is never complete then.
async fn give_up(context: &Context, restore: &Restore, store: Option<&BackupStore>, problem: &str) -> Result<Next> {
    cancel(context, restore, None).await;
    let journal = journal(context, restore);
    journal.error().error(&problem).message("The operations of the restore cannot be followed");
    let status = &restore.status;
    let known = Counts { warnings: status.warnings, errors: status.errors };
    let counts = match store {
        Some(store) => Files::of_restore(store, name(restore)).amend(&journal, known, true).await?,
        None => Counts { errors: known.errors + 1, ..known },
    };
    let mut ended = restore.clone();
    move_to(&mut ended, RestorePhase::PartiallyFailed)?;
    (ended.status.warnings, ended.status.errors) = (counts.warnings, counts.errors);
    ended.status.failure_reason = format!("the operations of the restore cannot be followed: {problem}");
    ended.status.completion_timestamp = Some(clock::now_time());
    write(context, restore, &ended).await?;
    report(context, &ended);
    Ok(Next::Change)
}

/// Cancels the operations of a restore that nobody waits for any more: those known here, or else those stored. Its hooks
/// end too. What cannot be cancelled is told in the log.
pub(crate) async fn cancel(context: &Context, restore: &Restore, store: Option<&BackupStore>) {
    if let Err(error) = try_cancel(context, restore, store).await {
        tracing::warn!(restore = name(restore), error = describe(&error), "Operations are not cancelled");
    }
}

/// The same for who tries again until it works; gives the operations that went on.
pub(crate) async fn try_cancel(
    context: &Context,
    restore: &Restore,
    store: Option<&BackupStore>,
) -> Result<Vec<RestoreOperation>> {
    drop(context.parked_hooks.take(name(restore)));
    let files = store.map(|store| Files::of_restore(store, name(restore)));
    cancel_owned(context, &context.restore_operations, restore, files).await
}

//! Follows the operations that a backup waits for.
//!
//! They are asked about every now and then. When all have ended the backup is finalized; those that failed make it
//! partially failed at once.

use velero_api::records::BackupOperation;
use velero_api::v1::{Backup, BackupPhase, BackupStorageLocation};
use velero_engine::Journal;
use velero_engine::journal::Counts;
use velero_rules::operations::Tally;
use velero_rules::phases::backup_phase_after_run;
use velero_store::BackupStore;

use crate::backup_finalizer;
use crate::backup_phase::move_to;
use crate::context::Context;
use crate::driver::{Next, WHILE_HELD};
use crate::error::{Error, Result, describe};
use crate::objects::{name, uid};
use crate::operations::{Files, Operation, cancel_owned, note_failures, poll};

/// Whether a backup waits for operations.
pub(crate) fn is_waiting(phase: &BackupPhase) -> bool {
    use BackupPhase::{WaitingForPluginOperations, WaitingForPluginOperationsPartiallyFailed};
    matches!(phase, WaitingForPluginOperations | WaitingForPluginOperationsPartiallyFailed)
}

/// Asks about the operations of a backup if it is time, and moves the backup on.
pub(crate) async fn follow(context: &Context, backup: &Backup) -> Result<Next> {
    let Some(hold) = context.busy_backups.enter(name(backup)) else { return Ok(Next::After(WHILE_HELD)) };
    // Somebody may have had it until now.
    let Some(backup) = context.objects.get::<Backup>(name(backup)).await? else { return Ok(Next::Change) };
    if !is_waiting(backup.status.phase()) {
        return Ok(Next::Change);
    }
    let left = context.backup_operations.pause_left(name(&backup), uid(&backup));
    if !left.is_zero() {
        return Ok(Next::After(left));
    }
    tokio::select! {
        next = step(context, &backup) => next,
        () = hold.interrupted() => Ok(Next::Change),
        () = context.stop.cancelled() => Ok(Next::Change),
    }
}

async fn step(context: &Context, backup: &Backup) -> Result<Next> {
    let store = match store_of(context, backup).await? {
        Ok(store) => store,
        Err(problem) => return give_up(context, backup, None, &problem).await,
    };
    let mut operations = match load(context, backup, &store).await? {
        Ok(operations) => operations,
        Err(problem) => return give_up(context, backup, Some(&store), &problem).await,
    };
    let before = operations.clone();
    let questions = context.plugins.for_questions()?;
    let timeout = context.settings.default_item_operation_timeout;
    let failures = poll(&mut operations, &questions.actions, backup, timeout).await;
    let tally = tally(&operations);
    let files = Files::of_backup(&store, name(backup));
    let ended = tally != self::tally(&before);
    if ended {
        files.put_operations(&operations).await?;
    }
    let counts = tell(context, backup, files, &operations, &failures).await?;
    let mut moved = backup.clone();
    let status = &mut moved.status;
    (status.warnings, status.errors) = (counts.warnings, counts.errors);
    status.backup_item_operations_completed = tally.completed;
    status.backup_item_operations_failed = tally.failed;
    let phase = backup_phase_after_run(tally.running() > 0, counts.errors > 0);
    if phase != *backup.status.phase() {
        move_to(&mut moved, phase)?;
    }
    let pause = context.settings.item_operation_period().to_std();
    let is_stored = ended || operations == before && context.backup_operations.unstored(name(backup)).is_none();
    context.backup_operations.keep(name(backup), uid(backup), operations, is_stored, pause);
    write(context, backup, &moved).await?;
    Ok(Next::After(pause))
}

async fn write(context: &Context, backup: &Backup, moved: &Backup) -> Result<()> {
    match context.objects.patch(backup, moved).await {
        Err(Error::Cluster(error)) if error.is_not_found() => {
            cancel(context, backup, None).await;
            Ok(())
        }
        outcome => outcome.map(drop),
    }
}

/// The store of a backup, or why it cannot be used any more.
pub(crate) async fn store_of(context: &Context, backup: &Backup) -> Result<Result<BackupStore, String>> {
    let place = &backup.spec.storage_location;
    match context.objects.get::<BackupStorageLocation>(place).await? {
        None => Ok(Err(format!("its backup storage location {place:?} is gone"))),
        Some(location) if location.is_read_only() => {
            Ok(Err(format!("its backup storage location {place:?} is in read-only mode")))
        }
        Some(location) => context.locations.open(&location).await.map(Ok),
    }
}

/// The operations of a backup as they are known here, or else as they are stored.
pub(crate) async fn load(
    context: &Context,
    backup: &Backup,
    store: &BackupStore,
) -> Result<Result<Vec<BackupOperation>, String>> {
    if let Some(known) = context.backup_operations.get(name(backup), uid(backup)) {
        return Ok(Ok(known));
    }
    let stored = Files::of_backup(store, name(backup)).operations::<BackupOperation>().await?;
    let attempted = backup.status.backup_item_operations_attempted;
    Ok(stored.and_then(|operations| {
        let found = tally(&operations).attempted;
        if found < attempted {
            return Err(format!("the file of its operations names {found} of {attempted} operations"));
        }
        Ok(operations)
    }))
}

/// Tells results and log of operations that failed; gives the counts of the backup then.
async fn tell(
    context: &Context,
    backup: &Backup,
    files: Files<'_>,
    operations: &[BackupOperation],
    failures: &[usize],
) -> Result<Counts> {
    let status = &backup.status;
    let known = Counts { warnings: status.warnings, errors: status.errors };
    let failed = tally(operations).failed;
    if failed == status.backup_item_operations_failed {
        return Ok(known);
    }
    let journal = journal(context, backup);
    let newly = i64::try_from(failures.len()).unwrap_or(i64::MAX);
    // More have failed than were noticed now: a server was stopped after it had stored so and before it told.
    let untold = failed != status.backup_item_operations_failed + newly;
    if untold {
        note_failures(&journal, operations.iter().filter(|operation| is_failed(operation)));
    } else {
        note_failures(&journal, failures.iter().filter_map(|place| operations.get(*place)));
    }
    Ok(files.amend(&journal, known, untold).await?)
}

fn is_failed(operation: &BackupOperation) -> bool {
    *operation.status().phase() == velero_api::records::OperationPhase::Failed
}

/// Opens a journal for what is still to be said about a backup.
pub(crate) fn journal(context: &Context, backup: &Backup) -> Journal {
    let (format, level) = context.settings.journal_form();
    Journal::for_backup(context.objects.namespace(), name(backup), format, level)
}

fn tally(operations: &[BackupOperation]) -> Tally {
    Tally::of(operations.iter().map(Operation::status))
}

/// Ends a backup whose operations cannot be followed any more. It is never complete then.
async fn give_up(context: &Context, backup: &Backup, store: Option<&BackupStore>, problem: &str) -> Result<Next> {
    cancel(context, backup, None).await;
    backup_finalizer::end_badly(context, backup, store, problem).await?;
    Ok(Next::Change)
}

/// Cancels the operations of a backup that nobody waits for any more: those known here, or else those stored. What
/// cannot be cancelled is told in the log.
pub(crate) async fn cancel(context: &Context, backup: &Backup, store: Option<&BackupStore>) {
    if let Err(error) = try_cancel(context, backup, store).await {
        tracing::warn!(backup = name(backup), error = describe(&error), "Operations are not cancelled");
    }
}

/// The same for who tries again until it works; gives the operations that went on.
pub(crate) async fn try_cancel(
    context: &Context,
    backup: &Backup,
    store: Option<&BackupStore>,
) -> Result<Vec<BackupOperation>> {
    let files = store.map(|store| Files::of_backup(store, name(backup)));
    cancel_owned(context, &context.backup_operations, backup, files).await
}

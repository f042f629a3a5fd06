//! Runs a backup: prepare and validate, take, run the engine into the store, report.
//!
//! A backup whose actions started no operations goes straight to its end. Any other waits for them
//! (`following`) and is then finished (`finalizer`).
//!
//! The status has one writer at any time: first who takes it, then the progress, then the end. What the end says comes
//! from the journal alone, and so do the log and the results file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use velero_api::labels;
use velero_api::metadata::{label, name, uid};
use velero_api::v1::{Backup, BackupPhase, BackupSpec, BackupStorageLocation};
use velero_archive::BackupFile;
use velero_engine::Journal;
use velero_engine::backup::{BackupOutcome, BackupRequest};
use velero_engine::recorder::BackupRecorder;
use velero_engine::stage;
use velero_engine::stage::{try_within, within};
use velero_plugin::Actions;
use velero_rules::resource_policies::ResourcePolicies;
use velero_store::BackupStore;

use crate::backup::again::{keep_asked, owe_retry};
use crate::backup::debts::LEFT_BEHIND;
use crate::backup::ending::report as report_end;
use crate::backup::failure::Failure;
use crate::backup::queue::{Queue, is_refusal};
use crate::backup::reservation::RESERVATION_LEFT;
use crate::backup::{again, facts, owed_hooks, prepare, report, reservation, transfer};
use crate::lifecycle::cancel::cancel_unfinished;
use crate::lifecycle::cancellation::{requested_by_now, until_requested};
use crate::lifecycle::debts::owe;
use crate::lifecycle::ending::{LostTrack, lose_track};
use crate::lifecycle::follow::pause;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::movers;
use crate::lifecycle::operation::tally;
use crate::lifecycle::poll::{note_failures, poll};
use crate::lifecycle::trace;
use crate::runtime::busy::Hold;
use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, WHILE_HELD};
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::events;
use crate::runtime::metrics::Counter;
use crate::runtime::ownership::End;
use crate::runtime::plugins::Tools;
use crate::runtime::store_message::explain;

/// How long calls of plugins may take that are under way when their backup is given up.
const CALLS: Duration = Duration::from_secs(30);

/// Why a backup fails whose deletion takes it over.
const DELETED: &str = "the backup was deleted while it ran";

/// What a backup was asked to take.
struct Wish {
    /// Its spec, before the server completed it.
    asked: BackupSpec,
    policies: Option<ResourcePolicies>,
}

/// Runs a backup whose turn has come, to its end.
pub(super) async fn run(context: &SharedContext, queue: &Queue, backup: Backup) -> Result<Next> {
    // It might stop the same pods that are still to be let go on.
    if !context.hooks_paid.is_cancelled() {
        return Ok(Next::After(WHILE_HELD));
    }
    // A deletion may have it, or the run of another of this name that was deleted.
    let Some(hold) = context.backups.busy.enter(name(&backup)) else { return Ok(Next::After(WHILE_HELD)) };
    if let Some(rest) = queue.admit(context, name(&backup)).await? {
        return Ok(Next::After(rest));
    }
    let begun = match begin(context, &backup).await {
        Err(Error::Cluster(error)) if is_refusal(&error) => {
            let (backup, error, pause) = (name(&backup), describe(&error), queue.put_off(name(&backup)));
            tracing::error!(
                backup,
                error,
                "The API server refuses to let the backup begin; others go first, and it is tried again"
            );
            begin_others(context, queue).await;
            return Ok(Next::After(pause));
        }
        begun => begun?,
    };
    let (taken, running) = (&begun.taken, name(&begun.taken));
    let outcome = match (taken.status.phase(), &begun.location) {
        (BackupPhase::InProgress, Some(location)) => {
            if let Some(told) = taken.told() {
                events::tell(context, taken, Controller::Backup, told);
            }
            let wish = Wish { asked: backup.spec, policies: begun.policies };
            within(stage::of_object(uid(taken)), execute(context, taken, location, wish, &hold)).await
        }
        _ => {
            report_end(context, taken);
            Ok(())
        }
    };
    queue.left(running);
    begin_others(context, queue).await;
    outcome.map(|()| Next::Change)
}

/// A backup that was taken into work, or ended at once for what it asks for.
struct Begun {
    taken: Backup,
    location: Option<BackupStorageLocation>,
    policies: Option<ResourcePolicies>,
}

/// Completes and judges a backup, and takes it into work.
async fn begin(context: &Context, backup: &Backup) -> Result<Begun> {
    let facts = facts::gather(context, backup).await?;
    let mut prepared = prepare::prepare(backup, &context.settings, &facts, clock::now())?;
    if *prepared.backup.status.phase() == BackupPhase::InProgress {
        context.holder.sign(&mut prepared.backup);
        keep_asked(&mut prepared.backup, &backup.spec);
    }
    let taken = context.take(backup, &prepared.backup).await?;
    Ok(Begun { taken, location: prepared.location, policies: facts.policies.ok().flatten() })
}

/// Lets those begin whose turn has come since a backup does not run any more.
async fn begin_others(context: &Context, queue: &Queue) {
    // A server that ends begins no other; who comes next may be a Velero without a queue, which takes new ones alone.
    if !context.stop.is_cancelled()
        && let Err(error) = queue.advance(context).await
    {
        // The backups that wait are looked at every minute anyway.
        tracing::warn!(error = describe(&error), "The queue could not be advanced");
    }
}

/// Ends a backup that was taken into work and nobody works on. The files of one that this process has lost are left to its
/// deletion; one of another server is an interrupted one.
pub(super) async fn give_up(context: &SharedContext, queue: &Queue, backup: &Backup) -> Result<Next> {
    let is_of_another = !context.holder.has(backup);
    let note = |failed: &mut Backup| {
        if is_of_another {
            owe(failed, LEFT_BEHIND);
            owe_retry(failed, backup);
        }
    };
    match lose_track(context, backup, note).await? {
        LostTrack::Held => return Ok(Next::After(WHILE_HELD)),
        LostTrack::Over => {}
        LostTrack::Written(written) => report_end(context, &written),
    }
    // It may have been this server that let it begin.
    queue.left(name(backup));
    queue.advance(context).await?;
    Ok(Next::Change)
}

async fn execute(
    context: &Context,
    backup: &Backup,
    location: &BackupStorageLocation,
    wish: Wish,
    hold: &Hold<'_>,
) -> Result<()> {
    context.metrics.count(Counter::BackupAttempt, label(backup, labels::SCHEDULE_NAME));
    tracing::info!(backup = name(backup), location = name(location), "Running backup");
    let journal = backup.journal(context);
    let ended = match attempt(context, backup, location, wish, &journal, hold).await {
        Ok(ended) => ended,
        Err(failure) => report::failed(context, backup, &journal, failure).await?,
    };
    match context.write_end(backup, &ended).await? {
        End::Written(written) if written.status.phase().is_terminal() => {
            report_end(context, &written);
            leave_replacement(context, &written).await;
        }
        End::Written(_) => {}
        End::Gone | End::TakenOver(_) => {
            let left = context.backups.operations.forget(name(backup)).unwrap_or_default();
            cancel_unfinished(&left, &context.plugins.for_questions()?.actions, backup).await;
        }
    }
    Ok(())
}

/// Makes what replaces a backup that was cut short because this server ends. Who comes next would do it too, unless that is
/// a Velero: it knows nothing of what is owed, and takes every new backup.
async fn leave_replacement(context: &Context, ended: &Backup) {
    if again::owes_retry(ended)
        && let Err(error) = again::take_again(context, ended).await
    {
        let (backup, error) = (name(ended), describe(&error));
        tracing::warn!(backup, error, "What replaces the interrupted backup is left to the next server");
    }
}

/// Makes the backup and stores it whole; its metadata are the last thing that is written. The operations of a backup
/// that fails are cancelled.
async fn attempt(
    context: &Context,
    backup: &Backup,
    location: &BackupStorageLocation,
    wish: Wish,
    journal: &Journal,
    hold: &Hold<'_>,
) -> Result<Backup, Failure> {
    let opened = context.locations.open(location).await;
    let store = opened.map_err(|error| Failure::before_start(explain(&error)))?;
    // A store may take its time, and nobody is to wait for it who wants the end.
    let no_more = given_up(context, backup, &store, hold);
    let reserving = reservation::reserve_name(context, &store, backup, name(location), no_more);
    try_within(stage!("reserve"), reserving).await?;
    let tools = try_within(stage!("plugins"), context.plugins.open(Some(journal))).await;
    let tools = tools.map_err(|error| Failure::after_start(describe(&error), &store, false))?;
    let recorder = BackupRecorder::default();
    let owed = owed_hooks::of_backup(context, backup);
    let request = transfer::request(context, backup, wish.policies, tools.actions.clone(), &tools);
    let (recorded, owed_hooks) = (recorder.clone(), owed.clone());
    let request = BackupRequest { asked: wish.asked, recorder: recorded, owed_hooks, ..request };
    let is_closing = AtomicBool::new(false);
    let mut ended = tokio::select! {
        ended = make(context, backup, request, journal, &store, &tools, &is_closing) => ended,
        failure = given_up(context, backup, &store, hold) => Err(failure),
    };
    if let Err(failure) = &mut ended {
        tokio::join!(owed_hooks::pay(context, &owed, journal), settle(context, &recorder, journal));
        failure.is_owed = movers::try_cancel_of_backup(context, backup, &failure.reason).await.is_err();
        cancel_unfinished(&recorder.operations.all(), &tools.actions, backup).await;
        let patience = report::patience(context, failure);
        if !is_closing.load(Ordering::Relaxed) || report::is_taken_back(backup, failure, patience).await {
            let taken = recorder.snapshots.all();
            let (snapshots, is_left) = report::discard_volumes(context, backup, journal, taken, &tools.actions).await;
            failure.snapshots_left = snapshots;
            failure.is_owed |= is_left;
        }
    }
    tools.close().await;
    ended
}

/// Waits until it is known what calls under way of a backup that was given up have set going, so that it can be cancelled and
/// removed.
async fn settle(context: &Context, recorder: &BackupRecorder, journal: &Journal) {
    let patience = async {
        tokio::select! {
            () = tokio::time::sleep(CALLS) => {}
            () = owed_hooks::hurry(context) => {}
        }
    };
    if !recorder.settle(patience).await {
        journal.error().message(
            "Calls of plugins were not answered in time and are broken off; snapshots and operations that they have begun \
             may be left",
        );
    }
}

/// Waits until somebody wants the end of a backup, and says who.
async fn given_up(context: &Context, backup: &Backup, store: &BackupStore, hold: &Hold<'_>) -> Failure {
    tokio::select! {
        () = context.stop.cancelled() => Failure::stopped(store),
        () = hold.interrupted() => Failure::after_start(DELETED.to_owned(), store, false),
        reason = until_requested(context, backup) => Failure::cancelled(reason, store),
    }
}

/// Makes the backup; `is_closing` becomes true before its metadata are sent.
async fn make(
    context: &Context,
    backup: &Backup,
    request: BackupRequest,
    journal: &Journal,
    store: &BackupStore,
    tools: &Tools,
    is_closing: &AtomicBool,
) -> Result<Backup, Failure> {
    let owed = request.owed_hooks.clone();
    let (outcome, size) = transfer::contents(context, backup, request, journal, store).await?;
    owed_hooks::pay(context, &owed, journal).await;
    context.metrics.archive_stored(label(backup, labels::SCHEDULE_NAME), size);
    let storing = store_files(context, backup, journal, store, outcome, &tools.actions, is_closing);
    try_within(stage!("files"), storing).await
}

/// Stores all files but the archive, and asks once how far the operations are. The file of operations is stored before
/// that, and so is that of snapshots: whatever happens then, it is known what was started.
async fn store_files(
    context: &Context,
    backup: &Backup,
    journal: &Journal,
    store: &BackupStore,
    mut outcome: BackupOutcome,
    actions: &Actions,
    is_closing: &AtomicBool,
) -> Result<Backup, Failure> {
    let failed = |error: velero_store::Error| Failure::after_start(explain(&error), store, true);
    report::note_end(journal, &outcome);
    if !outcome.saved.snapshots.is_empty() {
        let stored = store.put_json(name(backup), BackupFile::VolumeSnapshots, &outcome.saved.snapshots).await;
        stored.map_err(failed)?;
    }
    if !outcome.operations.is_empty() {
        backup.files(store).put_operations(&outcome.operations).await.map_err(failed)?;
        let operations = &mut outcome.operations;
        let failures = poll(operations, actions, backup, context.settings.default_item_operation_timeout).await;
        note_failures(journal, failures.iter().filter_map(|place| operations.get(*place)));
        trace::tell_operations(backup, operations);
    }
    transfer::side_files(store, backup, journal, &outcome).await.map_err(failed)?;
    let tally = tally(&outcome.operations);
    let ended = report::after_run(backup, journal, &outcome, tally, clock::now());
    let mut ended = ended.map_err(|error| Failure::after_start(describe(&error), store, false))?;
    still_ours(context, backup, store).await?;
    if ended.status.phase().is_terminal() {
        is_closing.store(true, Ordering::Relaxed);
        if !store.put_metadata(&ended).await.map_err(failed)? {
            owe(&mut ended, RESERVATION_LEFT);
        }
    } else if tally.running() > 0 {
        let kept = &context.backups.operations;
        kept.keep(name(backup), uid(backup), outcome.operations, true, pause(context));
    }
    Ok(ended)
}

/// The metadata make a backup exist, so nobody else may have ended, deleted or cancelled it until then.
async fn still_ours(context: &Context, backup: &Backup, store: &BackupStore) -> Result<(), Failure> {
    let failed = |reason: String| Err(Failure::after_start(reason, store, false));
    if let Ok(Some(reason)) = requested_by_now(context, backup).await {
        return Err(Failure::cancelled(reason, store));
    }
    match context.still_has(backup).await {
        Ok(true) => Ok(()),
        Ok(false) => failed("the backup was deleted, or ended by another server, while it ran".to_owned()),
        Err(error) => failed(format!("it cannot be said whether the backup is still wanted: {}", describe(&error))),
    }
}

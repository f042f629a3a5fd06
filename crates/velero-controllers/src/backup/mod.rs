//! Runs a backup: prepare and validate, claim, run the engine into the store, report.
//!
//! A backup whose actions started no operations goes straight to its end. Any other waits for them
//! (`backup_operations`) and is then finished (`backup_finalizer`).
//!
//! The status has one writer at any time: first the claim, then the progress, then the end. What the end says comes
//! from the journal alone, and so do the log and the results file.

mod facts;
mod prepare;
mod report;
mod transfer;

use velero_api::labels;
use velero_api::records::Snapshot;
use velero_api::v1::{Backup, BackupPhase, BackupStorageLocation};
use velero_archive::BackupFile;
use velero_engine::Journal;
use velero_engine::backup::{BackupOutcome, TakenSnapshots};
use velero_plugin::Actions;
use velero_rules::operations::Tally;
use velero_rules::resource_policies::ResourcePolicies;
use velero_store::BackupStore;

pub(crate) use facts::{global_policies, policies, read_policies};
pub(crate) use transfer::request;

use crate::backup_finalizer::report as report_end;
use crate::backup_snapshots::uploads;
use crate::busy::Hold;
use crate::context::{Context, SharedContext};
use crate::error::{Result, describe};
use crate::objects::{label, name, uid};
use crate::operations::{Files, Operation, Started, cancel_unfinished, note_failures, poll};
use crate::plugins::Tools;
use crate::store_message::explain;
use crate::{backup_queue, clock, csi_snapshots};

/// Why a backup failed as a whole, and what of it may be in the store.
struct Failure {
    reason: String,
    /// The store, when files of this backup may be in it.
    touched: Option<BackupStore>,
    /// Whether the store is to blame, so that nothing more is written to it.
    is_of_store: bool,
    /// Snapshots that could not be removed.
    snapshots_left: Vec<Snapshot>,
}

impl Failure {
    fn after_start(reason: String, store: &BackupStore, is_of_store: bool) -> Self {
        Self { reason, touched: Some(store.clone()), is_of_store, snapshots_left: Vec::new() }
    }

    fn before_start(reason: String) -> Self {
        Self { reason, touched: None, is_of_store: true, snapshots_left: Vec::new() }
    }
}

/// Runs a backup whose turn has come, to its end.
pub(crate) async fn run(context: &SharedContext, backup: Backup) -> Result<()> {
    // Only a deletion can have it, and that ends with the backup.
    let Some(hold) = context.busy_backups.enter(name(&backup)) else { return Ok(()) };
    let facts = facts::gather(context, &backup).await?;
    let prepared = prepare::prepare(&backup, &context.settings, &facts, clock::now())?;
    let claimed = context.objects.patch(&backup, &prepared.backup).await?;
    let running = name(&claimed).to_owned();
    context.running.add(&running);
    let outcome = match (claimed.status.phase(), &prepared.location) {
        (BackupPhase::InProgress, Some(location)) => {
            execute(context, &claimed, location, facts.policies.ok().flatten(), &hold).await
        }
        _ => {
            report_end(context, &claimed);
            Ok(())
        }
    };
    context.running.remove(&running);
    if let Err(error) = backup_queue::advance(context).await {
        // The backups that wait are looked at every minute anyway.
        tracing::warn!(error = describe(&error), "The queue could not be advanced");
    }
    outcome
}

async fn execute(
    context: &Context,
    backup: &Backup,
    location: &BackupStorageLocation,
    policies: Option<ResourcePolicies>,
    hold: &Hold<'_>,
) -> Result<()> {
    context.metrics.count("backup_attempt_total", label(backup, labels::SCHEDULE_NAME));
    tracing::info!(backup = name(backup), location = name(location), "Running backup");
    let journal = report::journal(context, backup);
    let ended = match attempt(context, backup, location, policies, &journal, hold).await {
        Ok(ended) => ended,
        Err(failure) => report::failed(context, backup, &journal, failure).await?,
    };
    let written = context.write_end(backup, &ended).await?;
    if ended.status.phase().is_terminal() {
        report_end(context, &written.unwrap_or(ended));
    } else if written.is_none() {
        let left = context.backup_operations.forget(name(backup)).unwrap_or_default();
        cancel_unfinished(&left, &context.plugins.for_questions()?.actions, backup).await;
    }
    Ok(())
}

/// Makes the backup and stores it whole; its metadata are the last thing that is written. The operations of a backup
/// that fails are cancelled.
async fn attempt(
    context: &Context,
    backup: &Backup,
    location: &BackupStorageLocation,
    policies: Option<ResourcePolicies>,
    journal: &Journal,
    hold: &Hold<'_>,
) -> Result<Backup, Failure> {
    let opened = context.locations.open(location).await;
    let store = opened.map_err(|error| Failure::before_start(explain(&error)))?;
    refuse_taken_name(&store, name(backup), name(location)).await?;
    report::warn_of_volumes(backup, journal);
    let tools = context.plugins.open(Some(journal)).await;
    let tools = tools.map_err(|error| Failure::before_start(describe(&error)))?;
    let started = Started::default();
    let taken = TakenSnapshots::default();
    let interrupted = |reason: &str| Err(Failure::after_start(reason.to_owned(), &store, false));
    let mut ended = tokio::select! {
        ended = make(context, backup, policies, journal, &store, (&tools, &started, &taken)) => ended,
        () = context.stop.cancelled() => interrupted("the server was stopped while the backup ran; create a new backup"),
        () = hold.interrupted() => interrupted("the backup was deleted while it ran"),
    };
    if let Err(failure) = &mut ended {
        let taken = taken.all();
        let operations = [started.of_backup(), uploads(&taken)].concat();
        cancel_unfinished(&operations, &tools.actions, backup).await;
        failure.snapshots_left = report::discard_snapshots(journal, &taken, &tools.actions).await;
        csi_snapshots::discard(context, backup).await;
    }
    tools.put_away().await;
    ended
}

async fn make(
    context: &Context,
    backup: &Backup,
    policies: Option<ResourcePolicies>,
    journal: &Journal,
    store: &BackupStore,
    (tools, started, taken): (&Tools, &Started, &TakenSnapshots),
) -> Result<Backup, Failure> {
    let unusable = |error: velero_plugin::Error| Failure::before_start(describe(&error));
    let watched = started.watch(&tools.actions).map_err(unusable)?;
    let mut request = transfer::request(context, backup, policies, watched, tools);
    request.taken = taken.clone();
    let (outcome, size) = transfer::contents(context, backup, request, journal, store, started).await?;
    context.metrics.tarball_size(label(backup, labels::SCHEDULE_NAME), size);
    store_files(context, backup, journal, store, outcome, &tools.actions).await
}

async fn refuse_taken_name(store: &BackupStore, backup: &str, location: &str) -> Result<(), Failure> {
    let reason = match store.backup_exists(backup).await {
        Ok(false) => return Ok(()),
        Ok(true) => format!(
            "backup already exists in object storage: location {location:?} holds a backup {backup:?}; \
             choose another name or delete that backup first"
        ),
        Err(error) => format!("error checking if backup already exists in object storage: {}", explain(&error)),
    };
    Err(Failure::before_start(reason))
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
) -> Result<Backup, Failure> {
    let failed = |error: velero_store::Error| Failure::after_start(explain(&error), store, true);
    report::note_end(journal, &outcome);
    if !outcome.snapshots.is_empty() {
        let stored = store.put_json(name(backup), BackupFile::VolumeSnapshots, &outcome.snapshots).await;
        stored.map_err(failed)?;
    }
    if !outcome.operations.is_empty() {
        Files::of_backup(store, name(backup)).put_operations(&outcome.operations).await.map_err(failed)?;
        let operations = &mut outcome.operations;
        let failures = poll(operations, actions, backup, context.settings.default_item_operation_timeout).await;
        note_failures(journal, failures.iter().filter_map(|place| operations.get(*place)));
    }
    transfer::side_files(store, name(backup), journal, &outcome).await.map_err(failed)?;
    let tally = Tally::of(outcome.operations.iter().map(Operation::status));
    let ended = report::after_run(backup, journal, &outcome, tally, clock::now());
    let ended = ended.map_err(|error| Failure::after_start(describe(&error), store, false))?;
    if ended.status.phase().is_terminal() {
        store.put_metadata(&ended).await.map_err(failed)?;
    } else if tally.running() > 0 {
        let pause = context.settings.item_operation_period().to_std();
        context.backup_operations.keep(name(backup), uid(backup), outcome.operations, true, pause);
    }
    Ok(ended)
}

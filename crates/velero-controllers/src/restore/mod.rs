//! Runs a restore: prepare and validate, claim, run the engine from the store into the cluster, report.
//!
//! The status has one writer at any time: first the claim, then the progress, then the end. What the end says comes
//! from the journal alone, and so do the log and the results file. A restore whose actions started operations waits for
//! them (`restore_operations`); one whose pods still run hooks passes through Finalizing; any other goes straight to its
//! end.

mod awaited;
mod dry_run;
mod facts;
mod park;
mod prepare;
mod report;
mod settle;
mod transfer;

use tokio::sync::SemaphorePermit;
use velero_api::v1::{Restore, RestorePhase};
use velero_engine::Journal;
use velero_store::BackupStore;

pub(crate) use awaited::Awaited;
pub use dry_run::DryRunReport;
pub(crate) use dry_run::answer as answer_dry_run;
pub(crate) use park::{Parked, ParkedHooks};
pub use prepare::{PreparedRestore, prepare_restore};
pub(crate) use settle::{finish_hooks, note_unfinished};
pub(crate) use transfer::journal_files;

use crate::busy::Hold;
use crate::clock;
use crate::context::{Context, SharedContext};
use crate::error::{Result, describe};
use crate::objects::name;
use crate::operations::{Started, cancel_unfinished};
use crate::ownership::End;
use crate::restore_finalizer::report as report_end;
use crate::restore_phase::move_to;
use crate::store_message::explain;

/// Why a restore failed as a whole.
struct Failure {
    reason: String,
    /// The store, when it can be told what happened.
    store: Option<BackupStore>,
}

/// Runs a new restore to its end. It has a place among those that run until its last object is restored; while it waits
/// for hooks and volumes, others run.
pub(crate) async fn run(context: &SharedContext, restore: Restore, place: SemaphorePermit<'_>) -> Result<()> {
    // Only a deletion can have it, and that ends with the restore.
    let Some(hold) = context.busy_restores.enter(name(&restore)) else { return Ok(()) };
    let mut prepared = prepare_restore(context.objects.cluster(), &context.settings, &restore).await?;
    prepare::judge(&mut prepared, clock::now())?;
    if *prepared.restore.status.phase() == RestorePhase::InProgress {
        context.holder.sign(&mut prepared.restore);
    }
    let claimed = context.claim(&restore, &prepared.restore).await?;
    context.metrics.count("restore_attempt_total", &claimed.spec.schedule_name);
    if *claimed.status.phase() != RestorePhase::InProgress {
        report_end(context, &claimed);
        return Ok(());
    }
    prepared.restore = claimed;
    execute(context, prepared, &hold, place).await
}

/// Ends a restore that this process has taken into work and nobody works on.
pub(crate) async fn give_up(context: &Context, restore: &Restore) -> Result<()> {
    let Some(_hold) = context.busy_restores.enter(name(restore)) else { return Ok(()) };
    let mut failed = restore.clone();
    move_to(&mut failed, RestorePhase::Failed)?;
    failed.status.failure_reason = "the server lost track of the restore; create a new restore".to_owned();
    failed.status.completion_timestamp = Some(clock::now_time());
    if let End::Written(written) = context.write_end(restore, &failed).await? {
        report_end(context, &written);
    }
    Ok(())
}

async fn execute(
    context: &Context,
    prepared: PreparedRestore,
    hold: &Hold<'_>,
    place: SemaphorePermit<'_>,
) -> Result<()> {
    let restore = prepared.restore.clone();
    tracing::info!(restore = name(&restore), backup = restore.spec.backup_name, "Running restore");
    let journal = report::journal(context, &restore);
    let opened = open(context, &prepared).await;
    let store = opened.as_ref().ok().cloned();
    let ended = match opened {
        Err(failure) => Err(failure),
        Ok(store) => attempt(context, prepared, &journal, store, (hold, place)).await,
    };
    let ended = match ended {
        Ok(ended) => ended,
        Err(failure) => report::failed(context, &restore, &journal, failure).await?,
    };
    match context.write_end(&restore, &ended).await? {
        End::Written(written) if written.status.phase().is_terminal() => report_end(context, &written),
        End::Written(_) => {}
        // Its files are those of whoever has ended it.
        End::TakenOver(_) => crate::restore_operations::cancel(context, &restore, None).await,
        // Who deleted it has removed its files already, but for those that were written since.
        End::Gone => {
            crate::restore_operations::cancel(context, &restore, None).await;
            report::clean_up(store.as_ref(), name(&restore)).await;
        }
    }
    Ok(())
}

async fn open(context: &Context, prepared: &PreparedRestore) -> Result<BackupStore, Failure> {
    let failed = |reason| Failure { reason, store: None };
    let location = prepared.location.as_ref().ok_or_else(|| failed("its backup has no location".to_owned()))?;
    context.locations.open(location).await.map_err(|error| failed(explain(&error)))
}

/// Restores, stores what happened and waits for hooks; gives the restore at its end. The operations of a restore that
/// fails are cancelled.
async fn attempt(
    context: &Context,
    prepared: PreparedRestore,
    journal: &Journal,
    store: BackupStore,
    (hold, place): (&Hold<'_>, SemaphorePermit<'_>),
) -> Result<Restore, Failure> {
    let restore = prepared.restore.clone();
    let failed = |reason| Failure { reason, store: Some(store.clone()) };
    let tools = context.plugins.open(Some(journal)).await.map_err(|error| failed(describe(&error)))?;
    let started = Started::default();
    let interrupted = |reason: &str| Err(reason.to_owned());
    let restored = tokio::select! {
        restored = transfer::contents(context, prepared, journal, &store, (&tools, &started)) => restored,
        () = context.stop.cancelled() => interrupted("the server was stopped while the restore ran; create a new restore"),
        () = hold.interrupted() => interrupted("its backup was deleted while the restore ran"),
        () = settle::deleted(context, &restore) => interrupted("the restore was deleted while it ran"),
    };
    drop(place);
    let ended = match restored {
        Err(reason) => Err(failed(reason)),
        Ok((outcome, hooks)) => {
            report::note_end(journal);
            let (restore, left) = (restore.clone(), (hooks, &tools.actions, hold));
            let settled = settle::settle(context, restore, journal, &store, outcome, left).await;
            settled.map_err(|error| failed(describe(&error)))
        }
    };
    if ended.is_err() {
        cancel_unfinished(&started.of_restore(), &tools.actions, &restore).await;
    }
    tools.put_away().await;
    ended
}

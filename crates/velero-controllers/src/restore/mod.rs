//! Runs a restore: prepare and validate, claim, run the engine from the store into the cluster, report.
//!
//! The status has one writer at any time: first the claim, then the progress, then the end. What the end says comes
//! from the journal alone, and so do the log and the results file. A restore whose actions started operations waits for
//! them (`restore_operations`); one whose pods still run hooks passes through Finalizing; any other goes straight to its
//! end.

mod dry_run;
mod facts;
mod park;
mod prepare;
mod report;
mod settle;
mod transfer;

use velero_api::v1::{Restore, RestorePhase};
use velero_engine::Journal;
use velero_store::BackupStore;

pub use dry_run::DryRunReport;
pub(crate) use dry_run::answer as answer_dry_run;
pub(crate) use park::{Parked, ParkedHooks};
pub use prepare::{PreparedRestore, prepare_restore};
pub(crate) use settle::finish_hooks;
pub(crate) use transfer::journal_files;

use crate::busy::Hold;
use crate::clock;
use crate::context::{Context, SharedContext};
use crate::error::{Result, describe};
use crate::objects::name;
use crate::operations::{Started, cancel_unfinished};
use crate::restore_finalizer::report as report_end;
use crate::store_message::explain;

/// Why a restore failed as a whole.
struct Failure {
    reason: String,
    /// The store, when it can be told what happened.
    store: Option<BackupStore>,
}

/// Runs a new restore to its end.
pub(crate) async fn run(context: &SharedContext, restore: Restore) -> Result<()> {
    // Only a deletion can have it, and that ends with the restore.
    let Some(hold) = context.busy_restores.enter(name(&restore)) else { return Ok(()) };
    let mut prepared = prepare_restore(context.objects.cluster(), &context.settings, &restore).await?;
    prepare::judge(&mut prepared, clock::now())?;
    let claimed = context.objects.patch(&restore, &prepared.restore).await?;
    context.metrics.count("restore_attempt_total", &claimed.spec.schedule_name);
    if *claimed.status.phase() != RestorePhase::InProgress {
        report_end(context, &claimed);
        return Ok(());
    }
    prepared.restore = claimed;
    execute(context, prepared, &hold).await
}

async fn execute(context: &Context, prepared: PreparedRestore, hold: &Hold<'_>) -> Result<()> {
    let restore = prepared.restore.clone();
    tracing::info!(restore = name(&restore), backup = restore.spec.backup_name, "Running restore");
    let journal = report::journal(context, &restore);
    let opened = open(context, &prepared).await;
    let store = opened.as_ref().ok().cloned();
    let ended = match opened {
        Err(failure) => Err(failure),
        Ok(store) => attempt(context, prepared, &journal, store, hold).await,
    };
    let ended = match ended {
        Ok(ended) => ended,
        Err(failure) => report::failed(context, &restore, &journal, failure).await?,
    };
    match context.write_end(&restore, &ended).await? {
        Some(written) if written.status.phase().is_terminal() => report_end(context, &written),
        Some(_) => {}
        // Who deleted it has removed its files already, but for those that were written since.
        None => {
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
    hold: &Hold<'_>,
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
    let ended = match restored {
        Err(reason) => Err(failed(reason)),
        Ok((outcome, hooks)) => {
            report::note_end(journal);
            let (restore, left) = (restore.clone(), (hooks, &tools.actions));
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

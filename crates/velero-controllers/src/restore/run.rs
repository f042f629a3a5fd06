//! Runs a restore: prepare and validate, take, run the engine from the store into the cluster, report.
//!
//! The status has one writer at any time: first who takes it, then the progress, then the end. What the end says comes
//! from the journal alone, and so do the log and the results file. A restore whose actions started operations waits for
//! them (`following`); one whose pods still run hooks passes through Finalizing; any other goes straight to its
//! end.

use std::pin::pin;

use tokio::sync::SemaphorePermit;
use tokio_util::sync::CancellationToken;
use velero_api::metadata::{name, uid};
use velero_api::v1::{Restore, RestorePhase};
use velero_engine::Journal;
use velero_engine::recorder::Recorded;
use velero_engine::stage;
use velero_engine::stage::{try_within, within};
use velero_store::BackupStore;

use crate::lifecycle::cancel::{cancel_owned, cancel_unfinished};
use crate::lifecycle::debts::owe;
use crate::lifecycle::ending::{LostTrack, lose_track};
use crate::lifecycle::kind::Kind;
use crate::lifecycle::movers;
use crate::restore::debts::LEFT_BEHIND;
use crate::restore::ending::report as report_end;
use crate::restore::error::RunError;
use crate::restore::interruption::{self, Cut, interruption};
use crate::restore::prepare::{PreparedRestore, judge, prepare_restore};
use crate::restore::report::Failure;
use crate::restore::store::open;
use crate::restore::transfer::{self, Means};
use crate::restore::{report, settle};
use crate::runtime::busy::Hold;
use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, WHILE_HELD};
use crate::runtime::error::{Result, describe};
use crate::runtime::events;
use crate::runtime::metrics::Counter;
use crate::runtime::ownership::End;

/// Runs a new restore to its end. It has a place among those that run until its last object is restored; while it waits
/// for hooks and volumes, others run.
pub(super) async fn run(context: &SharedContext, restore: Restore, place: SemaphorePermit<'_>) -> Result<Next> {
    // Only a deletion can have it, and that may leave it behind.
    let Some(hold) = context.restores.busy.enter(name(&restore)) else { return Ok(Next::After(WHILE_HELD)) };
    let mut prepared = prepare_restore(context.objects.cluster(), &context.settings, &restore).await?;
    judge(&mut prepared, clock::now())?;
    if *prepared.restore.status.phase() == RestorePhase::InProgress {
        context.holder.sign(&mut prepared.restore);
    }
    let taken = context.take(&restore, &prepared.restore).await?;
    context.metrics.count(Counter::RestoreAttempt, &taken.spec.schedule_name);
    if *taken.status.phase() != RestorePhase::InProgress {
        report_end(context, &taken);
        return Ok(Next::Change);
    }
    if let Some(told) = taken.told() {
        events::tell(context, &taken, Controller::Restore, told);
    }
    prepared.restore = taken;
    let object = stage::of_object(uid(&prepared.restore));
    within(object, execute(context, prepared, &hold, place)).await.map(|()| Next::Change)
}

/// Ends a restore that was taken into work and nobody works on. One of another server is an interrupted one.
pub(super) async fn give_up(context: &Context, restore: &Restore) -> Result<Next> {
    let is_of_another = !context.holder.has(restore);
    let note = |failed: &mut Restore| {
        if is_of_another {
            owe(failed, LEFT_BEHIND);
        }
    };
    match lose_track(context, restore, note).await? {
        LostTrack::Held => return Ok(Next::After(WHILE_HELD)),
        LostTrack::Over => {}
        LostTrack::Written(written) => report_end(context, &written),
    }
    Ok(Next::Change)
}

async fn execute(
    context: &Context,
    prepared: PreparedRestore,
    hold: &Hold<'_>,
    place: SemaphorePermit<'_>,
) -> Result<()> {
    let restore = prepared.restore.clone();
    tracing::info!(restore = name(&restore), backup = restore.spec.backup_name, "Running restore");
    let journal = restore.journal(context);
    let opened = open(context, &prepared).await;
    let store = opened.as_ref().ok().cloned();
    let ended = match opened {
        Err(error) => Err(Failure::new(error.to_string(), None)),
        Ok(store) => attempt(context, prepared, &journal, store, hold, place).await,
    };
    let ended = match ended {
        Ok(ended) => ended,
        Err(failure) => report::failed(context, &restore, &journal, failure).await?,
    };
    match context.write_end(&restore, &ended).await? {
        End::Written(written) if written.status.phase().is_terminal() => report_end(context, &written),
        End::Written(_) => {}
        // Its files are those of whoever has ended it.
        End::TakenOver(_) => cancel_owned(context, &restore, None).await,
        // Who deleted it has removed its files already, but for those that were written since.
        End::Gone => {
            cancel_owned(context, &restore, None).await;
            report::clean_up(store.as_ref(), name(&restore)).await;
        }
    }
    Ok(())
}

/// Restores, stores what happened and waits for hooks; gives the restore at its end. The operations of a restore that
/// fails are cancelled.
async fn attempt(
    context: &Context,
    prepared: PreparedRestore,
    journal: &Journal,
    store: BackupStore,
    hold: &Hold<'_>,
    place: SemaphorePermit<'_>,
) -> Result<Restore, Failure> {
    let restore = prepared.restore.clone();
    let failed = |reason| Failure::new(reason, Some(store.clone()));
    let tools = try_within(stage!("plugins"), context.plugins.open(Some(journal))).await;
    let tools = tools.map_err(|error| failed(describe(&error)))?;
    let (started, halt) = (Recorded::default(), CancellationToken::new());
    let means = Means { tools: &tools, started: &started, halt: &halt };
    let mut interrupted = pin!(interruption(context, &restore, hold));
    // In a block of its own: what is given up has ended before it is cleaned up.
    let mut restored = {
        let work = pin!(transfer::contents(context, prepared, journal, &store, means));
        interruption::items(work, interrupted.as_mut(), &halt, interruption::patience(context), journal).await
    };
    // Others may run while volumes are filled.
    drop(place);
    if let Ok(items) = restored {
        let filling = interruption::fillings(items, interrupted, journal);
        restored = try_within(stage!("volumes"), filling).await;
    }
    let mut ended = match restored {
        Err(Cut { error, outcome }) => {
            let is_cancelled = matches!(error, RunError::Cancelled(_));
            Err(Failure { is_cancelled, outcome, ..failed(error.to_string()) })
        }
        Ok(restored) => {
            report::note_end(journal);
            let restore = restore.clone();
            let settled = settle::settle(context, restore, journal, &store, restored, &tools.actions, hold).await;
            settled.map_err(|error| failed(describe(&error)))
        }
    };
    if let Err(failure) = &mut ended {
        failure.is_owed = movers::try_cancel_of_restore(context, &restore, &failure.reason).await.is_err();
        cancel_unfinished(&started.all(), &tools.actions, &restore).await;
    }
    tools.close().await;
    ended
}

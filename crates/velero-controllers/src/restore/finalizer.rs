//! What becomes of a restore whose server was stopped before its last step.

use velero_api::metadata::name;
use velero_api::v1::Restore;
use velero_engine::journal::Counts;

use crate::lifecycle::cancellation::requested;
use crate::lifecycle::ending::end_phase;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::phase::move_to;
use crate::restore::awaited::Awaited;
use crate::restore::ending::report;
use crate::restore::settle::note_unfinished;
use crate::restore::store::store_of;
use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::driver::{Next, WHILE_HELD};
use crate::runtime::error::Result;
use crate::runtime::ownership::End;

/// Ends a restore that an earlier server left unfinished. Who deletes it, or its backup, has it to himself: no file is written
/// behind his back.
pub(crate) async fn finish_abandoned(context: &Context, restore: &Restore) -> Result<Next> {
    let Some(hold) = context.restores.busy.enter(name(restore)) else { return Ok(Next::After(WHILE_HELD)) };
    // Somebody may have had it until now.
    let Some(restore) = context.objects.get::<Restore>(name(restore)).await? else { return Ok(Next::Change) };
    if !Restore::is_finalizing(restore.status.phase()) || restore.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Change);
    }
    tokio::select! {
        finished = finish(context, restore) => finished?,
        () = hold.interrupted() => return Ok(Next::After(WHILE_HELD)),
        () = context.stop.cancelled() => {}
    }
    Ok(Next::Change)
}

async fn finish(context: &Context, restore: Restore) -> Result<()> {
    let (journal, known) = (restore.journal(context), restore.counts());
    // Where nothing is noted, hooks are all that could have been left.
    let awaited = Awaited::noted(&restore).unwrap_or(Awaited { hooks: true, volumes: false });
    let cancelled = requested(&restore);
    let why = if cancelled.is_some() { "The restore was cancelled" } else { "The server was stopped" };
    note_unfinished(&journal, why, awaited);
    if let Some(reason) = &cancelled {
        journal.error().error(reason).message("The restore was cancelled before it was finished");
    }
    let counts = match store_of(context, &restore).await? {
        Some(store) => restore.files(&store).amend(&journal, known, true).await?,
        None => {
            let said = journal.counts();
            Counts { warnings: known.warnings + said.warnings, errors: known.errors + said.errors }
        }
    };
    let mut ended = restore.clone();
    move_to(&mut ended, end_phase::<Restore>(restore.status.phase(), counts.errors > 0))?;
    ended.put_counts(counts);
    ended.put_failure_reason(cancelled.unwrap_or_default());
    ended.status.completion_timestamp = Some(clock::now_time());
    Awaited::default().note(&mut ended);
    if let End::Written(ended) = context.write_end(&restore, &ended).await? {
        report(context, &ended);
    }
    Ok(())
}

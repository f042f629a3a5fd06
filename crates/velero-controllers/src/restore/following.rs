//! What becomes of a restore while its operations are followed. When all have ended it ends too, or waits for hooks that
//! still run in restored pods.

use velero_api::metadata::name;
use velero_api::v1::{Restore, RestorePhase};
use velero_engine::Journal;
use velero_engine::journal::Counts;
use velero_rules::phases::restore_phase_after_run;
use velero_store::BackupStore;

use crate::lifecycle::cancel::cancel_owned;
use crate::lifecycle::ending::partially_failed;
use crate::lifecycle::files::Found;
use crate::lifecycle::follow::{Follow, pause};
use crate::lifecycle::kind::Kind;
use crate::restore::awaited::Awaited;
use crate::restore::cancellation;
use crate::restore::ending::report;
use crate::restore::settle::finish_hooks;
use crate::restore::store::store_of;
use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::driver::Next;
use crate::runtime::error::Result;
use crate::runtime::ownership::End;

impl Follow for Restore {
    async fn store(&self, context: &Context) -> Result<Found<BackupStore>> {
        let gone = || Found::Unusable("its backup or the location of its backup is gone".to_owned());
        Ok(store_of(context, self).await?.map_or_else(gone, Found::Usable))
    }

    fn phase_after(&self, operations_running: bool, has_errors: bool) -> RestorePhase {
        restore_phase_after_run(operations_running, Awaited::noted(self).is_some(), has_errors)
    }

    /// The journal of a restore whose hooks still run holds everything.
    fn running_journal(&self, context: &Context) -> Option<Journal> {
        context.parked_hooks.journal(name(self))
    }

    async fn move_on(&self, context: &Context, moved: Self, store: &BackupStore, running: bool) -> Result<Next> {
        if running {
            write(context, self, &moved).await?;
            return Ok(Next::After(pause(context)));
        }
        leave(context, self, moved, store).await?;
        Ok(Next::Change)
    }

    async fn end_cancelled(&self, context: &Context, reason: &str) -> Result<()> {
        cancellation::end(context, self, reason).await
    }

    async fn end_unfollowed(&self, context: &Context, store: Option<&BackupStore>, problem: &str) -> Result<()> {
        let (journal, known) = (self.journal(context), self.counts());
        journal.error().error(&problem).message("The operations of the restore cannot be followed");
        let counts = match store {
            Some(store) => self.files(store).amend(&journal, known, true).await?,
            None => Counts { errors: known.errors + 1, ..known },
        };
        let mut ended = partially_failed(self, format!("the operations of the restore cannot be followed: {problem}"))?;
        ended.put_counts(counts);
        if write(context, self, &ended).await? {
            report(context, &ended);
        }
        Ok(())
    }
}

/// Ends a restore whose operations have ended. What an earlier server left behind is the finalizer's to tell of.
async fn leave(context: &Context, restore: &Restore, moved: Restore, store: &BackupStore) -> Result<()> {
    let mut ended = moved;
    if let Some(parked) = context.parked_hooks.take(name(restore)) {
        ended = finish_hooks(context, restore, ended, store, parked, None).await?;
    } else if ended.status.phase().is_terminal() {
        ended.status.completion_timestamp = Some(clock::now_time());
    }
    let is_written = write(context, restore, &ended).await?;
    context.restores.operations.forget(name(restore));
    context.rest_plugins().await;
    // Who has ended it in between has told so.
    if is_written && ended.status.phase().is_terminal() {
        report(context, &ended);
    }
    Ok(())
}

/// Writes what a restore is now; gives whether it is, and not deleted or ended by somebody else.
async fn write(context: &Context, restore: &Restore, moved: &Restore) -> Result<bool> {
    let end = context.write_end(restore, moved).await?;
    if let End::Gone = end {
        cancel_owned(context, restore, None).await;
    }
    Ok(matches!(end, End::Written(_)))
}

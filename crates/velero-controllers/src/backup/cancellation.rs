//! Ends backups that somebody asked to be cancelled and that nobody works on: those that wait for their turn, and those
//! whose own work is done. One that runs is ended by who runs it.
//!
//! So does one end whose name in its location has another by now: it cannot be finished.
//!
//! A cancelled backup fails as a whole, however far it has come: it is never restorable, and what it saved is removed as
//! that of any failed backup is. The object says so first; the rest is a debt, which the next server pays too.

use velero_api::metadata::{name, uid};
use velero_api::v1::Backup;
use velero_store::BackupStore;

use crate::backup::debts::LEFT_BEHIND;
use crate::backup::ending::{OF_ANOTHER, report};
use crate::backup::queue::Queue;
use crate::lifecycle::cancel::cancel_owned;
use crate::lifecycle::cancellation::{never_begun, requested};
use crate::lifecycle::debts::owe;
use crate::lifecycle::ending::failed;
use crate::runtime::context::Context;
use crate::runtime::driver::{Next, WHILE_HELD};
use crate::runtime::error::Result;
use crate::runtime::ownership::End;

/// Ends a backup that waits for its turn.
pub(super) async fn never_begin(context: &Context, queue: &Queue, backup: &Backup, reason: &str) -> Result<Next> {
    let Some(_hold) = context.backups.busy.enter(name(backup)) else { return Ok(Next::After(WHILE_HELD)) };
    let mut ended = never_begun(backup, reason)?;
    ended.status.queue_position = 0;
    let written = context.take(backup, &ended).await?;
    report(context, &written);
    queue.left(name(backup));
    queue.advance(context).await?;
    Ok(Next::Change)
}

/// Ends a backup whose files somebody has written over. They are left alone: with its reservation goes what would make them
/// pass for its own.
pub(super) async fn give_way(context: &Context, store: &BackupStore, backup: &Backup) -> Result<()> {
    store.release(name(backup), uid(backup)).await?;
    cancel_owned(context, backup, None).await;
    let reason = requested(backup).unwrap_or_else(|| format!("the backup cannot be finished: {OF_ANOTHER}"));
    end(context, backup, &reason).await
}

/// Ends a backup whose own work is done. What it started and saved is cancelled and removed right after, see
/// [`crate::backup::debts`].
pub(super) async fn end(context: &Context, backup: &Backup, reason: &str) -> Result<()> {
    let mut failed = failed(backup, reason.to_owned())?;
    owe(&mut failed, LEFT_BEHIND);
    if let End::Written(written) = context.write_end(backup, &failed).await? {
        report(context, &written);
    }
    Ok(())
}

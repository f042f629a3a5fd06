//! Pays what an interrupted restore owes: see [`crate::lifecycle::debts`].

use velero_api::metadata::name;
use velero_api::v1::Restore;

use crate::lifecycle::cancel::try_cancel_owned;
use crate::lifecycle::debts::{settle, write};
use crate::lifecycle::movers;
use crate::restore::store::store_of;
use crate::runtime::context::Context;
use crate::runtime::driver::{Next, WHILE_HELD};
use crate::runtime::error::Result;

/// What an interrupted restore may have left behind.
pub(crate) const LEFT_BEHIND: &str = "operations of the interrupted run";

/// Pays what a failed restore owes.
pub(crate) async fn pay(context: &Context, restore: &Restore) -> Result<Next> {
    let Some(_hold) = context.restores.busy.enter(name(restore)) else { return Ok(Next::After(WHILE_HELD)) };
    let told = movers::try_cancel_of_restore(context, restore, &restore.status.failure_reason).await;
    // One that does not let itself be told to stop keeps no operation from being cancelled.
    cancel_operations(context, restore).await?;
    told?;
    let mut paid = restore.clone();
    settle(&mut paid);
    tracing::info!(restore = name(restore), "Operations of the interrupted restore are cancelled");
    write(context, restore, &paid).await
}

/// Cancels the operations that an interrupted restore has stored. Without its backup or location nothing is known.
async fn cancel_operations(context: &Context, restore: &Restore) -> Result<()> {
    if let Some(store) = store_of(context, restore).await? {
        try_cancel_owned(context, restore, Some(&store)).await?;
    }
    Ok(())
}

//! Ends restores that somebody asked to be cancelled and that nobody works on: those that wait for their turn, and those
//! that wait for operations. One that runs is ended by who runs it.
//!
//! What was restored stays. Operations that go on are cancelled, and the results name each as an error.

use std::time::Duration;

use velero_api::metadata::name;
use velero_api::v1::Restore;
use velero_engine::journal::Counts;
use velero_rules::operations::Tally;

use crate::lifecycle::cancel::cancel_owned;
use crate::lifecycle::cancellation::never_begun;
use crate::lifecycle::debts::owe;
use crate::lifecycle::ending::partially_failed;
use crate::lifecycle::files::Found;
use crate::lifecycle::follow::load;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::movers;
use crate::lifecycle::operation::{give_up, tally};
use crate::lifecycle::poll::note_failures;
use crate::restore::awaited::Awaited;
use crate::restore::debts::LEFT_BEHIND;
use crate::restore::ending::report;
use crate::restore::store::store_of;
use crate::runtime::context::Context;
use crate::runtime::driver::{Next, WHILE_HELD};
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::ownership::End;

/// How long the store may take to say which operations there are, and to be told how they ended.
const STORE_PATIENCE: Duration = Duration::from_secs(60);

/// Ends a restore that waits for its turn.
pub(super) async fn never_begin(context: &Context, restore: &Restore, reason: &str) -> Result<Next> {
    let Some(_hold) = context.restores.busy.enter(name(restore)) else { return Ok(Next::After(WHILE_HELD)) };
    let written = context.take(restore, &never_begun(restore, reason)?).await?;
    report(context, &written);
    Ok(Next::Change)
}

/// Ends a restore that waits for operations. Where its store does not say which, cancelling them is a debt, which the
/// next server pays too.
pub(super) async fn end(context: &Context, restore: &Restore, reason: &str) -> Result<()> {
    let told = movers::try_cancel_of_restore(context, restore, reason).await;
    let mut ended = partially_failed(restore, reason.to_owned())?;
    if told.is_err() {
        owe(&mut ended, LEFT_BEHIND);
    }
    Awaited::default().note(&mut ended);
    match tokio::time::timeout(STORE_PATIENCE, cancel_operations(context, restore, reason)).await {
        Ok(Ok((counts, tally))) => {
            ended.put_counts(counts);
            ended.put_tally(tally);
        }
        not_told => {
            let late = || format!("its store did not answer within {STORE_PATIENCE:?}");
            let problem = not_told.ok().and_then(Result::err).map_or_else(late, |error| describe(&error));
            tracing::warn!(restore = name(restore), problem, "Operations of a cancelled restore are cancelled later");
            let known = restore.counts();
            ended.put_counts(Counts { errors: known.errors + 1, ..known });
            owe(&mut ended, LEFT_BEHIND);
        }
    }
    if let End::Written(written) = context.write_end(restore, &ended).await? {
        report(context, &written);
    }
    Ok(())
}

/// Cancels the operations that go on, and tells file, results and log of it; gives how many errors and which operations
/// there are then.
async fn cancel_operations(context: &Context, restore: &Restore, reason: &str) -> Result<(Counts, Tally)> {
    let journal = restore.journal(context);
    journal.error().error(&reason).message("The restore was cancelled while it waited for operations");
    let Some(store) = store_of(context, restore).await? else {
        // Nothing but what is known here can be cancelled, and nobody can be told.
        cancel_owned(context, restore, None).await;
        let known = restore.counts();
        return Ok((Counts { errors: known.errors + 1, ..known }, restore.tally()));
    };
    let mut operations = match load(context, restore, &store).await? {
        Found::Usable(operations) => operations,
        Found::Unusable(problem) => return Err(Error::unmet("Restore", name(restore), problem)),
    };
    cancel_owned(context, restore, Some(&store)).await;
    let given_up = give_up(&mut operations, reason);
    note_failures(&journal, given_up.iter().filter_map(|place| operations.get(*place)));
    restore.files(&store).put_operations(&operations).await?;
    let counts = restore.files(&store).amend(&journal, restore.counts(), true).await?;
    let attempted = restore.tally().attempted;
    Ok((counts, Tally { attempted, ..tally(&operations) }))
}

//! Follows the operations that a backup or restore waits for: asks about them every now and then, tells of those that
//! failed, and moves it on.

use std::time::Duration;

use velero_api::metadata::{name, uid};
use velero_engine::Journal;
use velero_engine::journal::Counts;
use velero_engine::stage::{self, within};
use velero_rules::operations::Tally;
use velero_store::BackupStore;

use crate::lifecycle::cancel::cancel_owned;
use crate::lifecycle::cancellation::{requested, until_requested};
use crate::lifecycle::files::Found;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::operation::{Operation, tally};
use crate::lifecycle::phase::move_to;
use crate::lifecycle::poll::{note_failures, poll};
use crate::lifecycle::trace;
use crate::runtime::context::Context;
use crate::runtime::driver::{Next, WHILE_HELD};
use crate::runtime::error::Result;

/// What is different where operations of backups and of restores are followed.
pub(crate) trait Follow: Kind {
    /// The store of its files, or why it cannot be used any more.
    fn store(&self, context: &Context) -> impl Future<Output = Result<Found<BackupStore>>> + Send;
    /// The phase it is in while operations run, and after them.
    fn phase_after(&self, operations_running: bool, has_errors: bool) -> Self::Phase;
    /// The journal of its run, where that still goes on and is stored whole.
    fn running_journal(&self, _context: &Context) -> Option<Journal> {
        None
    }
    /// Writes what it is now; `running` says whether operations go on. Gives when to look again.
    fn move_on(
        &self,
        context: &Context,
        moved: Self,
        store: &BackupStore,
        running: bool,
    ) -> impl Future<Output = Result<Next>> + Send;
    /// Ends it, since somebody asked for that in these words. It is never complete then.
    fn end_cancelled(&self, context: &Context, reason: &str) -> impl Future<Output = Result<()>> + Send;
    /// Ends it, since its operations cannot be followed any more. It is never complete then.
    fn end_unfollowed(
        &self,
        context: &Context,
        store: Option<&BackupStore>,
        problem: &str,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// Asks about the operations of a backup or restore if it is time, and moves it on.
pub(crate) async fn follow<K: Follow>(context: &Context, owner: &K) -> Result<Next> {
    let in_hand = K::in_hand(context);
    let Some(hold) = in_hand.busy.enter(name(owner)) else { return Ok(Next::After(WHILE_HELD)) };
    // Somebody may have had it until now.
    let Some(owner) = context.objects.get::<K>(name(owner)).await? else { return Ok(Next::Change) };
    if !K::is_waiting(owner.phase()) {
        return Ok(Next::Change);
    }
    if let Some(reason) = requested(&owner) {
        // The next server ends it, should this one be told to end before.
        let ending = owner.end_cancelled(context, &reason);
        context.unless_stopped(ending).await.unwrap_or(Ok(()))?;
        return Ok(Next::Change);
    }
    let left = in_hand.operations.pause_left(name(&owner), uid(&owner));
    if !left.is_zero() {
        return Ok(Next::After(left));
    }
    tokio::select! {
        next = within(stage::of_object(uid(&owner)), step(context, &owner)) => next,
        () = hold.interrupted() => Ok(Next::After(WHILE_HELD)),
        () = context.stop.cancelled() => Ok(Next::Change),
        // The next look ends it.
        _ = until_requested(context, &owner) => Ok(Next::After(Duration::ZERO)),
    }
}

async fn step<K: Follow>(context: &Context, owner: &K) -> Result<Next> {
    let store = match owner.store(context).await? {
        Found::Usable(store) => store,
        Found::Unusable(problem) => return give_up(context, owner, None, &problem).await,
    };
    let before = match load(context, owner, &store).await? {
        Found::Usable(operations) => operations,
        Found::Unusable(problem) => return give_up(context, owner, Some(&store), &problem).await,
    };
    let mut operations = before.clone();
    let questions = context.plugins.for_questions()?;
    let timeout = context.settings.default_item_operation_timeout;
    let failures = poll(&mut operations, &questions.actions, owner, timeout).await;
    let stands = tally(&operations);
    let kept = &K::in_hand(context).operations;
    let ended = stands != tally(&before);
    if ended {
        owner.files(&store).put_operations(&operations).await?;
        // Who comes here again finds them as they are stored: so what ended is told once, whatever fails after this.
        kept.keep(name(owner), uid(owner), operations.clone(), true, Duration::ZERO);
        trace::tell_operations(owner, &operations);
    }
    let counts = tell(context, owner, &store, &operations, &failures).await?;
    let moved = moved(owner, stands, counts)?;
    let is_stored = ended || operations == before && kept.unstored(name(owner)).is_none();
    kept.keep(name(owner), uid(owner), operations, is_stored, pause(context));
    owner.move_on(context, moved, &store, stands.running() > 0).await
}

/// How long it is from one look at operations to the next.
pub(crate) fn pause(context: &Context) -> Duration {
    context.settings.item_operation_period().to_std()
}

/// The operations of a backup or restore as they are known here, or else as they are stored.
pub(crate) async fn load<K: Kind>(
    context: &Context,
    owner: &K,
    store: &BackupStore,
) -> Result<Found<Vec<K::Operation>>> {
    if let Some(known) = K::in_hand(context).operations.get(name(owner), uid(owner)) {
        return Ok(Found::Usable(known));
    }
    Ok(match owner.files(store).operations().await? {
        Found::Usable(operations) => whole(operations, owner.tally().attempted),
        unusable => unusable,
    })
}

/// Operations, unless some are missing of those that were started.
fn whole<O: Operation>(operations: Vec<O>, attempted: i64) -> Found<Vec<O>> {
    let found = tally(&operations).attempted;
    if found < attempted {
        return Found::Unusable(format!("the file of its operations names {found} of {attempted} operations"));
    }
    Found::Usable(operations)
}

/// The backup or restore as its operations stand now.
fn moved<K: Follow>(owner: &K, stands: Tally, counts: Counts) -> Result<K> {
    let mut moved = owner.clone();
    moved.put_counts(counts);
    moved.put_tally(Tally { attempted: owner.tally().attempted, ..stands });
    let phase = owner.phase_after(stands.running() > 0, counts.errors > 0);
    if phase != *owner.phase() {
        move_to(&mut moved, phase)?;
    }
    Ok(moved)
}

/// Tells results and log of operations that failed; gives the counts of their owner then.
async fn tell<K: Follow>(
    context: &Context,
    owner: &K,
    store: &BackupStore,
    operations: &[K::Operation],
    failures: &[usize],
) -> Result<Counts> {
    let failed_now = || failures.iter().filter_map(|place| operations.get(*place));
    if let Some(journal) = owner.running_journal(context) {
        note_failures(&journal, failed_now());
        // Counted before it is stored: hooks that go on may add to it meanwhile.
        let counts = journal.counts();
        if counts != owner.counts() {
            owner.files(store).put_journal(&journal).await?;
        }
        return Ok(counts);
    }
    let untold = Untold::of(owner.tally().failed, tally(operations).failed, failures.len());
    if untold == Untold::Nothing {
        return Ok(owner.counts());
    }
    let journal = owner.journal(context);
    match untold {
        Untold::Nothing | Untold::Newly => note_failures(&journal, failed_now()),
        Untold::Some => note_failures(&journal, operations.iter().filter(|operation| operation.has_failed())),
    }
    Ok(owner.files(store).amend(&journal, owner.counts(), untold == Untold::Some).await?)
}

/// Which failures are to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Untold {
    /// None.
    Nothing,
    /// Those that were noticed now.
    Newly,
    /// Some of all: a server was stopped after it had stored that they failed and before it told.
    Some,
}

impl Untold {
    /// From how many failures the status tells of, how many there are, and how many were noticed now.
    fn of(told: i64, failed: i64, newly: usize) -> Self {
        match i64::try_from(newly).unwrap_or(i64::MAX) {
            _ if failed == told => Self::Nothing,
            newly if failed == told.saturating_add(newly) => Self::Newly,
            _ => Self::Some,
        }
    }
}

async fn give_up<K: Follow>(context: &Context, owner: &K, store: Option<&BackupStore>, problem: &str) -> Result<Next> {
    cancel_owned(context, owner, None).await;
    owner.end_unfollowed(context, store, problem).await?;
    Ok(Next::Change)
}

#[cfg(test)]
mod tests {
    use velero_api::records::{BackupOperation, RestoreOperation};
    use velero_api::v1::{Backup, BackupPhase};

    use super::*;

    #[test]
    fn failures_are_told_once_also_after_a_restart() {
        for (told, failed, newly, expected) in [
            (0, 0, 0, Untold::Nothing),
            (2, 2, 0, Untold::Nothing),
            (0, 1, 1, Untold::Newly),
            (2, 5, 3, Untold::Newly),
            (0, 1, 0, Untold::Some),
            (1, 4, 1, Untold::Some),
        ] {
            assert_eq!(Untold::of(told, failed, newly), expected, "{told} {failed} {newly}");
        }
    }

    #[test]
    fn operations_that_are_missing_in_their_file_cannot_be_followed() {
        let two = vec![RestoreOperation::default(), RestoreOperation::default()];
        assert!(matches!(whole(two.clone(), 2), Found::Usable(found) if found.len() == 2));
        assert!(matches!(whole(two, 3), Found::Unusable(problem) if problem.contains("names 2 of 3")));
        assert!(matches!(whole(Vec::<BackupOperation>::new(), 0), Found::Usable(_)));
    }

    #[test]
    fn a_backup_moves_on_as_its_operations_stand() {
        use BackupPhase::*;
        let tally = |completed, failed| Tally { attempted: 2, completed, failed };
        for (phase, stands, errors, expected) in [
            (WaitingForPluginOperations, tally(0, 0), 0, WaitingForPluginOperations),
            (WaitingForPluginOperations, tally(1, 1), 1, FinalizingPartiallyFailed),
            (WaitingForPluginOperations, tally(0, 1), 1, WaitingForPluginOperationsPartiallyFailed),
            (WaitingForPluginOperations, tally(2, 0), 0, Finalizing),
            (WaitingForPluginOperationsPartiallyFailed, tally(2, 0), 1, FinalizingPartiallyFailed),
        ] {
            let mut backup = Backup::new("velero", "b", Default::default());
            backup.status.phase = Some(phase.clone());
            backup.status.backup_item_operations_attempted = 2;
            let moved = moved(&backup, stands, Counts { warnings: 0, errors }).unwrap();
            assert_eq!(*moved.status.phase(), expected, "{phase} {stands:?}");
            assert_eq!(moved.tally(), stands);
        }
    }
}

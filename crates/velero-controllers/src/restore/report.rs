//! What a restore says about itself: journal, status, and what is left of a failure.

use std::time::Duration;

use velero_api::metadata::name;
use velero_api::v1::{HookStatus, Restore};
use velero_engine::Journal;
use velero_engine::journal::Counts;
use velero_engine::restore::RestoreOutcome;
use velero_rules::operations::Tally;
use velero_rules::phases::restore_phase_after_run;
use velero_store::BackupStore;

use crate::lifecycle::debts::owe;
use crate::lifecycle::ending;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::operation::{give_up, tally};
use crate::lifecycle::phase::move_to;
use crate::restore::awaited::Awaited;
use crate::restore::debts::LEFT_BEHIND;
use crate::restore::transfer;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};

/// How long the log of a failed restore may take to be stored.
const EXPLANATION: Duration = Duration::from_secs(10);

/// Why a restore failed as a whole.
pub(super) struct Failure {
    pub(super) reason: String,
    /// The store, when it can be told what happened.
    pub(super) store: Option<BackupStore>,
    /// Whether somebody asked for its end.
    pub(super) is_cancelled: bool,
    /// What was restored until then, where that is known.
    pub(super) outcome: Option<RestoreOutcome>,
    /// Whether those who move data for it could not be told to stop.
    pub(super) is_owed: bool,
}

impl Failure {
    pub(super) fn new(reason: String, store: Option<BackupStore>) -> Self {
        Self { reason, store, is_cancelled: false, outcome: None, is_owed: false }
    }

    /// What the status says.
    fn told(&self) -> String {
        if self.is_cancelled { self.reason.clone() } else { format!("restore execution failed: {}", self.reason) }
    }
}

/// Ends the journal of a restore that ran through.
pub(super) fn note_end(journal: &Journal) {
    journal.info().message("restore completed");
}

/// The restore after its last object, with what its files count.
pub(super) fn restored(
    restore: &Restore,
    counts: Counts,
    outcome: &RestoreOutcome,
    tally: Tally,
    awaited: Awaited,
) -> Result<Restore> {
    let mut restored = restore.clone();
    move_to(&mut restored, restore_phase_after_run(tally.running() > 0, !awaited.is_nothing(), counts.errors > 0))?;
    restored.put_counts(counts);
    restored.put_tally(tally);
    restored.status.progress = Some(outcome.progress.clone());
    if !awaited.hooks {
        restored.status.hook_status = Some(HookStatus::default());
    }
    awaited.note(&mut restored);
    Ok(restored)
}

/// The failed restore; what explains the failure is stored. What was restored stays, and is told as far as it is known.
pub(super) async fn failed(
    context: &Context,
    restore: &Restore,
    journal: &Journal,
    mut failure: Failure,
) -> Result<Restore> {
    journal.error().error(&failure.reason).message("Restore failed");
    let mut failed = ending::failed(restore, failure.told())?;
    if let Some(outcome) = &mut failure.outcome {
        give_up(&mut outcome.operations, &failure.reason);
        failed.put_tally(tally(&outcome.operations));
        failed.status.progress = Some(outcome.progress.clone());
    } else if let Some(written) = context.objects.get::<Restore>(name(restore)).await.ok().flatten() {
        // The progress that was written last stays.
        failed.status.progress = written.status.progress;
    }
    failed.put_counts(journal.counts());
    if failure.is_owed {
        owe(&mut failed, LEFT_BEHIND);
    }
    let Some(store) = &failure.store else { return Ok(failed) };
    let stored = async {
        match &failure.outcome {
            Some(outcome) => transfer::files(store, restore, journal, outcome).await,
            None => restore.files(store).put_journal(journal).await,
        }
    };
    let restore = name(restore);
    match tokio::time::timeout(EXPLANATION, stored).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(restore, error = describe(&error), "The log of a failed restore is not stored");
        }
        Err(_) => tracing::warn!(restore, "The store does not take the log of a failed restore"),
    }
    Ok(failed)
}

/// Removes the files of a restore that was deleted while it ran.
pub(super) async fn clean_up(store: Option<&BackupStore>, restore: &str) {
    let Some(store) = store else { return };
    if let Err(error) = store.delete_restore(restore).await {
        tracing::warn!(restore, error = describe(&error), "Files of a deleted restore are left in its location");
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{RestorePhase, RestoreProgress};
    use velero_engine::journal::{Level, LogFormat};

    use super::*;

    fn running() -> (Restore, Journal, RestoreOutcome) {
        let mut restore = Restore::new("velero", "r", Default::default());
        restore.status.phase = Some(RestorePhase::InProgress);
        let journal = Journal::for_restore("velero", "r", LogFormat::Text, Level::Info);
        let progress = RestoreProgress { total_items: 3, items_restored: 3, ..Default::default() };
        (restore, journal, RestoreOutcome { progress, ..Default::default() })
    }

    const NOTHING: Awaited = Awaited { hooks: false, volumes: false };
    const HOOKS: Awaited = Awaited { hooks: true, volumes: false };
    const VOLUMES: Awaited = Awaited { hooks: false, volumes: true };

    #[test]
    fn a_restore_with_nothing_left_ends_at_once_and_one_with_hooks_is_finalized() {
        let (restore, journal, outcome) = running();
        let none = Tally::default();
        let phase =
            |awaited| restored(&restore, journal.counts(), &outcome, none, awaited).unwrap().status.phase().clone();
        assert_eq!(phase(NOTHING), RestorePhase::Completed);
        assert_eq!(phase(HOOKS), RestorePhase::Finalizing);
        assert_eq!(phase(VOLUMES), RestorePhase::Finalizing);
        journal.error().message("bad");
        assert_eq!(phase(NOTHING), RestorePhase::PartiallyFailed);
        assert_eq!(phase(HOOKS), RestorePhase::FinalizingPartiallyFailed);
    }

    #[test]
    fn the_end_of_a_restore_is_counted_from_its_journal() {
        let (restore, journal, outcome) = running();
        journal.warning().message("odd");
        journal.error().message("bad");
        journal.error().message("worse");
        let status = restored(&restore, journal.counts(), &outcome, Tally::default(), NOTHING).unwrap().status;
        assert_eq!((status.warnings, status.errors), (1, 2));
        assert_eq!(status.progress, Some(outcome.progress));
    }

    #[test]
    fn a_restore_with_operations_waits_whether_hooks_are_left_or_not() {
        let (restore, journal, outcome) = running();
        let going = Tally { attempted: 2, completed: 1, failed: 0 };
        for awaited in [NOTHING, HOOKS, VOLUMES] {
            let restored = restored(&restore, journal.counts(), &outcome, going, awaited).unwrap();
            assert_eq!(Awaited::noted(&restored).unwrap_or_default(), awaited);
            let status = restored.status;
            assert_eq!(*status.phase(), RestorePhase::WaitingForPluginOperations);
            assert_eq!(status.hook_status.is_none(), awaited.hooks);
            assert_eq!((status.restore_item_operations_attempted, status.restore_item_operations_completed), (2, 1));
        }
    }
}

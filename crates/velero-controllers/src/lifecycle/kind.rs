//! What a backup and a restore have in common for who carries them out.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use velero_api::metadata::name;
use velero_api::records::{BackupOperation, RestoreOperation};
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase, Stage};
use velero_engine::Journal;
use velero_engine::journal::Counts;
use velero_rules::conditions;
use velero_rules::events::{self, Standing, Told};
use velero_rules::operations::Tally;
use velero_rules::phases::{backup_can_become, restore_can_become};
use velero_store::BackupStore;

use crate::lifecycle::files::{Files, Work};
use crate::lifecycle::operation::Operation;
use crate::runtime::context::{Context, InHand};

/// A backup or a restore.
pub(crate) trait Kind: VeleroResource {
    /// Where it is in its life.
    type Phase: Clone + PartialEq + std::fmt::Display + Send + Sync;
    /// What it waits for.
    type Operation: Operation<Owner = Self>;

    /// Which of the two it is.
    const WORK: Work;
    /// Whether one that ended with errors can be gone on with.
    const IS_RESUMED: bool;
    /// The phase of one that never began.
    const FAILED_VALIDATION: Self::Phase;
    /// The phase in which somebody works on it.
    const IN_PROGRESS: Self::Phase;
    /// The phase of one that only has to be finished, and in which nothing went wrong yet.
    const FINALIZING: Self::Phase;
    /// The phase of one in which nothing went wrong.
    const COMPLETED: Self::Phase;
    /// The phase of one that failed as a whole.
    const FAILED: Self::Phase;
    /// The phase of one that ended with errors.
    const PARTIALLY_FAILED: Self::Phase;

    /// Where it is in its life.
    fn phase(&self) -> &Self::Phase;
    /// Writes the phase, whatever it was: see [`crate::lifecycle::phase::move_to`].
    fn put_phase(&mut self, phase: Self::Phase);
    /// Says in conditions what the phase says.
    fn put_conditions(&mut self, now: Timestamp);
    /// What an Event tells about it now, if it tells anything.
    fn told(&self) -> Option<Told>;
    /// Whether the table of moves has this one.
    fn can_become(from: &Self::Phase, to: &Self::Phase) -> bool;
    /// Whether one of this phase waits for operations.
    fn is_waiting(phase: &Self::Phase) -> bool;
    /// Whether one of this phase only has to be finished.
    fn is_finalizing(phase: &Self::Phase) -> bool;
    /// How many warnings and errors its status tells.
    fn counts(&self) -> Counts;
    /// Writes how many warnings and errors there are.
    fn put_counts(&mut self, counts: Counts);
    /// How its operations stand as its status tells.
    fn tally(&self) -> Tally;
    /// Writes how its operations stand.
    fn put_tally(&mut self, tally: Tally);
    /// Writes why it failed; empty when it did not.
    fn put_failure_reason(&mut self, reason: String);
    /// Writes why it never began.
    fn put_validation_errors(&mut self, errors: Vec<String>);
    /// Writes when it ended.
    fn put_completion(&mut self, moment: Time);
    /// What this process has in hand of its kind.
    fn in_hand(context: &Context) -> &InHand<Self::Operation>;
    /// Opens a journal for what is to be said about it.
    fn journal(&self, context: &Context) -> Journal;
    /// Lets go of what goes on beside the operations, once nobody waits for it.
    fn let_go(&self, _context: &Context) {}

    /// Its files in a store.
    fn files<'a>(&'a self, store: &'a BackupStore) -> Files<'a> {
        Files::new(store, Self::WORK, name(self))
    }
}

/// The parts of [`Kind`] that differ in names of fields alone.
macro_rules! common {
    ($phase:ident, $operation:ident, $can_become:ident, $attempted:ident, $completed:ident, $failed:ident) => {
        type Phase = $phase;
        type Operation = $operation;
        const FAILED_VALIDATION: $phase = $phase::FailedValidation;
        const IN_PROGRESS: $phase = $phase::InProgress;
        const FINALIZING: $phase = $phase::Finalizing;
        const COMPLETED: $phase = $phase::Completed;
        const FAILED: $phase = $phase::Failed;
        const PARTIALLY_FAILED: $phase = $phase::PartiallyFailed;

        fn phase(&self) -> &$phase {
            self.status.phase()
        }

        fn put_phase(&mut self, phase: $phase) {
            self.status.phase = Some(phase);
        }

        fn put_conditions(&mut self, now: Timestamp) {
            let phase = self.status.phase();
            let conditions = conditions::of_work(&self.status.conditions, phase.as_str(), phase.stage(), now);
            self.status.conditions = conditions;
        }

        fn told(&self) -> Option<Told> {
            let status = &self.status;
            events::of_work(Standing {
                word: Self::WORK.word(),
                name: name(self),
                phase: status.phase().as_str(),
                stage: status.phase().stage(),
                errors: status.errors,
                warnings: status.warnings,
                failure_reason: &status.failure_reason,
                validation_errors: &status.validation_errors,
            })
        }

        fn can_become(from: &$phase, to: &$phase) -> bool {
            $can_become(from, to)
        }

        fn is_waiting(phase: &$phase) -> bool {
            phase.stage() == Stage::WaitingForOperations
        }

        fn is_finalizing(phase: &$phase) -> bool {
            phase.stage() == Stage::Finalizing
        }

        fn counts(&self) -> Counts {
            Counts { warnings: self.status.warnings, errors: self.status.errors }
        }

        fn put_counts(&mut self, counts: Counts) {
            (self.status.warnings, self.status.errors) = (counts.warnings, counts.errors);
        }

        fn tally(&self) -> Tally {
            let status = &self.status;
            Tally { attempted: status.$attempted, completed: status.$completed, failed: status.$failed }
        }

        fn put_tally(&mut self, tally: Tally) {
            let status = &mut self.status;
            (status.$attempted, status.$completed, status.$failed) = (tally.attempted, tally.completed, tally.failed);
        }

        fn put_failure_reason(&mut self, reason: String) {
            self.status.failure_reason = reason;
        }

        fn put_validation_errors(&mut self, errors: Vec<String>) {
            self.status.validation_errors = errors;
        }

        fn put_completion(&mut self, moment: Time) {
            self.status.completion_timestamp = Some(moment);
        }
    };
}

impl Kind for Backup {
    common!(
        BackupPhase,
        BackupOperation,
        backup_can_become,
        backup_item_operations_attempted,
        backup_item_operations_completed,
        backup_item_operations_failed
    );
    const WORK: Work = Work::Backup;
    const IS_RESUMED: bool = false;

    fn in_hand(context: &Context) -> &InHand<BackupOperation> {
        &context.backups
    }

    fn journal(&self, context: &Context) -> Journal {
        let (format, level) = context.settings.journal_form();
        Journal::for_backup(context.objects.namespace(), name(self), format, level)
    }
}

impl Kind for Restore {
    common!(
        RestorePhase,
        RestoreOperation,
        restore_can_become,
        restore_item_operations_attempted,
        restore_item_operations_completed,
        restore_item_operations_failed
    );
    const WORK: Work = Work::Restore;
    const IS_RESUMED: bool = true;

    fn in_hand(context: &Context) -> &InHand<RestoreOperation> {
        &context.restores
    }

    fn journal(&self, context: &Context) -> Journal {
        let (format, level) = context.settings.journal_form();
        Journal::for_restore(context.objects.namespace(), name(self), format, level)
    }

    /// Its hooks end with the operations.
    fn let_go(&self, context: &Context) {
        drop(context.parked_hooks.take(name(self)));
    }
}

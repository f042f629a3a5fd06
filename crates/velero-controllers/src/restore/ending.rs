//! The end of a restore, and what is told about it.

use velero_api::v1::{Restore, RestorePhase};

use crate::runtime::context::Context;
use crate::runtime::objects::name;

/// The phase a restore ends in that only has to be finished.
pub(crate) fn end_phase(phase: &RestorePhase, has_errors: bool) -> RestorePhase {
    match phase {
        RestorePhase::Finalizing if !has_errors => RestorePhase::Completed,
        _ => RestorePhase::PartiallyFailed,
    }
}

/// Tells how a restore ended; the figures of the metrics come from the status alone.
pub(crate) fn report(context: &Context, restore: &Restore) {
    let status = &restore.status;
    context.metrics.restore_ended(&restore.spec.schedule_name, status);
    let (restore, phase) = (name(restore), status.phase().as_str());
    if status.failure_reason.is_empty() {
        tracing::info!(restore, phase, errors = status.errors, warnings = status.warnings, "Restore ended");
    } else {
        tracing::error!(restore, phase, reason = status.failure_reason, "Restore failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restore_completes_only_if_nothing_went_wrong_on_the_way() {
        use RestorePhase::{Completed, Finalizing, FinalizingPartiallyFailed, PartiallyFailed};
        for (phase, has_errors, expected) in [
            (Finalizing, false, Completed),
            (Finalizing, true, PartiallyFailed),
            (FinalizingPartiallyFailed, false, PartiallyFailed),
            (FinalizingPartiallyFailed, true, PartiallyFailed),
        ] {
            assert_eq!(end_phase(&phase, has_errors), expected, "{phase} {has_errors}");
        }
    }
}

//! The end of a restore, and what is told about it.

use velero_api::metadata::name;
use velero_api::v1::Restore;

use crate::lifecycle::kind::Kind;
use crate::lifecycle::trace;
use crate::runtime::context::Context;
use crate::runtime::controller::Controller;
use crate::runtime::events;

/// Tells how a restore ended; the figures of the metrics come from the status alone.
pub(crate) fn report(context: &Context, restore: &Restore) {
    let status = &restore.status;
    trace::tell_whole(restore, status.start_timestamp.as_ref());
    context.metrics.restore_ended(&restore.spec.schedule_name, status);
    context.to_count.notify_one();
    if let Some(told) = restore.told() {
        events::tell(context, restore, Controller::Restore, told);
    }
    let (restore, phase) = (name(restore), status.phase().as_str());
    if status.failure_reason.is_empty() {
        tracing::info!(restore, phase, errors = status.errors, warnings = status.warnings, "Restore ended");
    } else {
        tracing::error!(restore, phase, reason = status.failure_reason, "Restore failed");
    }
}

//! What traces tell of a backup or restore as a whole.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use velero_api::metadata::{name, namespace, uid};
use velero_engine::stage;

use crate::lifecycle::kind::Kind;
use crate::lifecycle::operation::Operation;

/// Tells of a backup or restore that has ended, from its beginning to now. Its stages were told as they ended, by whoever was at
/// work on it; this is what they belong to.
pub(crate) fn tell_whole<K: Kind>(object: &K, started: Option<&Time>) {
    // What was refused has only been made.
    let started = started.or(object.meta().creation_timestamp.as_ref());
    let counts = object.counts();
    drop(tracing::info_span!(
        target: stage::TARGET, "whole",
        trace.root = uid(object),
        trace.name = K::WORK.word(),
        trace.started = moment(started),
        trace.failed = *object.phase() != K::COMPLETED,
        velero.name = name(object),
        velero.namespace = namespace(object),
        velero.uid = uid(object),
        velero.phase = object.phase().to_string(),
        velero.errors = counts.errors,
        velero.warnings = counts.warnings,
    ));
}

/// Tells of the operations of a backup or restore once all have ended.
pub(crate) fn tell_operations<K: Kind>(owner: &K, operations: &[K::Operation]) {
    if operations.is_empty() || operations.iter().any(Operation::is_running) {
        return;
    }
    let began = operations.iter().filter_map(|operation| operation.status().created.as_ref()).min_by_key(|time| time.0);
    let failed = operations.iter().filter(|operation| operation.has_failed()).count();
    // They went on beside whatever is done now.
    stage::of_object(uid(owner)).in_scope(|| {
        drop(velero_engine::stage!(
            "operations",
            trace.started = moment(began),
            velero.operations = operations.len(),
            velero.operations_failed = failed,
        ));
    });
}

/// A moment as stages write it; this one where it is not known.
fn moment(time: Option<&Time>) -> u64 {
    time.and_then(|time| u64::try_from(time.0.as_nanosecond()).ok()).unwrap_or_else(stage::now)
}

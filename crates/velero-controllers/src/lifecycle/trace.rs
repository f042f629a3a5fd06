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

/// Tells that the operations have ended that somebody waited for.
pub(crate) fn tell_operations<O: Operation>(operations: &[O]) {
    let began = operations.iter().filter_map(|operation| operation.status().created.as_ref()).min_by_key(|time| time.0);
    let failed = operations.iter().filter(|operation| operation.has_failed()).count();
    drop(velero_engine::stage!(
        "operations",
        trace.started = moment(began),
        velero.operations = operations.len(),
        velero.operations_failed = failed,
    ));
}

/// A moment as stages write it; this one where it is not known.
fn moment(time: Option<&Time>) -> u64 {
    time.and_then(|time| u64::try_from(time.0.as_nanosecond()).ok()).unwrap_or_else(stage::now)
}

//! The one place that asks what time it is; decisions get the answer passed in.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The time now, in the whole seconds that objects can hold.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// The time now as objects hold it.
pub(crate) fn now_time() -> Time {
    Time(now())
}

/// A moment after `from`, or the last one there is.
pub(crate) fn after(from: Timestamp, duration: velero_api::GoDuration) -> Timestamp {
    let span = jiff::SignedDuration::from_nanos(duration.as_nanos());
    from.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// How long it is from one moment to a later one; nothing when it is past.
pub(crate) fn until(moment: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(now)).unwrap_or_default()
}

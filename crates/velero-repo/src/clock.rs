//! The time, given from outside: entries are ordered by it, and tests move it.

use std::sync::Arc;

use jiff::Timestamp;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of this machine.
pub fn system_clock() -> Clock {
    Arc::new(Timestamp::now)
}

/// Whether at least some seconds have passed since a time; a clock that went backwards counts as well.
pub(crate) fn has_passed(since: Timestamp, now: Timestamp, seconds: i64) -> bool {
    now < since || now.as_second() - since.as_second() >= seconds
}

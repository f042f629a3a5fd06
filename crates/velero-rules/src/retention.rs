//! What becomes of a backup whose time has run out.

use jiff::Timestamp;

/// The storage location of the backup, as far as deletion is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocationState {
    /// There is no such location.
    NotFound,
    /// It could not be read.
    CannotGet,
    /// It is not Available.
    Unavailable,
    /// It must not be written to.
    ReadOnly,
    /// It can be written to.
    Ready,
}

/// What to do with a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionDecision {
    /// It has not expired.
    Keep,
    /// It cannot be deleted: put this value into the label `velero.io/gc-failure`.
    Blocked {
        /// The value of the label.
        reason: &'static str,
        /// Whether to try again soon rather than with the next round.
        retry: bool,
    },
    /// Its location does not answer: try again later, and leave the label alone.
    Postponed,
    /// A deletion is on its way: clear the label.
    AlreadyRequested,
    /// Restores run from it: try again soon.
    Restored,
    /// Clear the label and request its deletion.
    Delete,
}

/// Says whether a moment of expiration has come.
pub fn is_expired(expiration: Option<Timestamp>, now: Timestamp) -> bool {
    expiration.is_some_and(|expiration| expiration <= now)
}

/// Decides what to do with a backup. `deletion_pending` tells of a request that is not processed yet, `is_restored` of
/// restores from it that have not ended.
pub fn decide(
    expiration: Option<Timestamp>,
    now: Timestamp,
    location: LocationState,
    deletion_pending: bool,
    is_restored: bool,
) -> RetentionDecision {
    if !is_expired(expiration, now) {
        return RetentionDecision::Keep;
    }
    match location {
        LocationState::NotFound => RetentionDecision::Blocked { reason: "BSLNotFound", retry: true },
        LocationState::CannotGet => RetentionDecision::Blocked { reason: "BSLCannotGet", retry: true },
        LocationState::Unavailable => RetentionDecision::Postponed,
        LocationState::ReadOnly => RetentionDecision::Blocked { reason: "BSLReadOnly", retry: false },
        LocationState::Ready if deletion_pending => RetentionDecision::AlreadyRequested,
        LocationState::Ready if is_restored => RetentionDecision::Restored,
        LocationState::Ready => RetentionDecision::Delete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_backups_are_deleted_unless_their_location_forbids_it() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let blocked = |reason, retry| RetentionDecision::Blocked { reason, retry };
        let table = [
            (None, LocationState::Ready, false, false, RetentionDecision::Keep),
            (Some(101), LocationState::Ready, false, false, RetentionDecision::Keep),
            (Some(101), LocationState::NotFound, false, false, RetentionDecision::Keep),
            (Some(100), LocationState::Ready, false, false, RetentionDecision::Delete),
            (Some(99), LocationState::Ready, false, false, RetentionDecision::Delete),
            (Some(99), LocationState::Ready, true, false, RetentionDecision::AlreadyRequested),
            (Some(99), LocationState::Ready, false, true, RetentionDecision::Restored),
            (Some(99), LocationState::Ready, true, true, RetentionDecision::AlreadyRequested),
            (Some(99), LocationState::NotFound, false, true, blocked("BSLNotFound", true)),
            (Some(99), LocationState::CannotGet, false, false, blocked("BSLCannotGet", true)),
            (Some(99), LocationState::ReadOnly, true, false, blocked("BSLReadOnly", false)),
            (Some(99), LocationState::Unavailable, false, false, RetentionDecision::Postponed),
        ];
        for (expiration, location, pending, is_restored, expected) in table {
            let decision = decide(expiration.map(at), at(100), location, pending, is_restored);
            assert_eq!(decision, expected, "{expiration:?} {location:?} {pending} {is_restored}");
        }
    }
}

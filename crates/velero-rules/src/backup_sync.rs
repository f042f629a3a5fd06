//! Which backups of a bucket become objects of the cluster, and which objects have lost their bucket.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use velero_api::v1::{BackupPhase, Ending, Stage};

use crate::retention::is_expired;

/// What to do with a backup that is in the bucket and not in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncDecision {
    /// Create it as it is stored.
    Create,
    /// It never finished and its time has run out: create it with this phase, so that it is collected.
    CreateAs(BackupPhase),
    /// Leave it alone.
    Skip,
}

/// The names of the backups in a bucket, compared with the objects of the cluster, which come one by one: there may be tens of
/// thousands of either.
pub struct BucketNames(BTreeSet<String>);

impl BucketNames {
    /// Those of a list of the bucket.
    pub fn new(listed: impl IntoIterator<Item = String>) -> Self {
        Self(listed.into_iter().collect())
    }

    /// Takes note of an object of the cluster; whether the bucket names it, too. Each name is that of one object.
    pub fn note(&mut self, name: &str) -> bool {
        self.0.remove(name)
    }

    /// The names that are in the bucket and not in the cluster, once all objects were noted.
    pub fn news(self) -> impl Iterator<Item = String> {
        self.0.into_iter()
    }
}

/// Decides on a stored backup by its phase. One that has not ended must not be taken for a new request.
pub fn decide(phase: &BackupPhase, expiration: Option<Timestamp>, now: Timestamp) -> SyncDecision {
    match phase.stage() {
        Stage::Ended(Ending::Completed | Ending::PartiallyFailed | Ending::Failed) => SyncDecision::Create,
        Stage::WaitingForOperations | Stage::Finalizing if is_expired(expiration, now) => {
            SyncDecision::CreateAs(BackupPhase::PartiallyFailed)
        }
        Stage::WaitingForOperations | Stage::Finalizing => SyncDecision::Skip,
        Stage::Ended(Ending::FailedValidation) => SyncDecision::Skip,
        Stage::Pending | Stage::InProgress | Stage::Deleting | Stage::Unknown => SyncDecision::Skip,
    }
}

/// Says whether a backup object of this location is to be deleted because its bucket no longer has it.
pub fn is_orphan(phase: &BackupPhase, is_in_bucket: bool) -> bool {
    phase.is_restorable() && !is_in_bucket
}

/// Says whether a location is due. A period of zero on the location turns sync off, a negative one counts as unset.
pub fn is_due(
    location_period: Option<SignedDuration>,
    default_period: SignedDuration,
    last_synced: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    let period = match location_period {
        Some(period) if period.is_zero() => return false,
        Some(period) if period.is_positive() => period,
        _ => default_period,
    };
    last_synced.is_none_or(|last| now.duration_since(last) >= period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn only_names_missing_from_the_cluster_are_synced() {
        let mut names = BucketNames::new(["c", "a", "b"].map(str::to_owned));
        assert_eq!(["b", "d"].map(|name| names.note(name)), [true, false]);
        assert_eq!(names.news().collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn phases_decide_what_is_created() {
        use BackupPhase::*;
        let rescued = SyncDecision::CreateAs(PartiallyFailed);
        let table = [
            (Completed, Some(50), SyncDecision::Create),
            (PartiallyFailed, None, SyncDecision::Create),
            (Failed, None, SyncDecision::Create),
            (WaitingForPluginOperations, Some(150), SyncDecision::Skip),
            (WaitingForPluginOperations, None, SyncDecision::Skip),
            (WaitingForPluginOperations, Some(50), rescued.clone()),
            (WaitingForPluginOperationsPartiallyFailed, Some(50), rescued.clone()),
            (Finalizing, Some(50), rescued.clone()),
            (FinalizingPartiallyFailed, Some(50), rescued),
            (New, Some(50), SyncDecision::Skip),
            (Queued, Some(50), SyncDecision::Skip),
            (InProgress, Some(50), SyncDecision::Skip),
            (Deleting, Some(50), SyncDecision::Skip),
            (Unknown("Uploading".into()), None, SyncDecision::Skip),
        ];
        for (phase, expiration, expected) in table {
            assert_eq!(decide(&phase, expiration.map(at), at(100)), expected, "{phase} {expiration:?}");
        }
    }

    #[test]
    fn only_finished_backups_without_a_directory_are_orphans() {
        assert!(!is_orphan(&BackupPhase::Completed, true));
        assert!(is_orphan(&BackupPhase::Completed, false));
        assert!(is_orphan(&BackupPhase::PartiallyFailed, false));
        assert!(!is_orphan(&BackupPhase::Failed, false));
        assert!(!is_orphan(&BackupPhase::InProgress, false));
    }

    #[test]
    fn locations_are_synced_after_their_period() {
        let minutes = SignedDuration::from_mins;
        let table = [
            (None, None, true),
            (None, Some(40), true),
            (None, Some(41), false),
            (Some(minutes(0)), None, false),
            (Some(minutes(-1)), Some(39), true),
            (Some(minutes(5)), Some(39), false),
        ];
        for (period, last, expected) in table {
            assert_eq!(is_due(period, minutes(1), last.map(at), at(100)), expected, "{period:?} {last:?}");
        }
    }
}

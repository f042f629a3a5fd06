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

/// Gives the names that are in the bucket and not in the cluster.
pub fn names_to_sync<'a>(in_bucket: &'a BTreeSet<String>, in_cluster: &'a BTreeSet<String>) -> Vec<&'a str> {
    in_bucket.difference(in_cluster).map(String::as_str).collect()
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
pub fn is_orphan(name: &str, phase: &BackupPhase, in_bucket: &BTreeSet<String>) -> bool {
    phase.is_restorable() && !in_bucket.contains(name)
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

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn only_names_missing_from_the_cluster_are_synced() {
        assert_eq!(names_to_sync(&set(&["a", "b", "c"]), &set(&["b", "d"])), ["a", "c"]);
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
        let bucket = set(&["a"]);
        assert!(!is_orphan("a", &BackupPhase::Completed, &bucket));
        assert!(is_orphan("b", &BackupPhase::Completed, &bucket));
        assert!(is_orphan("b", &BackupPhase::PartiallyFailed, &bucket));
        assert!(!is_orphan("b", &BackupPhase::Failed, &bucket));
        assert!(!is_orphan("b", &BackupPhase::InProgress, &bucket));
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

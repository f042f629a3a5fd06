//! The counters: one line each.

/// An enum of counters, with the names without their prefix and the help of each.
macro_rules! counters {
    ($(#[$attribute:meta])* $name:ident { $($counter:ident = $metric:literal: $help:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $(#[doc = $help] $counter,)*
        }

        impl $name {
            /// All of them, in the order of their numbers.
            pub(super) const ALL: &'static [Self] = &[$(Self::$counter,)*];

            /// The name without its prefix, and the help.
            pub(super) fn describe(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$counter => ($metric, $help),)*
                }
            }
        }
    };
}

counters! {
    /// Counters that exist at zero for manual backups and for each schedule.
    Counter {
        BackupAttempt = "backup_attempt_total": "Backups that were begun",
        BackupSuccess = "backup_success_total": "Backups that completed",
        BackupPartialFailure = "backup_partial_failure_total": "Backups that ended with errors on single items",
        BackupFailure = "backup_failure_total": "Backups that failed",
        BackupValidationFailure = "backup_validation_failure_total": "Backups that were refused",
        BackupWarning = "backup_warning_total": "Backups that ended with warnings",
        BackupDeletionAttempt = "backup_deletion_attempt_total": "Deletions of backups that were begun",
        BackupDeletionSuccess = "backup_deletion_success_total": "Deletions of backups that succeeded",
        BackupDeletionFailure = "backup_deletion_failure_total": "Deletions of backups that failed",
        RestoreAttempt = "restore_attempt_total": "Restores that were begun",
        RestoreSuccess = "restore_success_total": "Restores that completed",
        RestorePartialFailure = "restore_partial_failure_total": "Restores that ended with errors on single items",
        RestoreFailed = "restore_failed_total": "Restores that failed",
        RestoreValidationFailed = "restore_validation_failed_total": "Restores that were refused",
        VolumeSnapshotAttempt = "volume_snapshot_attempt_total": "Volume snapshots that were begun",
        VolumeSnapshotSuccess = "volume_snapshot_success_total": "Volume snapshots that succeeded",
        VolumeSnapshotFailure = "volume_snapshot_failure_total": "Volume snapshots that failed",
    }
}

counters! {
    /// Counters of CSI snapshots, which exist for each backup too.
    CsiCounter {
        Attempt = "csi_snapshot_attempt_total": "CSI snapshots that were begun",
        Success = "csi_snapshot_success_total": "CSI snapshots that succeeded",
        Failure = "csi_snapshot_failure_total": "CSI snapshots that failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_at_its_number_and_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = Counter::ALL.iter().map(|counter| counter.describe().0).collect();
        assert_eq!(names.len(), Counter::ALL.len());
        for (number, counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, number);
            assert!(counter.describe().0.ends_with("_total"));
        }
    }
}

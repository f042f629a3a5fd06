//! The allowed moves between the phases of a backup and of a restore.
//!
//! Whoever writes a phase asks here first. The tables are the whole truth: what is not in them is not allowed.

use velero_api::v1::{BackupPhase, RestorePhase};

/// Says whether a backup may move from one phase to another. Deletion is open from every phase but itself.
pub fn backup_can_become(from: &BackupPhase, to: &BackupPhase) -> bool {
    use BackupPhase::*;
    let allowed: &[BackupPhase] = match from {
        New => &[Queued, InProgress, FailedValidation],
        Queued => &[ReadyToStart, FailedValidation],
        ReadyToStart => &[InProgress, FailedValidation],
        InProgress => &[
            WaitingForPluginOperations,
            WaitingForPluginOperationsPartiallyFailed,
            Finalizing,
            FinalizingPartiallyFailed,
            Failed,
        ],
        // One that is cancelled fails as a whole, however far it has come.
        WaitingForPluginOperations => {
            &[WaitingForPluginOperationsPartiallyFailed, Finalizing, FinalizingPartiallyFailed, PartiallyFailed, Failed]
        }
        WaitingForPluginOperationsPartiallyFailed => &[FinalizingPartiallyFailed, PartiallyFailed, Failed],
        Finalizing => &[Completed, PartiallyFailed, Failed],
        FinalizingPartiallyFailed => &[PartiallyFailed, Failed],
        FailedValidation | Completed | PartiallyFailed | Failed | Deleting | Unknown(_) => &[],
    };
    allowed.contains(to) || (*to == Deleting && *from != Deleting)
}

/// Says whether a restore may move from one phase to another.
///
/// A restore with nothing left to finish goes straight to its end; only one with work left passes through Finalizing.
pub fn restore_can_become(from: &RestorePhase, to: &RestorePhase) -> bool {
    use RestorePhase::*;
    let allowed: &[RestorePhase] = match from {
        New => &[InProgress, FailedValidation],
        InProgress => &[
            WaitingForPluginOperations,
            WaitingForPluginOperationsPartiallyFailed,
            Finalizing,
            FinalizingPartiallyFailed,
            Completed,
            PartiallyFailed,
            Failed,
        ],
        WaitingForPluginOperations => &[
            WaitingForPluginOperationsPartiallyFailed,
            Finalizing,
            FinalizingPartiallyFailed,
            Completed,
            PartiallyFailed,
        ],
        WaitingForPluginOperationsPartiallyFailed => &[FinalizingPartiallyFailed, PartiallyFailed],
        Finalizing => &[Completed, PartiallyFailed],
        FinalizingPartiallyFailed => &[PartiallyFailed],
        FailedValidation | Completed | PartiallyFailed | Failed | Unknown(_) => &[],
    };
    allowed.contains(to)
}

/// Gives the phase a backup moves to when its own work is done.
pub fn backup_phase_after_run(operations_running: bool, has_errors: bool) -> BackupPhase {
    match (operations_running, has_errors) {
        (true, false) => BackupPhase::WaitingForPluginOperations,
        (true, true) => BackupPhase::WaitingForPluginOperationsPartiallyFailed,
        (false, false) => BackupPhase::Finalizing,
        (false, true) => BackupPhase::FinalizingPartiallyFailed,
    }
}

/// Gives the phase a restore moves to when its own work, or the operations it waited for, are done.
pub fn restore_phase_after_run(operations_running: bool, work_left: bool, has_errors: bool) -> RestorePhase {
    match (operations_running, work_left, has_errors) {
        (true, _, false) => RestorePhase::WaitingForPluginOperations,
        (true, _, true) => RestorePhase::WaitingForPluginOperationsPartiallyFailed,
        (false, true, false) => RestorePhase::Finalizing,
        (false, true, true) => RestorePhase::FinalizingPartiallyFailed,
        (false, false, false) => RestorePhase::Completed,
        (false, false, true) => RestorePhase::PartiallyFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every move, one letter a phase in the order of `ALL`: the row is where from, the columns where to.
    fn table<T>(phases: &[T], can_become: impl Fn(&T, &T) -> bool) -> Vec<String> {
        let mark = |from: &T, to: &T| if can_become(from, to) { 'x' } else { '.' };
        phases.iter().map(|from| phases.iter().map(|to| mark(from, to)).collect()).collect()
    }

    #[test]
    fn the_backup_table_is_as_agreed() {
        use BackupPhase::*;
        let phases = [
            New,
            Queued,
            ReadyToStart,
            FailedValidation,
            InProgress,
            WaitingForPluginOperations,
            WaitingForPluginOperationsPartiallyFailed,
            Finalizing,
            FinalizingPartiallyFailed,
            Completed,
            PartiallyFailed,
            Failed,
            Deleting,
        ];
        assert!(BackupPhase::ALL.iter().all(|phase| phases.contains(phase)), "a phase is missing from the table");
        let expected = [
            ".x.xx.......x", // New
            "..xx........x", // Queued
            "...xx.......x", // ReadyToStart
            "............x", // FailedValidation
            ".....xxxx..xx", // InProgress
            "......xxx.xxx", // WaitingForPluginOperations
            "........x.xxx", // WaitingForPluginOperationsPartiallyFailed
            ".........xxxx", // Finalizing
            "..........xxx", // FinalizingPartiallyFailed
            "............x", // Completed
            "............x", // PartiallyFailed
            "............x", // Failed
            ".............", // Deleting
        ];
        assert_eq!(table(&phases, backup_can_become), expected);
    }

    #[test]
    fn the_restore_table_is_as_agreed() {
        use RestorePhase::*;
        let phases = [
            New,
            FailedValidation,
            InProgress,
            WaitingForPluginOperations,
            WaitingForPluginOperationsPartiallyFailed,
            Finalizing,
            FinalizingPartiallyFailed,
            Completed,
            PartiallyFailed,
            Failed,
        ];
        assert!(RestorePhase::ALL.iter().all(|phase| phases.contains(phase)), "a phase is missing from the table");
        let expected = [
            ".xx.......", // New
            "..........", // FailedValidation
            "...xxxxxxx", // InProgress
            "....xxxxx.", // WaitingForPluginOperations
            "......x.x.", // WaitingForPluginOperationsPartiallyFailed
            ".......xx.", // Finalizing
            "........x.", // FinalizingPartiallyFailed
            "..........", // Completed
            "..........", // PartiallyFailed
            "..........", // Failed
        ];
        assert_eq!(table(&phases, restore_can_become), expected);
    }

    #[test]
    fn errors_are_never_forgotten_on_the_way() {
        use BackupPhase::*;
        for from in [WaitingForPluginOperationsPartiallyFailed, FinalizingPartiallyFailed] {
            for to in [WaitingForPluginOperations, Finalizing, Completed] {
                assert!(!backup_can_become(&from, &to), "{from} {to}");
            }
        }
    }

    #[test]
    fn what_follows_a_run_is_an_allowed_move() {
        for running in [true, false] {
            for errors in [true, false] {
                let next = backup_phase_after_run(running, errors);
                assert!(backup_can_become(&BackupPhase::InProgress, &next), "{next}");
                for work_left in [true, false] {
                    let next = restore_phase_after_run(running, work_left, errors);
                    assert!(restore_can_become(&RestorePhase::InProgress, &next), "{next}");
                }
            }
        }
    }

    #[test]
    fn an_unknown_phase_can_only_be_deleted() {
        let unknown = BackupPhase::Unknown("Uploading".to_owned());
        assert!(backup_can_become(&unknown, &BackupPhase::Deleting));
        assert!(BackupPhase::ALL.iter().filter(|to| backup_can_become(&unknown, to)).count() == 1);
    }
}

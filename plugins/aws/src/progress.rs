//! How far a snapshot is, from what EC2 says about it.

use jiff::Timestamp;
use velero_plugin::OperationProgress;

use crate::ec2::Snapshot;

/// What EC2 counts the progress of a snapshot in.
const UNITS: &str = "Percent";

/// The progress of a snapshot that EC2 has described.
pub(crate) fn of(snapshot: &Snapshot, now: Timestamp) -> OperationProgress {
    let id = &snapshot.id;
    let percent = snapshot.progress.trim_end_matches('%').trim().parse().unwrap_or(0);
    let (completed, error) = match snapshot.status.as_str() {
        "completed" => (true, String::new()),
        "error" => (true, format!("EC2 could not take snapshot {id}: {}", reason(snapshot))),
        "recoverable" | "recovering" => (true, gone(id)),
        _ => (false, String::new()),
    };
    OperationProgress {
        completed,
        error,
        n_completed: if snapshot.status == "completed" { 100 } else { percent },
        n_total: 100,
        operation_units: UNITS.to_owned(),
        description: format!("snapshot {id} of volume {} is {}", snapshot.volume_id, snapshot.status),
        started: snapshot.start_time.parse().ok(),
        updated: Some(now),
    }
}

/// The progress of a snapshot that EC2 does not have any more.
pub(crate) fn of_missing(snapshot_id: &str, now: Timestamp) -> OperationProgress {
    OperationProgress {
        completed: true,
        error: gone(snapshot_id),
        n_total: 100,
        operation_units: UNITS.to_owned(),
        updated: Some(now),
        ..OperationProgress::default()
    }
}

/// The progress while EC2 cannot be asked: nothing is known, and the snapshot may well be on its way.
pub(crate) fn unknown(problem: &str) -> OperationProgress {
    OperationProgress {
        n_total: 100,
        operation_units: UNITS.to_owned(),
        description: format!("EC2 cannot be asked just now: {problem}"),
        ..OperationProgress::default()
    }
}

fn gone(snapshot_id: &str) -> String {
    format!("snapshot {snapshot_id} was deleted before it was complete; take another backup")
}

fn reason(snapshot: &Snapshot) -> &str {
    if snapshot.status_message.is_empty() { "it gives no reason" } else { &snapshot.status_message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(status: &str, percent: &str, message: &str) -> OperationProgress {
        let snapshot = Snapshot {
            id: "snap-1".to_owned(),
            volume_id: "vol-1".to_owned(),
            status: status.to_owned(),
            progress: percent.to_owned(),
            status_message: message.to_owned(),
            start_time: "2026-01-02T03:04:05.000Z".to_owned(),
            ..Snapshot::default()
        };
        of(&snapshot, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn the_state_and_percentage_of_a_snapshot_are_its_progress() {
        for (status, percent, completed, done, error) in [
            ("pending", "", false, 0, ""),
            ("pending", "0%", false, 0, ""),
            ("pending", "37%", false, 37, ""),
            ("pending", "100%", false, 100, ""),
            ("completed", "100%", true, 100, ""),
            ("completed", "", true, 100, ""),
            ("error", "12%", true, 12, "EC2 could not take snapshot snap-1: the key is disabled"),
            ("recoverable", "5%", true, 5, "snapshot snap-1 was deleted before it was complete; take another backup"),
            ("something new", "5%", false, 5, ""),
        ] {
            let found = progress(status, percent, "the key is disabled");
            let seen = (found.completed, found.n_completed, found.n_total, found.error.as_str());
            assert_eq!(seen, (completed, done, 100, error), "{status} {percent}");
            assert_eq!(found.started.unwrap().to_string(), "2026-01-02T03:04:05Z");
        }
        assert!(progress("error", "", "").error.ends_with("it gives no reason"));
    }

    #[test]
    fn silence_of_ec2_is_no_end_and_a_missing_snapshot_is() {
        assert!(!unknown("throttled").completed && unknown("throttled").error.is_empty());
        let missing = of_missing("snap-1", Timestamp::UNIX_EPOCH);
        assert!(missing.completed && missing.error.contains("snap-1"));
    }
}

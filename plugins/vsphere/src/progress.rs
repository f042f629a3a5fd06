//! How far the data of a claim is, from the records of the vSphere plugin.

use serde_json::Value;
use velero_plugin::OperationProgress;
use velero_plugin::item::text;

/// What a Snapshot record says about the snapshot itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is not there yet.
    NotYet,
    /// It is there; its upload may go on.
    Yes,
    /// It will never be there.
    Never(String),
}

/// Whether the snapshot of a record is taken.
pub(crate) fn taken(snapshot: &Value) -> Taken {
    match text(snapshot, "/status/phase") {
        "" | "New" | "InProgress" => Taken::NotYet,
        phase @ ("SnapshotFailed" | "Canceling" | "Canceled" | "UploadFailedAfterRetry") => {
            Taken::Never(words(phase, snapshot))
        }
        _ => Taken::Yes,
    }
}

/// Whether an Upload has ended, so that there is nothing to cancel.
pub(crate) fn has_ended(upload: &Value) -> bool {
    matches!(text(upload, "/status/phase"), "Completed" | "Canceled" | "UploadFailedAfterRetry")
}

/// How far the data is. In guest clusters the Upload is a record of the supervisor, and the Snapshot says how it stands.
pub(crate) fn of(id: &str, snapshot: Option<&Value>, upload: Option<&Value>) -> OperationProgress {
    match (upload, snapshot) {
        (Some(upload), _) => with_numbers(of_upload(upload), upload),
        (None, Some(snapshot)) => with_numbers(of_snapshot(id, snapshot), snapshot),
        (None, None) => failed(format!("Snapshot record {id} and its Upload are gone; take another backup")),
    }
}

fn of_upload(upload: &Value) -> OperationProgress {
    match text(upload, "/status/phase") {
        "" | "New" => running("waiting for the data manager"),
        "Completed" => completed(),
        // All data is there; only the local snapshot could not be removed, which is tried again.
        "CleanupFailed" if is_all_there(upload) => completed(),
        "Canceled" => failed("the upload was canceled".to_owned()),
        phase @ "UploadFailedAfterRetry" => failed(words(phase, upload)),
        phase @ ("UploadError" | "CleanupFailed") => running(&format!("will be tried again: {}", words(phase, upload))),
        phase => running(phase),
    }
}

fn of_snapshot(id: &str, snapshot: &Value) -> OperationProgress {
    let is_local = text(snapshot, "/spec/backupRepository").is_empty();
    let is_in_guest_cluster = !text(snapshot, "/status/svcSnapshotName").is_empty();
    match text(snapshot, "/status/phase") {
        "" | "New" | "InProgress" => running("the snapshot is being taken"),
        "Snapshotted" if is_local => completed(),
        "Snapshotted" => running("the snapshot waits for its upload"),
        "Uploaded" | "CleanupAfterUploadFailed" => completed(),
        phase @ ("SnapshotFailed" | "UploadFailedAfterRetry" | "Canceled") => failed(words(phase, snapshot)),
        "Uploading" | "UploadFailed" if !is_in_guest_cluster => {
            failed(format!("the Upload of Snapshot record {id} is gone; take another backup"))
        }
        phase => running(phase),
    }
}

fn is_all_there(record: &Value) -> bool {
    let (done, total) = bytes(record);
    total > 0 && done >= total
}

fn bytes(record: &Value) -> (i64, i64) {
    let number = |name: &str| record["status"]["progress"][name].as_i64().unwrap_or_default();
    (number("bytesDone"), number("totalBytes"))
}

/// Adds how many bytes are done and when.
fn with_numbers(progress: OperationProgress, record: &Value) -> OperationProgress {
    let (done, total) = bytes(record);
    let is_complete = progress.completed && progress.error.is_empty();
    OperationProgress {
        n_completed: if is_complete { total } else { done },
        n_total: total,
        started: text(record, "/status/startTimestamp").parse().ok(),
        updated: text(record, "/status/completionTimestamp").parse().ok(),
        ..progress
    }
}

/// A phase and the message that goes with it.
fn words(phase: &str, record: &Value) -> String {
    match text(record, "/status/message") {
        "" => phase.to_owned(),
        message => format!("{phase}: {message}"),
    }
}

fn running(description: &str) -> OperationProgress {
    OperationProgress {
        description: description.to_owned(),
        operation_units: "Bytes".to_owned(),
        ..OperationProgress::default()
    }
}

fn completed() -> OperationProgress {
    OperationProgress { completed: true, ..running("Completed") }
}

fn failed(error: String) -> OperationProgress {
    OperationProgress { completed: true, error, ..running("Failed") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn upload(phase: &str, done: i64) -> Value {
        let progress = json!({"bytesDone": done, "totalBytes": 100});
        json!({"status": {"phase": phase, "message": "why", "progress": progress, "startTimestamp": "2026-01-02T03:04:05Z"}})
    }

    fn snapshot(phase: &str, repository: &str, supervisor: &str) -> Value {
        let status = json!({"phase": phase, "message": "why", "svcSnapshotName": supervisor});
        json!({"spec": {"backupRepository": repository}, "status": status})
    }

    #[test]
    fn an_upload_is_followed_through_its_phases() {
        for (phase, done, completed, n_completed, error) in [
            ("", 0, false, 0, ""),
            ("New", 0, false, 0, ""),
            ("InProgress", 40, false, 40, ""),
            ("UploadError", 40, false, 40, ""),
            ("CleanupFailed", 40, false, 40, ""),
            ("CleanupFailed", 100, true, 100, ""),
            ("Completed", 99, true, 100, ""),
            ("Canceling", 40, false, 40, ""),
            ("Canceled", 40, true, 40, "the upload was canceled"),
            ("UploadFailedAfterRetry", 40, true, 40, "UploadFailedAfterRetry: why"),
            ("SomethingNew", 40, false, 40, ""),
        ] {
            let progress = of("shop/snap-1", None, Some(&upload(phase, done)));
            let seen = (progress.completed, progress.n_completed, progress.n_total, progress.error.as_str());
            assert_eq!(seen, (completed, n_completed, 100, error), "{phase} {done}");
            assert!(progress.started.is_some());
        }
        let retried = of("shop/snap-1", None, Some(&upload("UploadError", 1)));
        assert_eq!(retried.description, "will be tried again: UploadError: why");
    }

    #[test]
    fn without_an_upload_the_snapshot_tells() {
        let gone = "the Upload of Snapshot record shop/snap-1 is gone; take another backup";
        for (phase, repository, supervisor, completed, error) in [
            ("New", "br-1", "", false, ""),
            ("Snapshotted", "br-1", "", false, ""),
            ("Snapshotted", "", "", true, ""),
            ("Uploading", "br-1", "", true, gone),
            ("Uploading", "br-1", "svc-1", false, ""),
            ("UploadFailed", "br-1", "svc-1", false, ""),
            ("Uploaded", "br-1", "", true, ""),
            ("CleanupAfterUploadFailed", "br-1", "", true, ""),
            ("SnapshotFailed", "br-1", "", true, "SnapshotFailed: why"),
            ("UploadFailedAfterRetry", "br-1", "svc-1", true, "UploadFailedAfterRetry: why"),
            ("Canceling", "br-1", "", false, ""),
            ("Canceled", "br-1", "", true, "Canceled: why"),
        ] {
            let progress = of("shop/snap-1", Some(&snapshot(phase, repository, supervisor)), None);
            assert_eq!((progress.completed, progress.error.as_str()), (completed, error), "{phase} {repository}");
        }
        let nothing = of("shop/snap-1", None, None);
        assert!(nothing.completed && nothing.error.contains("shop/snap-1"));
    }

    #[test]
    fn a_snapshot_is_taken_before_its_upload_is_done() {
        let of_phase = |phase| taken(&snapshot(phase, "br-1", ""));
        assert_eq!(["", "New", "InProgress"].map(of_phase), [Taken::NotYet, Taken::NotYet, Taken::NotYet]);
        assert_eq!(["Snapshotted", "Uploading", "UploadFailed"].map(of_phase), [Taken::Yes, Taken::Yes, Taken::Yes]);
        assert_eq!(of_phase("SnapshotFailed"), Taken::Never("SnapshotFailed: why".to_owned()));
    }

    #[test]
    fn only_an_upload_that_goes_on_can_be_cancelled() {
        assert!(["Completed", "Canceled", "UploadFailedAfterRetry"].iter().all(|phase| has_ended(&upload(phase, 0))));
        assert!(["New", "InProgress", "UploadError", "Canceling"].iter().all(|phase| !has_ended(&upload(phase, 0))));
    }
}

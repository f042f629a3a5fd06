//! Operations that go on after a call, steered by the annotation `example.velero.io/operation` (in a restore
//! `…/restore-operation`).
//!
//! | value | the operation |
//! |---|---|
//! | `takes=5s` | ends well after that time |
//! | `fails-after=5s` | ends with an error after that time |
//! | `progress-error` | cannot be asked about |
//! | `progress-hang` | never answers when asked about |
//! | `progress-crash` | ends the process when asked about |
//! | `never` | never ends |
//! | `cancel-fails` | never ends and cannot be cancelled |
//!
//! An operation must survive the process that started it. This one is written into its ID: when it began, what it does,
//! and for how long. A cancelled one leaves a mark in a folder (`VELERO_EXAMPLE_STATE`, or one below the temporary
//! folder).

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use velero_plugin::{Error, OperationProgress, Result};

use crate::behaviour::duration;

/// The units of every operation.
const TOTAL: i64 = 100;

/// An operation, as its ID tells.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Operation {
    started: Timestamp,
    course: Course,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Takes(Duration),
    FailsAfter(Duration),
    ProgressError,
    ProgressHang,
    ProgressCrash,
    Never,
    CancelFails,
}

impl Course {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "progress-error" => Self::ProgressError,
            "progress-hang" => Self::ProgressHang,
            "progress-crash" => Self::ProgressCrash,
            "never" => Self::Never,
            "cancel-fails" => Self::CancelFails,
            _ => match text.split_once('=')? {
                ("takes", time) => Self::Takes(duration(time)?),
                ("fails-after", time) => Self::FailsAfter(duration(time)?),
                _ => return None,
            },
        })
    }
}

/// Begins an operation with the course an annotation asks for, and gives its ID.
pub fn begin(course: &str) -> Result<String> {
    let unknown = || Error::Failed(format!("annotation operation: {course:?} is not a course of an operation"));
    Course::parse(course).ok_or_else(unknown)?;
    Ok(format!("{}/{course}/{}", Timestamp::now().as_millisecond(), uuid::Uuid::new_v4()))
}

/// How far an operation of that action is.
pub async fn progress(action: &str, operation_id: &str) -> Result<OperationProgress> {
    progress_of(action, operation_id, mark(operation_id).exists()).await
}

/// The same for who remembers itself whether the operation was cancelled.
#[expect(clippy::disallowed_methods, reason = "a crash cleans nothing up")]
pub async fn progress_of(action: &str, operation_id: &str, cancelled: bool) -> Result<OperationProgress> {
    let operation = find(action, operation_id)?;
    match operation.course {
        Course::ProgressError => return Err(Error::Failed("the item asked for progress to fail".to_owned())),
        Course::ProgressHang => std::future::pending().await,
        Course::ProgressCrash => std::process::exit(7),
        _ => {}
    }
    Ok(at(&operation, Timestamp::now(), cancelled))
}

/// Ends an operation.
pub fn cancel(action: &str, operation_id: &str) -> Result<()> {
    check_cancel(action, operation_id)?;
    let mark = mark(operation_id);
    let failed = |error: std::io::Error| Error::Failed(format!("{}: {error}", mark.display()));
    mark.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
    std::fs::write(&mark, "").map_err(failed)
}

/// Refuses to cancel an operation that cannot be cancelled.
pub fn check_cancel(action: &str, operation_id: &str) -> Result<()> {
    match find(action, operation_id)?.course {
        Course::CancelFails => Err(Error::Failed("the item asked for the cancellation to fail".to_owned())),
        _ => Ok(()),
    }
}

fn find(action: &str, operation_id: &str) -> Result<Operation> {
    let invalid = || Error::InvalidOperationId { action: action.to_owned(), operation_id: operation_id.to_owned() };
    let mut parts = operation_id.splitn(3, '/');
    let started = parts.next().and_then(|millis| millis.parse().ok());
    let started = started.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    let course = parts.next().and_then(Course::parse);
    Ok(Operation { started: started.ok_or_else(invalid)?, course: course.ok_or_else(invalid)? })
}

fn at(operation: &Operation, now: Timestamp, cancelled: bool) -> OperationProgress {
    let passed = Duration::try_from(now.duration_since(operation.started)).unwrap_or_default();
    let (time, error) = match operation.course {
        Course::Takes(time) => (Some(time), ""),
        Course::FailsAfter(time) => (Some(time), "the item asked for a failing operation"),
        _ => (None, ""),
    };
    let ended = time.is_some_and(|time| passed >= time);
    let done = time.map_or(0.0, |time| (passed.as_secs_f64() / time.as_secs_f64().max(f64::EPSILON)).min(1.0));
    let (completed, error) = match (ended, cancelled) {
        (true, _) => (true, error),
        (false, true) => (true, "the operation was cancelled"),
        (false, false) => (false, ""),
    };
    OperationProgress {
        completed,
        error: error.to_owned(),
        n_completed: (done * TOTAL as f64) as i64,
        n_total: TOTAL,
        operation_units: "Percent".to_owned(),
        description: if completed { "ended" } else { "going on" }.to_owned(),
        started: Some(operation.started),
        updated: Some(now),
    }
}

/// The file that marks an operation as cancelled.
fn mark(operation_id: &str) -> PathBuf {
    let state = std::env::var_os("VELERO_EXAMPLE_STATE").map(PathBuf::from);
    let state = state.unwrap_or_else(|| std::env::temp_dir().join("velero-plugin-example"));
    state.join("cancelled").join(operation_id.replace('/', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(course: Course) -> Operation {
        Operation { started: "2026-01-01T00:00:00Z".parse().unwrap(), course }
    }

    #[test]
    fn an_operation_is_read_from_its_id() {
        let id = begin("takes=3s").unwrap();
        assert_eq!(find("a", &id).unwrap().course, Course::Takes(Duration::from_secs(3)));
        for id in ["", "x", "1/what/x", "x/never/y"] {
            assert!(matches!(find("a", id), Err(Error::InvalidOperationId { .. })), "{id}");
        }
        assert!(begin("whatever").is_err());
    }

    #[test]
    fn an_operation_ends_in_its_time_and_way() {
        let seconds = Duration::from_secs;
        for (course, after, cancelled, completed, error, done) in [
            (Course::Takes(seconds(4)), 1, false, false, "", 25),
            (Course::Takes(seconds(4)), 4, false, true, "", 100),
            (Course::Takes(seconds(4)), 5, true, true, "", 100),
            (Course::FailsAfter(seconds(4)), 4, false, true, "the item asked for a failing operation", 100),
            (Course::Never, 400, false, false, "", 0),
            (Course::Never, 400, true, true, "the operation was cancelled", 0),
        ] {
            let operation = operation(course);
            let found = at(&operation, operation.started + seconds(after), cancelled);
            let expected = (completed, error, done);
            assert_eq!((found.completed, found.error.as_str(), found.n_completed), expected, "{course:?} {after}");
        }
    }
}

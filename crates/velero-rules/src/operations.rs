//! The life of an asynchronous operation, as seen by who waits for it.
//!
//! Whoever waits asks the action again and again and hands what it says to [`take_report`], which moves the record of
//! the operation on. Sums over all operations of a backup or restore are a [`Tally`].

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use velero_api::GoDuration;
use velero_api::records::{OperationPhase, OperationStatus};

/// What is said of an operation that took longer than it may.
pub const TIMED_OUT: &str = "Asynchronous action timed out";

/// What an action says about an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether it has ended.
    pub completed: bool,
    /// Why it failed; empty unless it did.
    pub error: String,
    /// Units done.
    pub n_completed: i64,
    /// Units to do.
    pub n_total: i64,
    /// What the units are.
    pub operation_units: String,
    /// What it is doing, in words.
    pub description: String,
    /// When it started, if it has.
    pub started: Option<Timestamp>,
    /// When there was last news of it.
    pub updated: Option<Timestamp>,
}

/// What a report means for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Running,
    /// It ended well.
    Completed,
    /// It ended badly; its record says why.
    Failed,
    /// It took too long: it counts as failed and is to be cancelled.
    TimedOut,
}

/// Why an action could not be asked about an operation, or does not know of it; the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

/// Takes what an action said about an operation, or why it could not be asked, into the record of the operation.
pub fn take_report(
    status: &mut OperationStatus,
    report: Result<Report, NoAnswer>,
    timeout: GoDuration,
    now: Timestamp,
) -> Verdict {
    let report = match report {
        Ok(report) => report,
        Err(NoAnswer(problem)) => return fail(status, problem, Verdict::Failed),
    };
    status.n_completed = report.n_completed;
    status.n_total = report.n_total;
    status.operation_units = report.operation_units;
    status.description = report.description;
    status.started = report.started.map(Time).or(status.started.take());
    status.updated = report.updated.map(Time).or(status.updated.take());
    match (report.completed, report.error) {
        (true, error) if !error.is_empty() => return fail(status, error, Verdict::Failed),
        (true, _) => {
            status.phase = Some(OperationPhase::Completed);
            return Verdict::Completed;
        }
        (false, _) => {}
    }
    if is_late(status, timeout, now) {
        return fail(status, TIMED_OUT.to_owned(), Verdict::TimedOut);
    }
    if *status.phase() == OperationPhase::New && status.started.is_some() {
        status.phase = Some(OperationPhase::InProgress);
    }
    Verdict::Running
}

fn fail(status: &mut OperationStatus, problem: String, verdict: Verdict) -> Verdict {
    status.phase = Some(OperationPhase::Failed);
    status.error = problem;
    verdict
}

/// Whether an operation that was recorded at some time has been running for longer than it may.
fn is_late(status: &OperationStatus, timeout: GoDuration, now: Timestamp) -> bool {
    let Some(created) = &status.created else { return false };
    let end = created.0.checked_add(SignedDuration::from_nanos(timeout.as_nanos()));
    end.is_ok_and(|end| end < now)
}

/// The error of an operation as the results tell it.
pub fn error_text(problem: &str, plugin: &str) -> String {
    match problem {
        "" => format!("plugin: {plugin}"),
        problem => format!("{problem}, plugin: {plugin}"),
    }
}

/// How many operations there are, and how they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them.
    pub attempted: i64,
    /// Those that ended well.
    pub completed: i64,
    /// Those that ended badly.
    pub failed: i64,
}

impl Tally {
    /// Counts operations.
    pub fn of<'a>(statuses: impl IntoIterator<Item = &'a OperationStatus>) -> Self {
        let mut tally = Self::default();
        for status in statuses {
            tally.attempted += 1;
            match status.phase() {
                OperationPhase::Completed => tally.completed += 1,
                OperationPhase::Failed => tally.failed += 1,
                _ => {}
            }
        }
        tally
    }

    /// How many have not ended.
    pub fn running(&self) -> i64 {
        self.attempted - self.completed - self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 43_200;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn recorded(phase: OperationPhase) -> OperationStatus {
        OperationStatus { phase: Some(phase), created: Some(Time(at(NOON))), ..Default::default() }
    }

    #[test]
    fn every_answer_moves_an_operation_where_it_belongs() {
        use OperationPhase::{Completed, Failed, InProgress, New};
        let started = Report { started: Some(at(NOON + 1)), ..Default::default() };
        let done = Report { completed: true, ..started.clone() };
        let broken = Report { error: "no space".to_owned(), ..done.clone() };
        let minute = GoDuration::from_mins(1);
        for (before, report, second, verdict, after, error) in [
            (New, Ok(Report::default()), 5, Verdict::Running, New, ""),
            (New, Ok(started.clone()), 5, Verdict::Running, InProgress, ""),
            (InProgress, Ok(started.clone()), 60, Verdict::Running, InProgress, ""),
            (InProgress, Ok(started), 61, Verdict::TimedOut, Failed, TIMED_OUT),
            (New, Ok(Report::default()), 61, Verdict::TimedOut, Failed, TIMED_OUT),
            // What has ended is not late, however late it is noticed.
            (New, Ok(done), 600, Verdict::Completed, Completed, ""),
            (InProgress, Ok(broken), 5, Verdict::Failed, Failed, "no space"),
            (InProgress, Err(NoAnswer("gone".to_owned())), 5, Verdict::Failed, Failed, "gone"),
        ] {
            let mut status = recorded(before.clone());
            let found = take_report(&mut status, report.clone(), minute, at(NOON + second));
            assert_eq!((found, status.phase(), status.error.as_str()), (verdict, &after, error), "{before} {report:?}");
        }
    }

    #[test]
    fn a_report_is_taken_over_and_a_time_that_was_known_is_kept() {
        let mut status = recorded(OperationPhase::New);
        let report = Report {
            n_completed: 3,
            n_total: 7,
            operation_units: "Bytes".to_owned(),
            description: "moving".to_owned(),
            started: Some(at(NOON)),
            updated: Some(at(NOON + 2)),
            ..Default::default()
        };
        take_report(&mut status, Ok(report), GoDuration::from_hours(1), at(NOON + 3));
        take_report(&mut status, Ok(Report { n_completed: 4, ..Default::default() }), GoDuration::ZERO, at(NOON));
        assert_eq!((status.n_completed, status.n_total), (4, 0));
        assert_eq!(status.started, Some(Time(at(NOON))));
        assert_eq!(status.updated, Some(Time(at(NOON + 2))));
        assert_eq!(*status.phase(), OperationPhase::InProgress);
    }

    #[test]
    fn an_error_names_its_plugin() {
        assert_eq!(error_text("no space", "a.io/b"), "no space, plugin: a.io/b");
        assert_eq!(error_text("", "a.io/b"), "plugin: a.io/b");
    }

    #[test]
    fn a_tally_counts_what_has_ended_and_what_has_not() {
        use OperationPhase::{Completed, Failed, InProgress, New};
        let all =
            [New, InProgress, Completed, Completed, Failed, OperationPhase::Unknown("x".to_owned())].map(recorded);
        let tally = Tally::of(&all);
        assert_eq!(tally, Tally { attempted: 6, completed: 2, failed: 1 });
        assert_eq!(tally.running(), 3);
    }
}

//! One round of questions about operations, without asking anybody: what the actions said goes in, what is to be done
//! comes out. `poll` asks.

use jiff::Timestamp;
use velero_api::GoDuration;
use velero_api::records::OperationStatus;
use velero_plugin::Error as PluginError;
use velero_rules::operations::{NoAnswer, Report, Verdict, take_report};

use crate::lifecycle::operation::Operation;

/// Why an action gave no report.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) text: String,
    pub(super) meaning: Meaning,
}

/// What it means for an operation that its action gave no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The process of the plugin may have died: it is asked once more.
    NoAnswer,
    /// The cluster could not be asked just now, so nothing is known of the operation. It goes on until its time is over.
    Unknown,
    /// Nobody can tell what became of it: it is given up.
    GivenUp,
    /// The action does not know it, or is gone itself: there is nobody who could cancel it.
    NotKnown,
}

impl Meaning {
    pub(super) fn of(error: &PluginError, is_quick: bool) -> Self {
        match error {
            PluginError::Cluster(error) if error.is_retryable() => Self::Unknown,
            PluginError::Call { .. } | PluginError::Binary { .. } if is_quick => Self::NoAnswer,
            PluginError::InvalidOperationId { .. }
            | PluginError::AsyncOperationsNotSupported { .. }
            | PluginError::NoSuchPlugin { .. } => Self::NotKnown,
            _ => Self::GivenUp,
        }
    }
}

/// What was said of the operation at a place.
pub(super) type Answer = (usize, Result<Report, Problem>);

/// What is to be done next in a round.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask about the operations at these places.
    Ask(Vec<usize>),
    /// Ask about these once more, a moment later: their plugins gave no answer, and may have died in the call.
    AskAgain(Vec<usize>),
    /// All is said.
    End {
        /// Those that have failed now.
        failed: Vec<usize>,
        /// Those among them that may go on though nobody waits for them: they are to be cancelled.
        given_up: Vec<usize>,
    },
}

/// A round over the operations of one backup or restore.
pub(super) struct Round<'a, O> {
    operations: &'a mut [O],
    timeout: GoDuration,
    /// What was said already where something is asked again.
    heard: Option<Vec<Answer>>,
}

impl<'a, O: Operation> Round<'a, O> {
    /// Begins a round over operations, of which none may take longer than `timeout`.
    pub(super) fn begin(operations: &'a mut [O], timeout: GoDuration) -> (Self, Step) {
        let running = (0..operations.len()).filter(|place| operations[*place].is_running()).collect();
        (Self { operations, timeout, heard: None }, Step::Ask(running))
    }

    pub(super) fn operations(&self) -> &[O] {
        self.operations
    }

    /// Takes answers; gives what is to be done then.
    pub(super) fn hear(&mut self, answers: Vec<Answer>, now: Timestamp) -> Step {
        if let Some(mut heard) = self.heard.take() {
            heard.extend(answers);
            return self.end(heard, now);
        }
        let is_unsure = |answer: &Answer| answer.1.as_ref().is_err_and(|problem| problem.meaning == Meaning::NoAnswer);
        let (unsure, heard): (Vec<Answer>, Vec<Answer>) = answers.into_iter().partition(is_unsure);
        if unsure.is_empty() {
            return self.end(heard, now);
        }
        self.heard = Some(heard);
        Step::AskAgain(unsure.into_iter().map(|(place, _)| place).collect())
    }

    /// Takes the answers into the records.
    fn end(&mut self, answers: Vec<Answer>, now: Timestamp) -> Step {
        let (mut failed, mut given_up) = (Vec::new(), Vec::new());
        for (place, answer) in answers {
            let status = self.operations[place].status_mut();
            let (answer, may_go_on) = match answer {
                Ok(report) => (Ok(report), false),
                Err(Problem { text, meaning: Meaning::Unknown }) => (Ok(as_before(status, &text)), false),
                Err(Problem { text, meaning }) => (Err(NoAnswer(text)), meaning != Meaning::NotKnown),
            };
            match take_report(status, answer, self.timeout, now) {
                Verdict::Running | Verdict::Completed => continue,
                Verdict::Failed if !may_go_on => {}
                Verdict::Failed | Verdict::TimedOut => given_up.push(place),
            }
            failed.push(place);
        }
        failed.sort_unstable();
        Step::End { failed, given_up }
    }
}

/// What is said of an operation of which nothing new is known.
fn as_before(status: &OperationStatus, problem: &str) -> Report {
    Report {
        n_completed: status.n_completed,
        n_total: status.n_total,
        operation_units: status.operation_units.clone(),
        description: format!("Not known at the moment: {problem}"),
        ..Report::default()
    }
}

/// Operations that were cancelled, until each has ended.
pub(super) struct Farewell {
    left: Vec<usize>,
    is_first: bool,
}

impl Farewell {
    /// Waits for a number of operations.
    pub(super) fn of(count: usize) -> Self {
        Self { left: (0..count).collect(), is_first: true }
    }

    /// Whether some have not ended.
    pub(super) fn goes_on(&self) -> bool {
        !self.left.is_empty()
    }

    /// The places of those that have not ended.
    pub(super) fn left(&self) -> Vec<usize> {
        self.left.clone()
    }

    /// Takes answers about those that are left. One whose plugin gave no answer is asked about once more; one of which
    /// nobody knows anything has ended.
    pub(super) fn hear(&mut self, answers: Vec<Answer>) {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let goes_on = |answer: &Result<Report, Problem>| match answer {
            Ok(report) => !report.completed,
            Err(problem) if problem.meaning == Meaning::NoAnswer => is_first,
            Err(problem) => problem.meaning == Meaning::Unknown,
        };
        self.left = answers.into_iter().filter(|(_, answer)| goes_on(answer)).map(|(place, _)| place).collect();
        self.left.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use velero_api::records::{BackupOperation, OperationPhase};

    use super::*;

    fn goes_on() -> Result<Report, Problem> {
        Ok(Report::default())
    }

    fn ended(error: &str) -> Result<Report, Problem> {
        Ok(Report { completed: true, error: error.to_owned(), ..Report::default() })
    }

    fn problem(meaning: Meaning) -> Result<Report, Problem> {
        Err(Problem { text: "no".to_owned(), meaning })
    }

    fn end(failed: &[usize], given_up: &[usize]) -> Step {
        Step::End { failed: failed.to_vec(), given_up: given_up.to_vec() }
    }

    #[test]
    fn a_round_ends_as_the_table_says() {
        use Meaning::{GivenUp, NoAnswer, NotKnown, Unknown};
        use OperationPhase::{Completed, Failed, New};
        type Said = Result<Report, Problem>;
        type Row = (Said, Option<Said>, Step, OperationPhase);
        let table: Vec<Row> = vec![
            (goes_on(), None, end(&[], &[]), New),
            (ended(""), None, end(&[], &[]), Completed),
            (ended("no space"), None, end(&[0], &[]), Failed),
            (problem(Unknown), None, end(&[], &[]), New),
            (problem(GivenUp), None, end(&[0], &[0]), Failed),
            (problem(NotKnown), None, end(&[0], &[]), Failed),
            (problem(NoAnswer), Some(ended("")), end(&[], &[]), Completed),
            (problem(NoAnswer), Some(problem(NoAnswer)), end(&[0], &[0]), Failed),
            (problem(NoAnswer), Some(problem(Unknown)), end(&[], &[]), New),
        ];
        for (first, second, expected, phase) in table {
            let said = format!("{first:?} {second:?}");
            let mut operations = [BackupOperation::default()];
            let (mut round, step) = Round::begin(&mut operations, GoDuration::from_hours(1));
            assert_eq!(step, Step::Ask(vec![0]), "{said}");
            let mut step = round.hear(vec![(0, first)], Timestamp::UNIX_EPOCH);
            if let Some(second) = second {
                assert_eq!(step, Step::AskAgain(vec![0]), "{said}");
                step = round.hear(vec![(0, second)], Timestamp::UNIX_EPOCH);
            }
            assert_eq!(step, expected, "{said}");
            assert_eq!(*operations[0].status.phase(), phase, "{said}");
        }
    }

    #[test]
    fn only_what_runs_is_asked_about_and_what_was_said_is_kept_while_others_are_asked_again() {
        let mut operations = [(); 4].map(|()| BackupOperation::default());
        operations[1].status.phase = Some(OperationPhase::Completed);
        let (mut round, step) = Round::begin(&mut operations, GoDuration::from_hours(1));
        assert_eq!(step, Step::Ask(vec![0, 2, 3]));
        let answers = vec![(3, ended("late")), (0, problem(Meaning::NoAnswer)), (2, ended(""))];
        assert_eq!(round.hear(answers, Timestamp::UNIX_EPOCH), Step::AskAgain(vec![0]));
        assert_eq!(round.hear(vec![(0, ended("bad"))], Timestamp::UNIX_EPOCH), end(&[0, 3], &[]));
    }

    #[test]
    fn what_was_cancelled_is_waited_for_while_somebody_may_know_of_it() {
        use Meaning::{GivenUp, NoAnswer, NotKnown, Unknown};
        let mut farewell = Farewell::of(6);
        let answers = vec![
            (5, goes_on()),
            (0, ended("")),
            (1, problem(NoAnswer)),
            (2, problem(Unknown)),
            (3, problem(GivenUp)),
            (4, problem(NotKnown)),
        ];
        farewell.hear(answers);
        assert_eq!(farewell.left(), [1, 2, 5]);
        farewell.hear(vec![(1, problem(NoAnswer)), (2, problem(Unknown)), (5, ended(""))]);
        assert_eq!(farewell.left(), [2]);
        farewell.hear(vec![(2, ended("cancelled"))]);
        assert!(!farewell.goes_on());
    }
}

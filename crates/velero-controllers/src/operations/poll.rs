//! Asks the actions how far their operations are.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use tokio::time::Instant;
use velero_api::GoDuration;
use velero_engine::Journal;
use velero_plugin::{Actions, Error as PluginError, OperationProgress};
use velero_rules::operations::{Report, Verdict, error_text, take_report};

use super::Operation;
use super::cancel::cancel_all;
use crate::clock;
use crate::error::describe;

/// How many operations are asked about at the same time.
const AT_ONCE: usize = 32;

/// How long an action may take to answer. Plugins have a deadline of their own below this.
const PATIENCE: Duration = Duration::from_secs(90);

/// An error that comes sooner than this may be that of a process that died.
const QUICK: Duration = Duration::from_secs(10);

/// How long to wait before asking again where a plugin gave no answer: its process may have died in the call, and is
/// started again by the next one.
const BEFORE_ASKING_AGAIN: Duration = Duration::from_secs(1);

/// Why an action gave no report.
struct Problem {
    text: String,
    /// Whether it may be another one the next time.
    may_pass: bool,
}

type Answer = (usize, Result<Report, Problem>);

/// Asks about all operations that go on; gives the places of those that have failed now. One that takes too long is
/// cancelled and counts as failed.
pub(crate) fn poll<'a, O: Operation>(
    operations: &'a mut [O],
    actions: &'a Actions,
    owner: &'a O::Owner,
    default_timeout: GoDuration,
) -> BoxFuture<'a, Vec<usize>> {
    let timeout = O::timeout(owner).or(default_timeout);
    async move {
        let running: Vec<usize> = (0..operations.len()).filter(|place| operations[*place].is_running()).collect();
        let mut answers = ask_all(operations, running, actions, owner).await;
        let unsure =
            |(place, answer): &Answer| answer.as_ref().is_err_and(|problem| problem.may_pass).then_some(*place);
        let again: Vec<usize> = answers.iter().filter_map(unsure).collect();
        if !again.is_empty() {
            tokio::time::sleep(BEFORE_ASKING_AGAIN).await;
            answers.retain(|answer| unsure(answer).is_none());
            answers.extend(ask_all(operations, again, actions, owner).await);
        }
        let (failed, late) = take_all(operations, answers, timeout);
        cancel_all(late.iter().map(|place| &operations[*place]), actions, owner).await;
        failed
    }
    .boxed()
}

fn ask_all<'a, O: Operation>(
    operations: &'a [O],
    places: Vec<usize>,
    actions: &'a Actions,
    owner: &'a O::Owner,
) -> BoxFuture<'a, Vec<Answer>> {
    let mut asked: Vec<BoxFuture<'a, Answer>> = Vec::with_capacity(places.len());
    for place in places {
        let operation = &operations[place];
        asked.push(async move { (place, ask(operation, actions, owner).await) }.boxed());
    }
    stream::iter(asked).buffer_unordered(AT_ONCE).collect().boxed()
}

async fn ask<O: Operation>(operation: &O, actions: &Actions, owner: &O::Owner) -> Result<Report, Problem> {
    let begun = Instant::now();
    match tokio::time::timeout(PATIENCE, operation.ask(actions, owner)).await {
        Ok(Ok(progress)) => Ok(report(progress)),
        Ok(Err(error)) => {
            let of_process = matches!(error, PluginError::Call { .. } | PluginError::Binary { .. });
            Err(Problem { text: describe(&error), may_pass: of_process && begun.elapsed() < QUICK })
        }
        Err(_) => {
            let text = format!("the action did not say within {PATIENCE:?} how far operation {} is", operation.id());
            Err(Problem { text, may_pass: false })
        }
    }
}

/// Takes the answers into the records; gives the places of those that failed, and of those among them that are late.
fn take_all<O: Operation>(operations: &mut [O], answers: Vec<Answer>, timeout: GoDuration) -> (Vec<usize>, Vec<usize>) {
    let (mut failed, mut late) = (Vec::new(), Vec::new());
    for (place, answer) in answers {
        let answer = answer.map_err(|problem| problem.text);
        match take_report(operations[place].status_mut(), answer, timeout, clock::now()) {
            Verdict::Running | Verdict::Completed => {}
            Verdict::Failed => failed.push(place),
            Verdict::TimedOut => {
                failed.push(place);
                late.push(place);
            }
        }
    }
    failed.sort_unstable();
    (failed, late)
}

fn report(progress: OperationProgress) -> Report {
    Report {
        completed: progress.completed,
        error: progress.error,
        n_completed: progress.n_completed,
        n_total: progress.n_total,
        operation_units: progress.operation_units,
        description: progress.description,
        started: progress.started,
        updated: progress.updated,
    }
}

/// Tells the journal of operations that have failed: one error each.
pub(crate) fn note_failures<'a, O: Operation>(journal: &Journal, failed: impl IntoIterator<Item = &'a O>) {
    for operation in failed {
        let item = operation.item();
        let (resource, text) = (item.group_resource(), error_text(&operation.status().error, operation.action()));
        let entry = journal.error().object(&resource, Some(&item.namespace), &item.name);
        entry.field("operationID", operation.id()).message(&text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use serde_json::Value;
    use velero_api::records::BackupOperation;
    use velero_api::v1::Backup;
    use velero_engine::journal::{Level, LogFormat};
    use velero_plugin::{ActionSource, BackupItemAction, BackupItemOutcome, ResourceSelector, Result};
    use velero_rules::operations::Tally;

    use super::*;

    /// Ends every operation but each tenth, which fails, and counts the questions.
    #[derive(Clone, Default)]
    struct Counting(Arc<AtomicUsize>);

    #[async_trait]
    impl BackupItemAction for Counting {
        fn name(&self) -> &str {
            "test.velero.io/counting"
        }

        async fn applies_to(&self) -> Result<ResourceSelector> {
            Ok(ResourceSelector::default())
        }

        async fn execute(&self, _: &Value, _: &Backup) -> Result<BackupItemOutcome> {
            Ok(BackupItemOutcome::default())
        }

        async fn progress(&self, id: &str, _: &Backup) -> Result<OperationProgress> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let error = if id.ends_with('0') { "no space".to_owned() } else { String::new() };
            Ok(OperationProgress { completed: true, error, ..OperationProgress::default() })
        }
    }

    fn operation(action: &str, id: &str) -> BackupOperation {
        let mut operation = BackupOperation::default();
        operation.spec.backup_item_action = action.to_owned();
        operation.spec.operation_id = id.to_owned();
        operation.spec.resource_identifier.namespace = "shop".to_owned();
        operation
    }

    #[tokio::test]
    async fn ten_thousand_operations_are_asked_about_once_and_each_failure_is_one_error() {
        let counting = Counting::default();
        let source = ActionSource { backup_item: vec![Arc::new(counting.clone())], ..ActionSource::default() };
        let actions = Actions::from_source(source).unwrap();
        let backup = Backup::new("velero", "b", Default::default());
        let mut operations: Vec<_> =
            (0..10_000).map(|number| operation("test.velero.io/counting", &number.to_string())).collect();
        let failed = poll(&mut operations, &actions, &backup, GoDuration::from_hours(1)).await;
        assert_eq!(failed.len(), 1000);
        let tally = Tally::of(operations.iter().map(Operation::status));
        assert_eq!(tally, Tally { attempted: 10_000, completed: 9000, failed: 1000 });
        assert!(poll(&mut operations, &actions, &backup, GoDuration::from_hours(1)).await.is_empty());
        assert_eq!(counting.0.load(Ordering::Relaxed), 10_000, "what has ended is not asked about");
        let journal = Journal::for_backup("velero", "b", LogFormat::Text, Level::Info);
        note_failures(&journal, failed.iter().map(|place| &operations[*place]));
        assert_eq!(journal.counts().errors, 1000);
        let text = &journal.results().errors.namespaces["shop"][0];
        assert!(text.contains("no space, plugin: test.velero.io/counting"), "{text}");
    }

    #[tokio::test]
    async fn an_operation_whose_plugin_is_gone_fails_and_says_so() {
        let mut operations = [operation("gone.io/action", "1")];
        let backup = Backup::new("velero", "b", Default::default());
        let failed = poll(&mut operations, &Actions::default(), &backup, GoDuration::from_hours(1)).await;
        assert_eq!(failed, [0]);
        let error = &operations[0].status.error;
        assert!(error.contains("gone.io/action") && error.contains("velero plugin add"), "{error}");
    }
}

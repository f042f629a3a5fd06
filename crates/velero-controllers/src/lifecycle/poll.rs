//! Asks the actions how far their operations are.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use tokio::time::Instant;
use velero_api::GoDuration;
use velero_api::metadata::name;
use velero_cluster::ItemRef;
use velero_engine::Journal;
use velero_plugin::{Actions, OperationProgress};
use velero_rules::operations::{Report, error_text};

use crate::lifecycle::cancel::cancel_all;
use crate::lifecycle::operation::Operation;
use crate::lifecycle::round::{Answer, Farewell, Meaning, Problem, Round, Step};
use crate::runtime::clock;
use crate::runtime::error::describe;

/// How many operations are asked about at the same time.
const AT_ONCE: usize = 32;

/// How long an action may take to answer. Plugins have a deadline of their own below this.
const PATIENCE: Duration = Duration::from_secs(90);

/// An error that comes sooner than this may be that of a process that died.
const QUICK: Duration = Duration::from_secs(10);

/// How long to wait before asking again where a plugin gave no answer: its process may have died in the call, and is
/// started again by the next one.
const BEFORE_ASKING_AGAIN: Duration = Duration::from_secs(1);

/// How long operations may take to end after they were cancelled.
const ENDING: Duration = Duration::from_secs(30);

/// Asks about all operations that go on; gives the places of those that have failed now. One that takes too long, or of
/// which nobody can tell any more how far it is, counts as failed and is cancelled.
pub(crate) fn poll<'a, O: Operation>(
    operations: &'a mut [O],
    actions: &'a Actions,
    owner: &'a O::Owner,
    default_timeout: GoDuration,
) -> BoxFuture<'a, Vec<usize>> {
    let timeout = O::timeout(owner).or(default_timeout);
    async move {
        let (mut round, mut step) = Round::begin(operations, timeout);
        loop {
            let answers = match step {
                Step::Ask(places) => ask_all(round.operations(), places, actions, owner).await,
                Step::AskAgain(places) => {
                    tokio::time::sleep(BEFORE_ASKING_AGAIN).await;
                    ask_all(round.operations(), places, actions, owner).await
                }
                Step::End { failed, given_up } => {
                    let given_up = given_up.iter().filter_map(|place| round.operations().get(*place));
                    cancel_all(given_up, actions, owner).await;
                    return failed;
                }
            };
            step = round.hear(answers, clock::now());
        }
    }
    .boxed()
}

/// Waits until operations that were cancelled have ended, but not for ever: what they work on is about to go.
pub(crate) fn until_ended<'a, O: Operation>(
    operations: Vec<O>,
    actions: &'a Actions,
    owner: &'a O::Owner,
) -> BoxFuture<'a, ()> {
    async move {
        let deadline = Instant::now() + ENDING;
        let mut farewell = Farewell::of(operations.len());
        while farewell.goes_on() {
            let asked = ask_all(&operations, farewell.left(), actions, owner);
            let Ok(answers) = tokio::time::timeout_at(deadline, asked).await else { break };
            farewell.hear(answers);
            if Instant::now() >= deadline {
                break;
            }
            if farewell.goes_on() {
                tokio::time::sleep(BEFORE_ASKING_AGAIN).await;
            }
        }
        if farewell.goes_on() {
            let operations = farewell.left().len();
            tracing::warn!(owner = name(owner), operations, "Operations go on {ENDING:?} after they were cancelled");
        }
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
            let meaning = Meaning::of(&error, begun.elapsed() < QUICK);
            Err(Problem { text: describe(&error), meaning })
        }
        Err(_) => {
            let text = format!("the action did not say within {PATIENCE:?} how far operation {} is", operation.id());
            Err(Problem { text, meaning: Meaning::GivenUp })
        }
    }
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
        let entry = journal.error().item(ItemRef::new(resource.as_str(), Some(&item.namespace), &item.name));
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
    use velero_plugin::{
        ActionSource, BackupItemAction, BackupItemOutcome, Error as PluginError, ResourceSelector, Result,
    };
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

    /// Gives the answers of a table, one an operation, and remembers what is cancelled.
    #[derive(Default)]
    struct Troubled(std::sync::Mutex<Vec<String>>);

    #[async_trait]
    impl BackupItemAction for Troubled {
        fn name(&self) -> &str {
            "test.velero.io/troubled"
        }

        async fn applies_to(&self) -> Result<ResourceSelector> {
            Ok(ResourceSelector::default())
        }

        async fn execute(&self, _: &Value, _: &Backup) -> Result<BackupItemOutcome> {
            Ok(BackupItemOutcome::default())
        }

        async fn progress(&self, id: &str, _: &Backup) -> Result<OperationProgress> {
            let refused = |reason: &str, code| {
                let status = kube::core::Status::failure("no", reason).with_code(code);
                Err(PluginError::Cluster(velero_cluster::Error::from_status("get volumesnapshots", status)))
            };
            match id {
                "unavailable" => refused("ServiceUnavailable", 503),
                "forbidden" => refused("Forbidden", 403),
                "failed" => Err(PluginError::Failed("broken".to_owned())),
                _ => {
                    Err(PluginError::InvalidOperationId { action: self.name().to_owned(), operation_id: id.to_owned() })
                }
            }
        }

        async fn cancel(&self, id: &str, _: &Backup) -> Result<()> {
            self.0.lock().unwrap().push(id.to_owned());
            Ok(())
        }
    }

    #[tokio::test]
    async fn what_cannot_be_asked_just_now_goes_on_and_what_is_given_up_is_cancelled() {
        let troubled = Arc::new(Troubled::default());
        let source = ActionSource { backup_item: vec![troubled.clone()], ..ActionSource::default() };
        let actions = Actions::from_source(source).unwrap();
        let backup = Backup::new("velero", "b", Default::default());
        let names = ["unavailable", "forbidden", "failed", "unknown"];
        let mut operations = names.map(|id| operation("test.velero.io/troubled", id));
        operations[0].status.n_completed = 7;
        let failed = poll(&mut operations, &actions, &backup, GoDuration::from_hours(1)).await;
        assert_eq!(failed, [1, 2, 3]);
        let unknown = &operations[0].status;
        assert!(operations[0].is_running() && unknown.n_completed == 7, "{unknown:?}");
        assert!(unknown.description.contains("status 503"), "{unknown:?}");
        let mut cancelled = troubled.0.lock().unwrap().clone();
        cancelled.sort();
        assert_eq!(cancelled, ["failed", "forbidden"]);
        // Its time ends all the same, and then it is cancelled.
        let created = clock::now() - jiff::SignedDuration::from_hours(2);
        operations[0].status.created = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created));
        assert_eq!(poll(&mut operations, &actions, &backup, GoDuration::from_hours(1)).await, [0]);
        assert!(troubled.0.lock().unwrap().contains(&"unavailable".to_owned()));
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

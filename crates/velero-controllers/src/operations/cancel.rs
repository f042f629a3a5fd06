//! Tells the actions that nobody waits for their operations any more.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use velero_plugin::Actions;

use super::{Files, Kept, Operation};
use crate::context::Context;
use crate::error::{Result, describe};
use crate::objects::name;

/// How many operations are cancelled at the same time.
const AT_ONCE: usize = 32;

/// How long an action may take to cancel one operation.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long all operations of a backup or restore may take to be cancelled. A deletion goes on after that.
const ALL_PATIENCE: Duration = Duration::from_secs(30);

/// Cancels all operations that go on. What cannot be cancelled is told in the log and does not stop anybody.
pub(crate) fn cancel_unfinished<'a, O: Operation>(
    operations: &'a [O],
    actions: &'a Actions,
    owner: &'a O::Owner,
) -> BoxFuture<'a, ()> {
    cancel_all(operations.iter().filter(|operation| operation.is_running()), actions, owner)
}

/// Cancels the operations of an owner that nobody waits for any more: those known in this process, or else those in its
/// files. Gives those that went on. An error says that they cannot be told; then nothing is forgotten.
pub(crate) async fn cancel_owned<O: Operation>(
    context: &Context,
    kept: &Kept<O>,
    owner: &O::Owner,
    files: Option<Files<'_>>,
) -> Result<Vec<O>> {
    let questions = context.plugins.for_questions()?;
    let mut operations = match (kept.forget(name(owner)), files) {
        (Some(known), _) => known,
        // Without a file, or with a broken one, there is nothing that could be cancelled.
        (None, Some(files)) => files.operations().await?.unwrap_or_default(),
        (None, None) => return Ok(Vec::new()),
    };
    operations.retain(Operation::is_running);
    cancel_unfinished(&operations, &questions.actions, owner).await;
    drop(questions);
    context.rest_plugins().await;
    Ok(operations)
}

/// Cancels operations.
pub(super) fn cancel_all<'a, O: Operation>(
    operations: impl Iterator<Item = &'a O>,
    actions: &'a Actions,
    owner: &'a O::Owner,
) -> BoxFuture<'a, ()> {
    let asked: Vec<BoxFuture<'a, ()>> = operations.map(|operation| cancel(operation, actions, owner).boxed()).collect();
    async move {
        if asked.is_empty() {
            return;
        }
        tracing::info!(owner = name(owner), operations = asked.len(), "Cancelling operations that nobody waits for");
        let all = stream::iter(asked).buffer_unordered(AT_ONCE).collect::<Vec<()>>();
        if tokio::time::timeout(ALL_PATIENCE, all).await.is_err() {
            tracing::warn!(owner = name(owner), "Not all operations could be cancelled within {ALL_PATIENCE:?}");
        }
    }
    .boxed()
}

/// Cancels one operation.
async fn cancel<O: Operation>(operation: &O, actions: &Actions, owner: &O::Owner) {
    let (owner_name, operation_id, plugin) = (name(owner), operation.id(), operation.action());
    let problem = match tokio::time::timeout(PATIENCE, operation.cancel(actions, owner)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => describe(&error),
        Err(_) => format!("the action did not answer within {PATIENCE:?}"),
    };
    tracing::warn!(
        owner = owner_name,
        operation = operation_id,
        plugin,
        error = problem,
        "An operation could not be cancelled"
    );
}

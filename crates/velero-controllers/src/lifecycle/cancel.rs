//! Tells the actions that nobody waits for their operations any more.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use velero_api::metadata::name;
use velero_plugin::Actions;
use velero_store::BackupStore;

use crate::lifecycle::kind::Kind;
use crate::lifecycle::operation::Operation;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};

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

/// Cancels the operations of a backup or restore that nobody waits for any more: those known in this process, or else
/// those in its files. What goes on beside them ends too. What cannot be cancelled is told in the log.
pub(crate) async fn cancel_owned<K: Kind>(context: &Context, owner: &K, store: Option<&BackupStore>) {
    if let Err(error) = try_cancel_owned(context, owner, store).await {
        let (kind, name) = (K::KIND, name(owner));
        tracing::warn!(kind, name, error = describe(&error), "Operations are not cancelled");
    }
}

/// The same for who tries again until it works; gives the operations that went on. An error says that they cannot be
/// told; then nothing is forgotten.
pub(crate) async fn try_cancel_owned<K: Kind>(
    context: &Context,
    owner: &K,
    store: Option<&BackupStore>,
) -> Result<Vec<K::Operation>> {
    owner.let_go(context);
    let questions = context.plugins.for_questions()?;
    let mut operations = match (K::in_hand(context).operations.forget(name(owner)), store) {
        (Some(known), _) => known,
        // Without a file, or with a broken one, there is nothing that could be cancelled.
        (None, Some(store)) => owner.files(store).readable_operations().await?,
        (None, None) => return Ok(Vec::new()),
    };
    operations.retain(Operation::is_running);
    cancel_unfinished(&operations, &questions.actions, owner).await;
    drop(questions);
    context.rest_plugins().await;
    Ok(operations)
}

/// Cancels operations.
pub(crate) fn cancel_all<'a, O: Operation>(
    operations: impl Iterator<Item = &'a O>,
    actions: &'a Actions,
    owner: &'a O::Owner,
) -> BoxFuture<'a, ()> {
    let asked: Vec<BoxFuture<'a, ()>> =
        operations.map(|operation| cancel_one(operation, actions, owner).boxed()).collect();
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
async fn cancel_one<O: Operation>(operation: &O, actions: &Actions, owner: &O::Owner) {
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

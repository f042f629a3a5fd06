//! Remembers what actions start while a backup or restore runs.
//!
//! The engine tells its operations when it is done. One that fails before, or is stopped, tells nothing; then this
//! record says what is to be cancelled. It is stored as it grows: the next server cancels for one that was killed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use velero_api::records::{ResourceIdentifier, VolumeMethod};
use velero_api::v1::{Backup, Restore};
use velero_plugin::{
    ActionSource, Actions, BackupItemAction, BackupItemOutcome, OperationProgress, ResourceSelector, RestoreItemAction,
    RestoreItemInput, RestoreItemOutcome, Result,
};

use crate::lifecycle::files::Files;
use crate::lifecycle::operation::Operation;
use crate::runtime::error::describe;

/// How long it is at least from one storing of the record to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// The operations that were started, by action and ID. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Started {
    found: watch::Sender<Vec<(String, String)>>,
}

impl Started {
    /// The same actions, whose operations are remembered here.
    pub(crate) fn watch(&self, actions: &Actions) -> Result<Actions> {
        let mut watched = Actions::default();
        let mut add = |source: ActionSource| watched.append(Actions::from_source(source)?);
        for action in actions.backup_item() {
            let action = Watched { action: Arc::clone(action), started: self.clone() };
            add(ActionSource { backup_item: vec![Arc::new(action)], ..ActionSource::default() })?;
        }
        for action in actions.restore_item() {
            let action = Watched { action: Arc::clone(action), started: self.clone() };
            add(ActionSource { restore_item: vec![Arc::new(action)], ..ActionSource::default() })?;
        }
        for action in actions.item_block() {
            add(ActionSource { item_block: vec![Arc::clone(action)], ..ActionSource::default() })?;
        }
        for action in actions.delete_item() {
            add(ActionSource { delete_item: vec![Arc::clone(action)], ..ActionSource::default() })?;
        }
        Ok(watched.with_snapshotters(actions.snapshotters().cloned()))
    }

    /// What was started, as operations.
    pub(crate) fn operations<O: Operation>(&self) -> Vec<O> {
        self.found().into_iter().map(|(action, id)| O::begun(action, id)).collect()
    }

    /// Stores what was started whenever that is more than before, until `done`. The whole file comes after that.
    pub(crate) async fn keep_stored<O: Operation>(&self, files: Files<'_>, done: &CancellationToken) {
        let put = || async { files.put_operations(&self.operations::<O>()).await };
        keep_stored("Operations that were started", self.found.subscribe(), done, put).await;
    }

    fn found(&self) -> Vec<(String, String)> {
        self.found.borrow().clone()
    }

    fn note(&self, action: &str, id: Option<&String>) {
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            self.found.send_modify(|found| found.push((action.to_owned(), id.clone())));
        }
    }
}

/// Stores something again whenever it has changed, until `done`: what a killed server leaves, the next one finds.
pub(crate) async fn keep_stored<T, E: std::error::Error, F: Future<Output = Result<(), E>>>(
    what: &str,
    mut news: watch::Receiver<T>,
    done: &CancellationToken,
    put: impl Fn() -> F,
) {
    while let Some(Ok(())) = done.run_until_cancelled(news.changed()).await {
        if let Err(error) = put().await {
            tracing::warn!(what, error = describe(&error), "Not stored yet");
        }
        done.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
    }
}

/// An action whose operations are remembered.
struct Watched<A: ?Sized> {
    action: Arc<A>,
    started: Started,
}

#[async_trait]
impl BackupItemAction for Watched<dyn BackupItemAction> {
    fn name(&self) -> &str {
        self.action.name()
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        self.action.applies_to().await
    }

    fn needs_feature(&self) -> Option<&str> {
        self.action.needs_feature()
    }

    fn saves_volume(&self) -> Option<VolumeMethod> {
        self.action.saves_volume()
    }

    fn waits(&self) -> bool {
        self.action.waits()
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        let outcome = self.action.execute(item, backup).await?;
        self.started.note(self.name(), outcome.operation_id.as_ref());
        Ok(outcome)
    }

    async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress> {
        self.action.progress(operation_id, backup).await
    }

    async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<()> {
        self.action.cancel(operation_id, backup).await
    }
}

#[async_trait]
impl RestoreItemAction for Watched<dyn RestoreItemAction> {
    fn name(&self) -> &str {
        self.action.name()
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        self.action.applies_to().await
    }

    fn needs_feature(&self) -> Option<&str> {
        self.action.needs_feature()
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let outcome = self.action.execute(input).await?;
        self.started.note(self.name(), outcome.operation_id.as_ref());
        Ok(outcome)
    }

    async fn progress(&self, operation_id: &str, restore: &Restore) -> Result<OperationProgress> {
        self.action.progress(operation_id, restore).await
    }

    async fn cancel(&self, operation_id: &str, restore: &Restore) -> Result<()> {
        self.action.cancel(operation_id, restore).await
    }

    async fn are_additional_items_ready(&self, items: &[ResourceIdentifier], restore: &Restore) -> Result<bool> {
        self.action.are_additional_items_ready(items, restore).await
    }
}

//! Asynchronous operations: what backups and restores wait for after their own work is done.
//!
//! ```text
//! started ── what actions start while a backup or restore runs, so that a failure can cancel it
//! poll ── asks the actions how far their operations are
//! kept ── the operations of those that wait, in memory; the file in the bucket is the truth
//! files ── that file, and the results and log that grow with it
//! cancel ── tells the actions that nobody waits any more
//! ```
//!
//! Every failed operation is one error. The file of operations is written first, then results and log, then the
//! object, whose counters say which failures are told already: a server that is stopped in between tells the rest.

mod cancel;
mod files;
mod kept;
mod poll;
mod started;

use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use velero_api::GoDuration;
use velero_api::records::{BackupOperation, OperationStatus, ResourceIdentifier, RestoreOperation};
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, Restore};
use velero_plugin::{
    Actions, BackupItemAction, Error as PluginError, OperationProgress, RestoreItemAction, Result as PluginResult,
};

pub(crate) use cancel::{cancel_owned, cancel_unfinished};
pub(crate) use files::Files;
pub(crate) use kept::Kept;
pub(crate) use poll::{note_failures, poll, until_ended};
pub(crate) use started::{Started, keep_stored};

/// An operation of a backup or of a restore.
pub(crate) trait Operation: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What waits for it.
    type Owner: VeleroResource + Sync;

    /// The action that started it.
    fn action(&self) -> &str;
    /// The identity the action gave it.
    fn id(&self) -> &str;
    /// The object it is for.
    fn item(&self) -> &ResourceIdentifier;
    /// How it goes.
    fn status(&self) -> &OperationStatus;
    /// How it goes, to be changed.
    fn status_mut(&mut self) -> &mut OperationStatus;
    /// How long it may take.
    fn timeout(owner: &Self::Owner) -> GoDuration;
    /// Asks its action how far it is.
    fn ask(
        &self,
        actions: &Actions,
        owner: &Self::Owner,
    ) -> impl Future<Output = PluginResult<OperationProgress>> + Send;
    /// Asks its action to end it.
    fn cancel(&self, actions: &Actions, owner: &Self::Owner) -> impl Future<Output = PluginResult<()>> + Send;

    /// Whether it goes on.
    fn is_running(&self) -> bool {
        !self.status().phase().is_terminal()
    }
}

impl Operation for BackupOperation {
    type Owner = Backup;

    fn action(&self) -> &str {
        &self.spec.backup_item_action
    }

    fn id(&self) -> &str {
        &self.spec.operation_id
    }

    fn item(&self) -> &ResourceIdentifier {
        &self.spec.resource_identifier
    }

    fn status(&self) -> &OperationStatus {
        &self.status
    }

    fn status_mut(&mut self) -> &mut OperationStatus {
        &mut self.status
    }

    fn timeout(owner: &Backup) -> GoDuration {
        owner.spec.item_operation_timeout
    }

    async fn ask(&self, actions: &Actions, owner: &Backup) -> PluginResult<OperationProgress> {
        if let Some(location) = snapshot_location(self) {
            return actions.volume_snapshotter(location).await?.progress(self.id()).await;
        }
        backup_item_action(actions, self.action())?.progress(self.id(), owner).await
    }

    async fn cancel(&self, actions: &Actions, owner: &Backup) -> PluginResult<()> {
        if let Some(location) = snapshot_location(self) {
            return actions.volume_snapshotter(location).await?.cancel(self.id()).await;
        }
        backup_item_action(actions, self.action())?.cancel(self.id(), owner).await
    }
}

impl Operation for RestoreOperation {
    type Owner = Restore;

    fn action(&self) -> &str {
        &self.spec.restore_item_action
    }

    fn id(&self) -> &str {
        &self.spec.operation_id
    }

    fn item(&self) -> &ResourceIdentifier {
        &self.spec.resource_identifier
    }

    fn status(&self) -> &OperationStatus {
        &self.status
    }

    fn status_mut(&mut self) -> &mut OperationStatus {
        &mut self.status
    }

    fn timeout(owner: &Restore) -> GoDuration {
        owner.spec.item_operation_timeout
    }

    async fn ask(&self, actions: &Actions, owner: &Restore) -> PluginResult<OperationProgress> {
        restore_item_action(actions, self.action())?.progress(self.id(), owner).await
    }

    async fn cancel(&self, actions: &Actions, owner: &Restore) -> PluginResult<()> {
        restore_item_action(actions, self.action())?.cancel(self.id(), owner).await
    }
}

/// The location of the snapshot whose upload an operation is.
fn snapshot_location(operation: &BackupOperation) -> Option<&str> {
    Some(operation.spec.volume_snapshot_location.as_str()).filter(|location| !location.is_empty())
}

fn backup_item_action<'a>(actions: &'a Actions, name: &str) -> PluginResult<&'a Arc<dyn BackupItemAction>> {
    let known = actions.backup_item().iter().map(|action| action.name());
    actions.backup_item_action(name).ok_or_else(|| missing("BackupItemAction", name, known))
}

fn restore_item_action<'a>(actions: &'a Actions, name: &str) -> PluginResult<&'a Arc<dyn RestoreItemAction>> {
    let known = actions.restore_item().iter().map(|action| action.name());
    actions.restore_item_action(name).ok_or_else(|| missing("RestoreItemAction", name, known))
}

/// What to say when the plugin of an operation is gone.
fn missing<'a>(kind: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> PluginError {
    PluginError::NoSuchPlugin { kind, name: name.to_owned(), known: known.collect::<Vec<_>>().join(", ") }
}

//! Asynchronous operations: what actions start and backups and restores wait for after their own work is done.

use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use velero_api::GoDuration;
use velero_api::records::{BackupOperation, OperationPhase, OperationStatus, ResourceIdentifier, RestoreOperation};
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, Restore};
use velero_plugin::{
    Actions, BackupItemAction, Error as PluginError, OperationProgress, RestoreItemAction, Result as PluginResult,
};
use velero_rules::operations::Tally;

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

    /// Whether it has ended badly.
    fn has_failed(&self) -> bool {
        *self.status().phase() == OperationPhase::Failed
    }

    /// Whether it goes on.
    fn is_running(&self) -> bool {
        !self.status().phase().is_terminal()
    }
}

/// The parts of [`Operation`] that differ in names of fields alone.
macro_rules! common {
    ($owner:ident, $action:ident) => {
        type Owner = $owner;

        fn action(&self) -> &str {
            &self.spec.$action
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

        fn timeout(owner: &$owner) -> GoDuration {
            owner.spec.item_operation_timeout
        }
    };
}

impl Operation for BackupOperation {
    common!(Backup, backup_item_action);

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
    common!(Restore, restore_item_action);

    async fn ask(&self, actions: &Actions, owner: &Restore) -> PluginResult<OperationProgress> {
        restore_item_action(actions, self.action())?.progress(self.id(), owner).await
    }

    async fn cancel(&self, actions: &Actions, owner: &Restore) -> PluginResult<()> {
        restore_item_action(actions, self.action())?.cancel(self.id(), owner).await
    }
}

/// How many operations there are, and how they stand.
pub(crate) fn tally<O: Operation>(operations: &[O]) -> Tally {
    Tally::of(operations.iter().map(Operation::status))
}

/// Says of operations that go on that they have failed, and why; gives their places.
pub(crate) fn give_up<O: Operation>(operations: &mut [O], reason: &str) -> Vec<usize> {
    let running: Vec<usize> = (0..operations.len()).filter(|place| operations[*place].is_running()).collect();
    for place in &running {
        let status = operations[*place].status_mut();
        status.phase = Some(OperationPhase::Failed);
        reason.clone_into(&mut status.error);
    }
    running
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

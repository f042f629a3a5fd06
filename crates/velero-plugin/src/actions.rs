//! The traits of actions and what they return.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use velero_api::records::{BackupVolumeInfo, PodVolumeInfo, ResourceIdentifier, VolumeMethod};
use velero_api::v1::{Backup, Restore};
use velero_rules::resource_policies::SnapshotParameters;

use crate::error::{Error, Result};
use crate::item;
use crate::resolve::ResourceSelector;

/// Takes part in the backup of an item: changes it, names items to back up with it, starts an operation.
#[async_trait]
pub trait BackupItemAction: Send + Sync {
    /// The name, such as `velero.io/pod`.
    fn name(&self) -> &str;

    /// The items it is called for. Asked once a backup.
    async fn applies_to(&self) -> Result<ResourceSelector>;

    /// The feature of the server without which it does not run, such as `EnableCSI`.
    fn needs_feature(&self) -> Option<&str> {
        None
    }

    /// The way in which it saves the volumes of the claims it is called for. It is called only for claims whose volumes
    /// are saved in this way, so that no volume is saved twice. The protocol of plugin binaries does not carry it.
    fn saves_volume(&self) -> Option<VolumeMethod> {
        None
    }

    /// Who looks after what it has saved once the backup has run. The protocol of plugin binaries does not carry it.
    fn volume_keeper(&self) -> Option<&dyn VolumeKeeper> {
        None
    }

    /// Whether it waits for something slow, such as a storage driver. Items with such an action come after the others
    /// of their block, many at the same time. The protocol of plugin binaries does not carry it.
    fn waits(&self) -> bool {
        false
    }

    /// Handles an item. An error fails the item, not the backup.
    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome>;

    /// Handles a claim whose volume it saves ([`BackupItemAction::saves_volume`]), with what the volume policies of the backup say
    /// about that. The protocol of plugin binaries does not carry it.
    async fn execute_with(
        &self,
        item: &Value,
        backup: &Backup,
        parameters: &SnapshotParameters,
    ) -> Result<BackupItemOutcome> {
        let _ = parameters;
        self.execute(item, backup).await
    }

    /// How far an operation is that [`BackupItemAction::execute`] started.
    async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress> {
        let _ = (operation_id, backup);
        Err(Error::AsyncOperationsNotSupported { action: self.name().to_owned() })
    }

    /// Asks for the end of an operation. One that has ended already, or that cannot be ended, is no error.
    async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<()> {
        let _ = (operation_id, backup);
        Ok(())
    }
}

/// Looks after what an action has saved of volumes, after the run of a backup.
#[async_trait]
pub trait VolumeKeeper: Send + Sync {
    /// Frees the cluster of what is in the files of a backup now. What was saved stays, but for what the files, which say this of
    /// its volumes, do not tell of: nobody could find it again.
    async fn release(&self, backup: &Backup, volumes: &[BackupVolumeInfo]) -> Result<()>;

    /// Asks for the removal of what was saved for a backup that failed.
    async fn discard(&self, backup: &Backup) -> Result<()>;

    /// Removes what was saved for a backup that is deleted; gives what is still there after a while, in words.
    async fn delete(&self, backup: &Backup, volumes: &[BackupVolumeInfo]) -> Result<Vec<String>>;
}

/// What a [`BackupItemAction`] made of an item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BackupItemOutcome {
    /// The item as it should be stored; `None` leaves it as it is.
    pub updated_item: Option<Value>,
    /// Items to back up as well.
    pub additional_items: Vec<ResourceIdentifier>,
    /// The operation that was started and goes on after the call.
    pub operation_id: Option<String>,
    /// Items to read and store again once the operation has ended.
    pub items_to_update: Vec<ResourceIdentifier>,
}

impl BackupItemOutcome {
    /// An item that is stored after a change.
    pub fn changed(item: &Value, change: impl FnOnce(&mut Value)) -> Self {
        Self { updated_item: item::changed(item, change), ..Self::default() }
    }
}

/// How far an operation is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationProgress {
    /// Whether it has ended.
    pub completed: bool,
    /// Why it failed; empty unless it did.
    pub error: String,
    /// Units done.
    pub n_completed: i64,
    /// Units to do.
    pub n_total: i64,
    /// What the units are, such as `Bytes`.
    pub operation_units: String,
    /// What it is doing, in words.
    pub description: String,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When there was last news of it.
    pub updated: Option<Timestamp>,
}

/// Names the items that must be backed up together with an item, between the same hooks.
#[async_trait]
pub trait ItemBlockAction: Send + Sync {
    /// The name, such as `velero.io/pvc`.
    fn name(&self) -> &str;

    /// The items it is called for. Asked once a backup.
    async fn applies_to(&self) -> Result<ResourceSelector>;

    /// The items that belong with this one.
    async fn related_items(&self, item: &Value, backup: &Backup) -> Result<Vec<ResourceIdentifier>>;
}

/// Cleans up what the backup of an item left outside of the archive.
#[async_trait]
pub trait DeleteItemAction: Send + Sync {
    /// The name, such as `velero.io/dataupload-delete`.
    fn name(&self) -> &str;

    /// The items it is called for. Asked once a deletion.
    async fn applies_to(&self) -> Result<ResourceSelector>;

    /// Whether a backup may hold anything for it. An archive in which no action has anything to do is not read.
    fn is_needed(&self, backup: &Backup) -> bool {
        let _ = backup;
        true
    }

    /// Handles an item of the archive of a backup that is being deleted.
    async fn execute(&self, item: &Value, backup: &Backup) -> Result<()>;
}

/// Takes part in the restore of an item: changes it, keeps it out, names items to restore before it, starts an
/// operation.
#[async_trait]
pub trait RestoreItemAction: Send + Sync {
    /// The name, such as `velero.io/service`.
    fn name(&self) -> &str;

    /// The items it is called for. Asked once a restore.
    async fn applies_to(&self) -> Result<ResourceSelector>;

    /// The feature of the server without which it does not run, such as `EnableCSI`.
    fn needs_feature(&self) -> Option<&str> {
        None
    }

    /// Hears, before the first item, which volumes of pods the restore fills from copies. Actions of plugin binaries do
    /// not: the protocol has no word for it.
    fn fills_volumes(&self, copies: &[PodVolumeInfo]) {
        let _ = copies;
    }

    /// Handles an item. An error fails the item, not the restore.
    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome>;

    /// How far an operation is that [`RestoreItemAction::execute`] started.
    async fn progress(&self, operation_id: &str, restore: &Restore) -> Result<OperationProgress> {
        let _ = (operation_id, restore);
        Err(Error::AsyncOperationsNotSupported { action: self.name().to_owned() })
    }

    /// Asks for the end of an operation. One that has ended already, or that cannot be ended, is no error.
    async fn cancel(&self, operation_id: &str, restore: &Restore) -> Result<()> {
        let _ = (operation_id, restore);
        Ok(())
    }

    /// Whether the additional items the action asked to wait for can be used.
    async fn are_additional_items_ready(&self, items: &[ResourceIdentifier], restore: &Restore) -> Result<bool> {
        let _ = (items, restore);
        Ok(true)
    }
}

/// What a [`RestoreItemAction`] is shown.
#[derive(Debug, Clone, Copy)]
pub struct RestoreItemInput<'a> {
    /// The item as the actions before left it; its status and what the old cluster gave it are gone.
    pub item: &'a Value,
    /// The item as it stands in the backup.
    pub item_from_backup: &'a Value,
    /// The restore.
    pub restore: &'a Restore,
}

/// What a [`RestoreItemAction`] made of an item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RestoreItemOutcome {
    /// The item as it should be restored; `None` leaves it as it is.
    pub updated_item: Option<Value>,
    /// Items of the backup to restore first, under the namespaces they have there.
    pub additional_items: Vec<ResourceIdentifier>,
    /// Whether the item stays out.
    pub skip_restore: bool,
    /// The operation that was started and goes on after the call.
    pub operation_id: Option<String>,
    /// Whether the item has to wait until its additional items can be used.
    pub wait_for_additional_items: bool,
    /// How long to wait at most; the server's default when `None`.
    pub additional_items_ready_timeout: Option<Duration>,
}

impl RestoreItemOutcome {
    /// An item that is restored after a change.
    pub fn changed(item: &Value, change: impl FnOnce(&mut Value)) -> Self {
        Self { updated_item: item::changed(item, change), ..Self::default() }
    }

    /// An item that is restored as `updated`, which may be what it was.
    pub fn updated(item: &Value, updated: Value) -> Self {
        Self { updated_item: (updated != *item).then_some(updated), ..Self::default() }
    }

    /// An item that stays out.
    pub fn skipped() -> Self {
        Self { skip_restore: true, ..Self::default() }
    }
}

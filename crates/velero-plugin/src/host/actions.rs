//! Actions that run in a plugin binary.

use std::sync::PoisonError;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Backup;

use super::call::{Failure, Remote};
use crate::item::describe;
use crate::wire::generated::backup_item_action_client::BackupItemActionClient as BackupItemActionV1Client;
use crate::wire::generated::delete_item_action_client::DeleteItemActionClient;
use crate::wire::generated::{AppliesToRequest, ItemRequest, OperationRequest, ProgressResponse};
use crate::wire::v1::item_block_action_client::ItemBlockActionClient;
use crate::wire::v2;
use crate::wire::v2::backup_item_action_client::BackupItemActionClient;
use crate::wire::{identifier_from, json_bytes, operation_error, progress_from, selector_from};
use crate::{
    BackupItemAction, BackupItemOutcome, DeleteItemAction, ItemBlockAction, OperationProgress, PluginKind,
    ResourceSelector, Result,
};

/// The longest answer of a plugin: more than any item or any list of a store. Who sends more has lost its way.
pub(crate) const LONGEST_ANSWER: usize = 256 << 20;

/// A client that takes what a plugin may have to say, and no more.
macro_rules! client {
    ($client:ident, $connection:expr) => {
        $client::new($connection).max_decoding_message_size($crate::host::actions::LONGEST_ANSWER)
    };
}
pub(crate) use client;

/// Asks what an action applies to, over any client.
macro_rules! applies_to {
    ($remote:expr, $client:ident) => {{
        let request = AppliesToRequest { plugin: $remote.name.clone() };
        let deadline = $remote.deadlines().question;
        let call = async |connection| client!($client, connection).applies_to(request).await;
        selector_from($remote.call("AppliesTo", "", deadline, call).await?.resource_selector)
    }};
}
pub(crate) use applies_to;

impl Remote {
    pub(crate) fn encode(&self, call: &'static str, object: &str, value: &impl Serialize) -> Result<Bytes> {
        json_bytes(value).map_err(|error| self.error(call, object, format!("it cannot be written as JSON: {error}")))
    }

    fn item_request(&self, call: &'static str, object: &str, item: &Value, backup: &Backup) -> Result<ItemRequest> {
        Ok(ItemRequest {
            plugin: self.name.clone(),
            item: self.encode(call, object, item)?,
            backup: self.encode_backup(call, object, backup)?,
        })
    }

    /// A backup as JSON, written once as long as it stays the same.
    fn encode_backup(&self, call: &'static str, object: &str, backup: &Backup) -> Result<Bytes> {
        let mut last = self.last_backup.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = last.as_ref().filter(|(known, _)| is_same(known, backup)) {
            return Ok(bytes.clone());
        }
        let bytes = self.encode(call, object, backup)?;
        *last = Some((backup.clone(), bytes.clone()));
        Ok(bytes)
    }

    pub(crate) fn operation_request(
        &self,
        call: &'static str,
        operation_id: &str,
        owner: &impl Serialize,
    ) -> Result<OperationRequest> {
        let owner = self.encode(call, operation_id, owner)?;
        Ok(OperationRequest { plugin: self.name.clone(), operation_id: operation_id.to_owned(), owner })
    }

    /// What a plugin made of an item; `None` when it is what was sent. It may rename the item and change its version,
    /// but not make something else of it.
    pub(crate) fn updated_item(&self, sent: &[u8], item: &Value, answer: &[u8]) -> Result<Option<Value>> {
        if answer == sent {
            return Ok(None);
        }
        let object = describe(item);
        let failed = |problem| self.error("Execute", &object, problem);
        let updated: Value = serde_json::from_slice(answer)
            .map_err(|error| failed(format!("the item the plugin returned is not JSON: {error}")))?;
        let (expected, found) = (item.get("kind"), updated.get("kind"));
        if found != expected || found.is_none() {
            let found = describe(&updated);
            return Err(failed(format!("the plugin returned an item of another kind: {found}")));
        }
        Ok(Some(updated))
    }

    /// The answer to a question about an operation, with the errors that have a meaning.
    pub(crate) fn operation_answer<T>(
        &self,
        call: &'static str,
        operation_id: &str,
        answer: Result<T, Failure>,
    ) -> Result<T> {
        answer.map_err(|failure| {
            let known = match &failure {
                Failure::Answered(status) => operation_error(status, &self.name, operation_id),
                Failure::Broken(_) => None,
            };
            known.unwrap_or_else(|| self.explain(call, operation_id, failure))
        })
    }

    pub(crate) fn progress(&self, operation_id: &str, answer: ProgressResponse) -> Result<OperationProgress> {
        let missing = || self.error("Progress", operation_id, "the answer holds no progress".to_owned());
        answer.progress.map(progress_from).ok_or_else(missing)
    }
}

/// Whether two backups are one. What the API server has seen need not be compared field by field for every item.
fn is_same(known: &Backup, backup: &Backup) -> bool {
    (version(known).is_some() && version(known) == version(backup)) || known == backup
}

fn version(backup: &Backup) -> Option<(&str, &str)> {
    backup.metadata.uid.as_deref().zip(backup.metadata.resource_version.as_deref())
}

pub(crate) fn identifiers(items: Vec<crate::wire::generated::ResourceIdentifier>) -> Vec<ResourceIdentifier> {
    items.into_iter().map(identifier_from).collect()
}

/// A backup item action of either version.
pub(crate) struct RemoteBackupItemAction(pub(crate) Remote);

impl RemoteBackupItemAction {
    fn is_first_version(&self) -> bool {
        self.0.kind == PluginKind::BackupItemAction
    }
}

#[async_trait]
impl BackupItemAction for RemoteBackupItemAction {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(if self.is_first_version() {
            applies_to!(self.0, BackupItemActionV1Client)
        } else {
            applies_to!(self.0, BackupItemActionClient)
        })
    }

    fn needs_feature(&self) -> Option<&str> {
        self.0.needs_feature()
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        let object = describe(item);
        let request = self.0.item_request("Execute", &object, item, backup)?;
        let (sent, deadline) = (request.item.clone(), self.0.deadlines().work);
        let answer = if self.is_first_version() {
            let call = async |connection| client!(BackupItemActionV1Client, connection).execute(request).await;
            let answer = self.0.call("Execute", &object, deadline, call).await?;
            let (item, additional_items) = (answer.item, answer.additional_items);
            v2::BackupItemResponse { item, additional_items, ..v2::BackupItemResponse::default() }
        } else {
            let call = async |connection| client!(BackupItemActionClient, connection).execute(request).await;
            self.0.call("Execute", &object, deadline, call).await?
        };
        Ok(BackupItemOutcome {
            updated_item: self.0.updated_item(&sent, item, &answer.item)?,
            additional_items: identifiers(answer.additional_items),
            operation_id: Some(answer.operation_id).filter(|id| !id.is_empty()),
            items_to_update: identifiers(answer.post_operation_items),
        })
    }

    async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress> {
        if self.is_first_version() {
            return Err(crate::Error::AsyncOperationsNotSupported { action: self.0.name.clone() });
        }
        let request = self.0.operation_request("Progress", operation_id, backup)?;
        let call = async |connection| client!(BackupItemActionClient, connection).progress(request).await;
        let answer = self.0.try_call("Progress", operation_id, self.0.deadlines().question, call).await;
        self.0.progress(operation_id, self.0.operation_answer("Progress", operation_id, answer)?)
    }

    async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<()> {
        if self.is_first_version() {
            return Ok(());
        }
        let request = self.0.operation_request("Cancel", operation_id, backup)?;
        let call = async |connection| client!(BackupItemActionClient, connection).cancel(request).await;
        let answer = self.0.try_call("Cancel", operation_id, self.0.deadlines().question, call).await;
        self.0.operation_answer("Cancel", operation_id, answer)
    }
}

/// A delete item action.
pub(crate) struct RemoteDeleteItemAction(pub(crate) Remote);

#[async_trait]
impl DeleteItemAction for RemoteDeleteItemAction {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(applies_to!(self.0, DeleteItemActionClient))
    }

    fn is_needed(&self, backup: &Backup) -> bool {
        self.0.needs_feature().is_none() || backup.status.csi_volume_snapshots_attempted > 0
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<()> {
        let object = describe(item);
        let request = self.0.item_request("Execute", &object, item, backup)?;
        let call = async |connection| client!(DeleteItemActionClient, connection).execute(request).await;
        self.0.call("Execute", &object, self.0.deadlines().work, call).await.map(drop)
    }
}

/// An item block action.
pub(crate) struct RemoteItemBlockAction(pub(crate) Remote);

#[async_trait]
impl ItemBlockAction for RemoteItemBlockAction {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(applies_to!(self.0, ItemBlockActionClient))
    }

    async fn related_items(&self, item: &Value, backup: &Backup) -> Result<Vec<ResourceIdentifier>> {
        let object = describe(item);
        let request = self.0.item_request("GetRelatedItems", &object, item, backup)?;
        let call = async |connection| client!(ItemBlockActionClient, connection).get_related_items(request).await;
        let answer = self.0.call("GetRelatedItems", &object, self.0.deadlines().work, call).await?;
        Ok(identifiers(answer.related_items))
    }
}

//! Restore item actions that run in a plugin binary.

use async_trait::async_trait;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Restore;

use super::actions::{applies_to, client, identifiers};
use super::call::Remote;
use crate::item::describe;
use crate::wire::generated::restore_item_action_client::RestoreItemActionClient as RestoreItemActionV1Client;
use crate::wire::generated::{AppliesToRequest, RestoreItemRequest};
use crate::wire::v2::restore_item_action_client::RestoreItemActionClient;
use crate::wire::v2::{ItemsReadyRequest, RestoreItemResponse};
use crate::wire::{from_duration, identifier_to, selector_from};
use crate::{
    Error, OperationProgress, PluginKind, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome,
    Result,
};

/// A restore item action of either version.
pub(crate) struct RemoteRestoreItemAction(pub(crate) Remote);

impl RemoteRestoreItemAction {
    fn is_first_version(&self) -> bool {
        self.0.kind == PluginKind::RestoreItemAction
    }

    async fn execute_any(&self, object: &str, request: RestoreItemRequest) -> Result<RestoreItemResponse> {
        let deadline = self.0.deadlines().work;
        if !self.is_first_version() {
            let call = async |connection| client!(RestoreItemActionClient, connection).execute(request).await;
            return self.0.call("Execute", object, deadline, call).await;
        }
        let call = async |connection| client!(RestoreItemActionV1Client, connection).execute(request).await;
        let answer = self.0.call("Execute", object, deadline, call).await?;
        Ok(RestoreItemResponse {
            item: answer.item,
            additional_items: answer.additional_items,
            skip_restore: answer.skip_restore,
            ..RestoreItemResponse::default()
        })
    }
}

#[async_trait]
impl RestoreItemAction for RemoteRestoreItemAction {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(if self.is_first_version() {
            applies_to!(self.0, RestoreItemActionV1Client)
        } else {
            applies_to!(self.0, RestoreItemActionClient)
        })
    }

    fn needs_feature(&self) -> Option<&str> {
        self.0.needs_feature()
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let object = describe(input.item);
        let request = RestoreItemRequest {
            plugin: self.0.name.clone(),
            item: self.0.encode("Execute", &object, input.item)?,
            restore: self.0.encode("Execute", &object, input.restore)?,
            item_from_backup: self.0.encode("Execute", &object, input.item_from_backup)?,
        };
        let sent = request.item.clone();
        let answer = self.execute_any(&object, request).await?;
        // Of an item that stays out nothing is looked at.
        let updated_item = if answer.skip_restore && answer.item.is_empty() {
            None
        } else {
            self.0.updated_item(&sent, input.item, &answer.item)?
        };
        Ok(RestoreItemOutcome {
            updated_item,
            additional_items: identifiers(answer.additional_items),
            skip_restore: answer.skip_restore,
            operation_id: Some(answer.operation_id).filter(|id| !id.is_empty()),
            wait_for_additional_items: answer.wait_for_additional_items,
            additional_items_ready_timeout: from_duration(answer.additional_items_ready_timeout),
        })
    }

    async fn progress(&self, operation_id: &str, restore: &Restore) -> Result<OperationProgress> {
        if self.is_first_version() {
            return Err(Error::AsyncOperationsNotSupported { action: self.0.name.clone() });
        }
        let request = self.0.operation_request("Progress", operation_id, restore)?;
        let call = async |connection| client!(RestoreItemActionClient, connection).progress(request).await;
        let answer = self.0.try_call("Progress", operation_id, self.0.deadlines().question, call).await;
        self.0.progress(operation_id, self.0.operation_answer("Progress", operation_id, answer)?)
    }

    async fn cancel(&self, operation_id: &str, restore: &Restore) -> Result<()> {
        if self.is_first_version() {
            return Ok(());
        }
        let request = self.0.operation_request("Cancel", operation_id, restore)?;
        let call = async |connection| client!(RestoreItemActionClient, connection).cancel(request).await;
        let answer = self.0.try_call("Cancel", operation_id, self.0.deadlines().question, call).await;
        self.0.operation_answer("Cancel", operation_id, answer)
    }

    async fn are_additional_items_ready(&self, items: &[ResourceIdentifier], restore: &Restore) -> Result<bool> {
        if self.is_first_version() {
            return Ok(true);
        }
        let request = ItemsReadyRequest {
            plugin: self.0.name.clone(),
            restore: self.0.encode("AreAdditionalItemsReady", "", restore)?,
            additional_items: items.iter().cloned().map(identifier_to).collect(),
        };
        let call =
            async |connection| client!(RestoreItemActionClient, connection).are_additional_items_ready(request).await;
        let deadline = self.0.deadlines().question;
        Ok(self.0.call("AreAdditionalItemsReady", "", deadline, call).await?.ready)
    }
}

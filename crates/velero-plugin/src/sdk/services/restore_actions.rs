//! Actions on items that are restored.

use bytes::Bytes;
use serde_json::Value;
use tonic::{Request, Response, Status};
use velero_api::v1::Restore;

use super::actions::{Actions, applies_to, item_or_sent};
use super::{decode, find};
use crate::sdk::guard::answer;
use crate::sdk::plugins::Named;
use crate::wire::generated::restore_item_action_server::RestoreItemAction as RestoreItemActionV1Service;
use crate::wire::generated::{
    self, AppliesToRequest, AppliesToResponse, OperationRequest, ProgressResponse, RestoreItemRequest,
};
use crate::wire::v2::restore_item_action_server::RestoreItemAction as RestoreItemActionService;
use crate::wire::v2::{ItemsReadyRequest, ItemsReadyResponse, RestoreItemResponse};
use crate::wire::{identifier_from, identifier_to, progress_to, to_duration};
use crate::{PluginKind, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

type Answer<T> = Result<Response<T>, Status>;

async fn execute(
    actions: &Named<dyn RestoreItemAction>,
    kind: PluginKind,
    request: RestoreItemRequest,
) -> Result<(Bytes, RestoreItemOutcome)> {
    let action = find(actions, kind, &request.plugin)?;
    let item: Value = decode("item", &request.item)?;
    let item_from_backup: Value = decode("item from the backup", &request.item_from_backup)?;
    let restore: Restore = decode("restore", &request.restore)?;
    let input = RestoreItemInput { item: &item, item_from_backup: &item_from_backup, restore: &restore };
    let outcome = action.execute(input).await?;
    Ok((item_or_sent(outcome.updated_item.as_ref(), request.item)?, outcome))
}

#[tonic::async_trait]
impl RestoreItemActionV1Service for Actions {
    async fn applies_to(&self, request: Request<AppliesToRequest>) -> Answer<AppliesToResponse> {
        answer(async {
            let name = request.into_inner().plugin;
            let action = find(&self.0.restore_item_v1, PluginKind::RestoreItemAction, &name)?;
            action.applies_to().await.map(applies_to)
        })
        .await
    }

    async fn execute(&self, request: Request<RestoreItemRequest>) -> Answer<generated::RestoreItemResponse> {
        answer(async {
            let kind = PluginKind::RestoreItemAction;
            let (item, outcome) = execute(&self.0.restore_item_v1, kind, request.into_inner()).await?;
            let additional_items = outcome.additional_items.into_iter().map(identifier_to).collect();
            Ok(generated::RestoreItemResponse { item, additional_items, skip_restore: outcome.skip_restore })
        })
        .await
    }
}

#[tonic::async_trait]
impl RestoreItemActionService for Actions {
    async fn applies_to(&self, request: Request<AppliesToRequest>) -> Answer<AppliesToResponse> {
        answer(async {
            let name = request.into_inner().plugin;
            let action = find(&self.0.restore_item, PluginKind::RestoreItemActionV2, &name)?;
            action.applies_to().await.map(applies_to)
        })
        .await
    }

    async fn execute(&self, request: Request<RestoreItemRequest>) -> Answer<RestoreItemResponse> {
        answer(async {
            let kind = PluginKind::RestoreItemActionV2;
            let (item, outcome) = execute(&self.0.restore_item, kind, request.into_inner()).await?;
            Ok(RestoreItemResponse {
                item,
                additional_items: outcome.additional_items.into_iter().map(identifier_to).collect(),
                skip_restore: outcome.skip_restore,
                operation_id: outcome.operation_id.unwrap_or_default(),
                wait_for_additional_items: outcome.wait_for_additional_items,
                additional_items_ready_timeout: outcome.additional_items_ready_timeout.and_then(to_duration),
            })
        })
        .await
    }

    async fn progress(&self, request: Request<OperationRequest>) -> Answer<ProgressResponse> {
        answer(async {
            let request = request.into_inner();
            let action = find(&self.0.restore_item, PluginKind::RestoreItemActionV2, &request.plugin)?;
            let restore: Restore = decode("restore", &request.owner)?;
            let progress = action.progress(&request.operation_id, &restore).await?;
            Ok(ProgressResponse { progress: Some(progress_to(progress)) })
        })
        .await
    }

    async fn cancel(&self, request: Request<OperationRequest>) -> Answer<()> {
        answer(async {
            let request = request.into_inner();
            let action = find(&self.0.restore_item, PluginKind::RestoreItemActionV2, &request.plugin)?;
            let restore: Restore = decode("restore", &request.owner)?;
            action.cancel(&request.operation_id, &restore).await
        })
        .await
    }

    async fn are_additional_items_ready(&self, request: Request<ItemsReadyRequest>) -> Answer<ItemsReadyResponse> {
        answer(async {
            let request = request.into_inner();
            let action = find(&self.0.restore_item, PluginKind::RestoreItemActionV2, &request.plugin)?;
            let restore: Restore = decode("restore", &request.restore)?;
            let items: Vec<_> = request.additional_items.into_iter().map(identifier_from).collect();
            Ok(ItemsReadyResponse { ready: action.are_additional_items_ready(&items, &restore).await? })
        })
        .await
    }
}

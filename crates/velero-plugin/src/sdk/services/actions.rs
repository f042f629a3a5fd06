//! Actions on items that are backed up or whose backup goes away.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use tonic::{Request, Response, Status};
use velero_api::v1::Backup;

use super::{decode, encode, find};
use crate::sdk::guard::answer;
use crate::sdk::plugins::{Named, Plugins};
use crate::wire::generated::backup_item_action_server::BackupItemAction as BackupItemActionV1Service;
use crate::wire::generated::delete_item_action_server::DeleteItemAction as DeleteItemActionService;
use crate::wire::generated::{
    self, AppliesToRequest, AppliesToResponse, Empty, ItemRequest, OperationRequest, ProgressResponse,
};
use crate::wire::v1::RelatedItemsResponse;
use crate::wire::v1::item_block_action_server::ItemBlockAction as ItemBlockActionService;
use crate::wire::v2;
use crate::wire::v2::backup_item_action_server::BackupItemAction as BackupItemActionService;
use crate::wire::{identifier_to, progress_to, selector_to};
use crate::{BackupItemAction, BackupItemOutcome, PluginKind, ResourceSelector, Result};

type Answer<T> = Result<Response<T>, Status>;

/// The actions of this process.
#[derive(Clone)]
pub(crate) struct Actions(pub(crate) Arc<Plugins>, pub(crate) Arc<LastBackup>);

/// The backup that came last. The host sends it along with every item; it is read once.
#[derive(Default)]
pub(crate) struct LastBackup(Mutex<Option<(Bytes, Arc<Backup>)>>);

impl LastBackup {
    fn read(&self, sent: &Bytes) -> Result<Arc<Backup>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, backup)) = last.as_ref().filter(|(bytes, _)| bytes == sent) {
            return Ok(Arc::clone(backup));
        }
        let backup: Arc<Backup> = Arc::new(decode("backup", sent)?);
        *last = Some((sent.clone(), Arc::clone(&backup)));
        Ok(backup)
    }
}

pub(super) fn applies_to(selector: ResourceSelector) -> AppliesToResponse {
    AppliesToResponse { resource_selector: Some(selector_to(selector)) }
}

/// The item of an answer: the changed one, or the one that was sent.
pub(super) fn item_or_sent(updated: Option<&Value>, sent: Bytes) -> Result<Bytes> {
    updated.map_or(Ok(sent), |item| encode("item", item))
}

async fn execute(
    actions: &Named<dyn BackupItemAction>,
    kind: PluginKind,
    request: ItemRequest,
    last: &LastBackup,
) -> Result<(Bytes, BackupItemOutcome)> {
    let action = find(actions, kind, &request.plugin)?;
    let (item, backup): (Value, _) = (decode("item", &request.item)?, last.read(&request.backup)?);
    let outcome = action.execute(&item, &backup).await?;
    Ok((item_or_sent(outcome.updated_item.as_ref(), request.item)?, outcome))
}

#[tonic::async_trait]
impl BackupItemActionV1Service for Actions {
    async fn applies_to(&self, request: Request<AppliesToRequest>) -> Answer<AppliesToResponse> {
        answer(async {
            let name = request.into_inner().plugin;
            let action = find(&self.0.backup_item_v1, PluginKind::BackupItemAction, &name)?;
            action.applies_to().await.map(applies_to)
        })
        .await
    }

    async fn execute(&self, request: Request<ItemRequest>) -> Answer<generated::BackupItemResponse> {
        answer(async {
            let kind = PluginKind::BackupItemAction;
            let (item, outcome) = execute(&self.0.backup_item_v1, kind, request.into_inner(), &self.1).await?;
            let additional_items = outcome.additional_items.into_iter().map(identifier_to).collect();
            Ok(generated::BackupItemResponse { item, additional_items })
        })
        .await
    }
}

#[tonic::async_trait]
impl BackupItemActionService for Actions {
    async fn applies_to(&self, request: Request<AppliesToRequest>) -> Answer<AppliesToResponse> {
        answer(async {
            let name = request.into_inner().plugin;
            let action = find(&self.0.backup_item, PluginKind::BackupItemActionV2, &name)?;
            action.applies_to().await.map(applies_to)
        })
        .await
    }

    async fn execute(&self, request: Request<ItemRequest>) -> Answer<v2::BackupItemResponse> {
        answer(async {
            let kind = PluginKind::BackupItemActionV2;
            let (item, outcome) = execute(&self.0.backup_item, kind, request.into_inner(), &self.1).await?;
            Ok(v2::BackupItemResponse {
                item,
                additional_items: outcome.additional_items.into_iter().map(identifier_to).collect(),
                operation_id: outcome.operation_id.unwrap_or_default(),
                post_operation_items: outcome.items_to_update.into_iter().map(identifier_to).collect(),
            })
        })
        .await
    }

    async fn progress(&self, request: Request<OperationRequest>) -> Answer<ProgressResponse> {
        answer(async {
            let request = request.into_inner();
            let action = find(&self.0.backup_item, PluginKind::BackupItemActionV2, &request.plugin)?;
            let backup = self.1.read(&request.owner)?;
            let progress = action.progress(&request.operation_id, &backup).await?;
            Ok(ProgressResponse { progress: Some(progress_to(progress)) })
        })
        .await
    }

    async fn cancel(&self, request: Request<OperationRequest>) -> Answer<()> {
        answer(async {
            let request = request.into_inner();
            let action = find(&self.0.backup_item, PluginKind::BackupItemActionV2, &request.plugin)?;
            let backup = self.1.read(&request.owner)?;
            action.cancel(&request.operation_id, &backup).await
        })
        .await
    }
}

#[tonic::async_trait]
impl DeleteItemActionService for Actions {
    async fn applies_to(&self, request: Request<AppliesToRequest>) -> Answer<AppliesToResponse> {
        answer(async {
            let name = request.into_inner().plugin;
            let action = find(&self.0.delete_item, PluginKind::DeleteItemAction, &name)?;
            action.applies_to().await.map(applies_to)
        })
        .await
    }

    async fn execute(&self, request: Request<ItemRequest>) -> Answer<Empty> {
        answer(async {
            let request = request.into_inner();
            let action = find(&self.0.delete_item, PluginKind::DeleteItemAction, &request.plugin)?;
            let (item, backup): (Value, _) = (decode("item", &request.item)?, self.1.read(&request.backup)?);
            action.execute(&item, &backup).await.map(|()| Empty {})
        })
        .await
    }
}

#[tonic::async_trait]
impl ItemBlockActionService for Actions {
    async fn applies_to(&self, request: Request<AppliesToRequest>) -> Answer<AppliesToResponse> {
        answer(async {
            let name = request.into_inner().plugin;
            let action = find(&self.0.item_block, PluginKind::ItemBlockAction, &name)?;
            action.applies_to().await.map(applies_to)
        })
        .await
    }

    async fn get_related_items(&self, request: Request<ItemRequest>) -> Answer<RelatedItemsResponse> {
        answer(async {
            let request = request.into_inner();
            let action = find(&self.0.item_block, PluginKind::ItemBlockAction, &request.plugin)?;
            let (item, backup): (Value, _) = (decode("item", &request.item)?, self.1.read(&request.backup)?);
            let related = action.related_items(&item, &backup).await?;
            Ok(RelatedItemsResponse { related_items: related.into_iter().map(identifier_to).collect() })
        })
        .await
    }
}

//! The delete item action and the item block action.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Backup;
use velero_plugin::{DeleteItemAction, ItemBlockAction, ResourceSelector, Result, item};

use crate::backup::{items, labelled};
use crate::behaviour::{annotation, behave};

/// Looks at items of a backup that goes away; an action that made something outside of the archive removes it here.
pub struct DeleteAction;

#[async_trait]
impl DeleteItemAction for DeleteAction {
    fn name(&self) -> &str {
        "example.velero.io/delete"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(labelled("example.velero.io/plugin"))
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<()> {
        behave(item, "delete-execute").await?;
        tracing::info!(item = item::name(item), backup = backup.metadata.name, "nothing is left of the item");
        Ok(())
    }
}

/// Names the items of the annotation `example.velero.io/related-items`.
pub struct BlockAction;

#[async_trait]
impl ItemBlockAction for BlockAction {
    fn name(&self) -> &str {
        "example.velero.io/block"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(labelled("example.velero.io/plugin"))
    }

    async fn related_items(&self, item: &Value, _: &Backup) -> Result<Vec<ResourceIdentifier>> {
        behave(item, "block-execute").await?;
        Ok(items(annotation(item, "related-items")))
    }
}

//! The restore item actions.

use async_trait::async_trait;
use velero_api::metadata;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Restore;
use velero_plugin::{
    OperationProgress, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result,
};

use crate::backup::{items, labelled};
use crate::behaviour::{annotation, behave, duration};
use crate::operations;

/// Marks items with the name of the restore. Further annotations of an item: `skip-restore`, `restore-additional-items`
/// and `wait-for-additional-items` (a time such as `5s`).
pub struct Action;

#[async_trait]
impl RestoreItemAction for Action {
    fn name(&self) -> &str {
        "example.velero.io/restore"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(labelled("example.velero.io/plugin"))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let item = input.item;
        let outcome = behave(item, "restore-execute").await?;
        let name = metadata::name(input.restore);
        let wait = annotation(item, "wait-for-additional-items");
        Ok(RestoreItemOutcome {
            updated_item: Some(outcome.apply(item, "restored-by", name)),
            additional_items: items(annotation(item, "restore-additional-items")),
            skip_restore: annotation(item, "skip-restore") == Some("true"),
            operation_id: annotation(item, "restore-operation").map(operations::begin).transpose()?,
            wait_for_additional_items: wait.is_some(),
            additional_items_ready_timeout: wait.and_then(duration),
        })
    }

    async fn progress(&self, operation_id: &str, _: &Restore) -> Result<OperationProgress> {
        operations::progress(self.name(), operation_id).await
    }

    async fn cancel(&self, operation_id: &str, _: &Restore) -> Result<()> {
        operations::cancel(self.name(), operation_id)
    }

    /// Items whose name begins with `unready` never are.
    async fn are_additional_items_ready(&self, items: &[ResourceIdentifier], _: &Restore) -> Result<bool> {
        Ok(!items.iter().any(|item| item.name.starts_with("unready")))
    }
}

/// An action in the first version of the protocol: marks items or leaves them out.
pub struct FirstVersion;

#[async_trait]
impl RestoreItemAction for FirstVersion {
    fn name(&self) -> &str {
        "example.velero.io/restore-v1"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(labelled("example.velero.io/plugin-v1"))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let outcome = behave(input.item, "restore-execute").await?;
        let name = metadata::name(input.restore);
        Ok(RestoreItemOutcome {
            updated_item: Some(outcome.apply(input.item, "restored-by-v1", name)),
            skip_restore: annotation(input.item, "skip-restore") == Some("true"),
            ..RestoreItemOutcome::default()
        })
    }
}

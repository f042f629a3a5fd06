//! The backup item actions.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::metadata;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Backup;
use velero_plugin::{BackupItemAction, BackupItemOutcome, OperationProgress, ResourceSelector, Result};

use crate::behaviour::{annotation, behave};
use crate::operations;

/// Marks items with the name of the backup. Further annotations of an item: `additional-items` and `items-to-update`
/// list items as `resource.group/namespace/name`, separated by commas.
pub struct Action;

#[async_trait]
impl BackupItemAction for Action {
    fn name(&self) -> &str {
        "example.velero.io/backup"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(labelled("example.velero.io/plugin"))
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        let outcome = behave(item, "execute").await?;
        let name = metadata::name(backup);
        Ok(BackupItemOutcome {
            updated_item: Some(outcome.apply(item, "backed-up-by", name)),
            additional_items: items(annotation(item, "additional-items")),
            operation_id: annotation(item, "operation").map(operations::begin).transpose()?,
            items_to_update: items(annotation(item, "items-to-update")),
        })
    }

    async fn progress(&self, operation_id: &str, _: &Backup) -> Result<OperationProgress> {
        operations::progress(self.name(), operation_id).await
    }

    async fn cancel(&self, operation_id: &str, _: &Backup) -> Result<()> {
        operations::cancel(self.name(), operation_id)
    }
}

/// An action in the first version of the protocol: marks items, and nothing else.
pub struct FirstVersion;

#[async_trait]
impl BackupItemAction for FirstVersion {
    fn name(&self) -> &str {
        "example.velero.io/backup-v1"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(labelled("example.velero.io/plugin-v1"))
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        let outcome = behave(item, "execute").await?;
        let name = metadata::name(backup);
        let updated_item = Some(outcome.apply(item, "backed-up-by-v1", name));
        Ok(BackupItemOutcome { updated_item, ..BackupItemOutcome::default() })
    }
}

/// All items with a label.
pub(crate) fn labelled(label: &str) -> ResourceSelector {
    ResourceSelector { label_selector: label.to_owned(), ..ResourceSelector::default() }
}

/// Items as `resource.group/namespace/name`, separated by commas; what has another form is left out.
pub(crate) fn items(list: Option<&str>) -> Vec<ResourceIdentifier> {
    let identify = |text: &str| {
        let mut parts = text.trim().splitn(3, '/');
        let (resource, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        Some(ResourceIdentifier::new(group, resource, namespace, name))
    };
    list.into_iter().flat_map(|list| list.split(',')).filter_map(identify).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_from_a_list() {
        let found = items(Some("configmaps/shop/a, deployments.apps/shop/b,nothing,namespaces//c"));
        let texts: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["configmaps shop/a", "deployments.apps shop/b", "namespaces c"]);
        assert!(items(None).is_empty());
    }
}

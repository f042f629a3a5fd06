//! Pods bring their claims.

use async_trait::async_trait;
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use crate::pod::claims;

/// Adds the claims of a pod to the restore.
pub struct RestoreAction;

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/add-pvc-from-pod"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["pods"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        Ok(RestoreItemOutcome { additional_items: claims(input.item).collect(), ..RestoreItemOutcome::default() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_api::v1::{Restore, RestoreSpec};

    use super::*;

    #[test]
    fn a_pod_brings_its_claims_under_the_namespace_they_have_in_the_backup() {
        let mut spec = RestoreSpec::default();
        spec.namespace_mapping.insert("shop".to_owned(), "shop-2".to_owned());
        let restore = Restore::new("velero", "r1", spec);
        let pod = json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"priorityClassName": "high", "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "b", "emptyDir": {}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "logs"}},
            ]},
        });
        let input = RestoreItemInput { item: &pod, item_from_backup: &pod, restore: &restore };
        let outcome = futures::executor::block_on(RestoreAction.execute(input)).unwrap();
        let items: Vec<_> = outcome.additional_items.iter().map(ToString::to_string).collect();
        assert_eq!(items, ["persistentvolumeclaims shop/data", "persistentvolumeclaims shop/logs"]);
        assert_eq!(outcome.updated_item, None);
    }
}

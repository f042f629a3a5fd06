//! API services that the cluster makes itself, for its own groups and for CRDs, are not restored.

use async_trait::async_trait;
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

/// Keeps API services out that the cluster makes itself.
pub struct RestoreAction;

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/apiservice"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector {
            label_selector: "kube-aggregator.kubernetes.io/automanaged".to_owned(),
            ..ResourceSelector::resources(&["apiservices.apiregistration.k8s.io"])
        })
    }

    async fn execute(&self, _: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        Ok(RestoreItemOutcome { skip_restore: true, ..RestoreItemOutcome::default() })
    }
}

//! Classes bring the secret that the driver lists snapshots with.

use async_trait::async_trait;
use velero_api::annotations::{SNAPSHOTTER_LIST_SECRET_NAME, SNAPSHOTTER_LIST_SECRET_NAMESPACE};
use velero_api::features::ENABLE_CSI;
use velero_api::type_names::VOLUME_SNAPSHOT_CLASSES;
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use super::wants_data;
use crate::objects::secret;

/// Adds the secret that annotations of the class name.
pub(super) struct RestoreAction;

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/csi-volumesnapshotclass-restorer"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[VOLUME_SNAPSHOT_CLASSES]))
    }

    fn needs_feature(&self) -> Option<&str> {
        Some(ENABLE_CSI)
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        if !wants_data(input.restore) {
            return Ok(RestoreItemOutcome { skip_restore: true, ..RestoreItemOutcome::default() });
        }
        let secret = secret(input.item, SNAPSHOTTER_LIST_SECRET_NAME, SNAPSHOTTER_LIST_SECRET_NAMESPACE);
        Ok(RestoreItemOutcome { additional_items: secret.into_iter().collect(), ..RestoreItemOutcome::default() })
    }
}

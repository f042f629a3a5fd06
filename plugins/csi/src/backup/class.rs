//! Classes bring the secret that the driver lists snapshots with.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::annotations::{SNAPSHOTTER_LIST_SECRET_NAME, SNAPSHOTTER_LIST_SECRET_NAMESPACE};
use velero_api::features::ENABLE_CSI;
use velero_api::type_names::VOLUME_SNAPSHOT_CLASSES;
use velero_api::v1::Backup;
use velero_plugin::{BackupItemAction, BackupItemOutcome, ResourceSelector, Result};

use super::with_secret;
use crate::objects::secret;

/// Adds the secret that annotations of the class name.
pub(super) struct BackupAction;

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        "velero.io/csi-volumesnapshotclass-backupper"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[VOLUME_SNAPSHOT_CLASSES]))
    }

    fn needs_feature(&self) -> Option<&str> {
        Some(ENABLE_CSI)
    }

    async fn execute(&self, item: &Value, _: &Backup) -> Result<BackupItemOutcome> {
        let Some(secret) = secret(item, SNAPSHOTTER_LIST_SECRET_NAME, SNAPSHOTTER_LIST_SECRET_NAMESPACE) else {
            return Ok(BackupItemOutcome::default());
        };
        Ok(with_secret(item, secret))
    }
}

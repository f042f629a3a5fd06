//! Contents bring the secret that the driver deletes snapshots with.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::annotations::{SNAPSHOTTER_SECRET_NAME, SNAPSHOTTER_SECRET_NAMESPACE};
use velero_api::features::ENABLE_CSI;
use velero_api::v1::Backup;
use velero_plugin::{BackupItemAction, BackupItemOutcome, ResourceSelector, Result};

use super::with_secret;
use crate::objects::{is_finalizing, secret};

/// Adds the secret that annotations of the content name.
pub(super) struct BackupAction;

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        "velero.io/csi-volumesnapshotcontent-backupper"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["volumesnapshotcontents.snapshot.storage.k8s.io"]))
    }

    fn needs_feature(&self) -> Option<&str> {
        Some(ENABLE_CSI)
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        let secret = secret(item, SNAPSHOTTER_SECRET_NAME, SNAPSHOTTER_SECRET_NAMESPACE);
        let Some(secret) = secret.filter(|_| !is_finalizing(backup)) else {
            return Ok(BackupItemOutcome::default());
        };
        Ok(with_secret(item, secret))
    }
}

//! Contents bring the secret that the driver deletes snapshots with. Those of snapshots whose data is moved stay out.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::annotations::{SNAPSHOTTER_SECRET_NAME, SNAPSHOTTER_SECRET_NAMESPACE};
use velero_api::features::ENABLE_CSI;
use velero_api::type_names::VOLUME_SNAPSHOT_CONTENTS;
use velero_api::v1::Backup;
use velero_cluster::Cluster;
use velero_plugin::item::text;
use velero_plugin::{BackupItemAction, BackupItemOutcome, ResourceSelector, Result};

use super::{is_moved, kept_out, with_secret};
use crate::movement::moves_data;
use crate::objects::{SNAPSHOTS, is_finalizing, secret};

/// Adds the secret that annotations of the content name.
pub(super) struct BackupAction {
    cluster: Cluster,
}

impl BackupAction {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone() }
    }

    /// Whether a content is that of a snapshot whose data is moved.
    async fn is_moved(&self, content: &Value, backup: &Backup) -> Result<bool> {
        let of = |pointer| text(content, pointer);
        let (namespace, name) = (of("/spec/volumeSnapshotRef/namespace"), of("/spec/volumeSnapshotRef/name"));
        if !moves_data(backup) || namespace.is_empty() || name.is_empty() {
            return Ok(false);
        }
        let snapshot = self.cluster.get(SNAPSHOTS.item(Some(namespace), name)).await?;
        Ok(snapshot.is_some_and(|snapshot| is_moved(&snapshot, backup)))
    }
}

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        "velero.io/csi-volumesnapshotcontent-backupper"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[VOLUME_SNAPSHOT_CONTENTS]))
    }

    fn needs_feature(&self) -> Option<&str> {
        Some(ENABLE_CSI)
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        if self.is_moved(item, backup).await? {
            return Ok(kept_out(item));
        }
        let secret = secret(item, SNAPSHOTTER_SECRET_NAME, SNAPSHOTTER_SECRET_NAMESPACE);
        let Some(secret) = secret.filter(|_| !is_finalizing(backup)) else {
            return Ok(BackupItemOutcome::default());
        };
        Ok(with_secret(item, secret))
    }
}

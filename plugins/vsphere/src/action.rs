//! The backup action for claims.

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::OnceCell;
use velero_api::v1::Backup;
use velero_cluster::{Cluster, ConnectOptions, types};
use velero_plugin::item::text;
use velero_plugin::{BackupItemAction, BackupItemOutcome, Error, OperationProgress, ResourceSelector, Result};

use crate::records::{Records, snapshots};
use crate::{claim, progress};

const NAME: &str = "velero.io/vsphere-upload";

/// Follows the uploads of claims of the vSphere CSI driver. The ID of an operation is the `namespace/name` of a
/// Snapshot record: everything else stands in the cluster.
#[derive(Default)]
pub struct BackupAction {
    /// Connected when first needed: a host asks for the names of plugins where there is no cluster.
    cluster: OnceCell<Cluster>,
}

impl BackupAction {
    async fn cluster(&self) -> Result<&Cluster> {
        self.cluster.get_or_try_init(|| async { Ok(Cluster::connect(&ConnectOptions::default()).await?) }).await
    }

    /// Whether the volume of a claim is one of the driver.
    async fn is_of_vsphere(&self, item: &Value) -> Result<bool> {
        let Some(volume) = claim::volume_name(item) else { return Ok(false) };
        let volume = self.cluster().await?.get(types::PERSISTENT_VOLUMES.item(None, volume)).await?;
        Ok(volume.is_some_and(|volume| claim::is_of_vsphere(&volume)))
    }
}

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["persistentvolumeclaims"]))
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        if backup.spec.snapshot_volumes == Some(false) || !self.is_of_vsphere(item).await? {
            return Ok(BackupItemOutcome::default());
        }
        let records = Records { cluster: self.cluster().await?, backup };
        let snapshot = records.snapshot_of(item).await?;
        let snapshot = records.wait_until_taken(&snapshot).await?;
        let is_noted = claim::noted_snapshot(item, backup).is_some();
        let id = format!("{}/{}", text(&snapshot, "/metadata/namespace"), text(&snapshot, "/metadata/name"));
        Ok(BackupItemOutcome {
            updated_item: (!is_noted).then(|| claim::with_snapshot(item, &snapshot)),
            operation_id: Some(id),
            ..BackupItemOutcome::default()
        })
    }

    async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress> {
        let (namespace, name) = parse(operation_id)?;
        let cluster = self.cluster().await?;
        let snapshot = cluster.get(snapshots().item(Some(namespace), name)).await?;
        let upload = Records { cluster, backup }.upload_of(operation_id).await?;
        Ok(progress::of(operation_id, snapshot.as_ref(), upload.as_ref()))
    }

    async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<()> {
        let (namespace, name) = parse(operation_id)?;
        let records = Records { cluster: self.cluster().await?, backup };
        match records.upload_of(operation_id).await? {
            Some(upload) if progress::has_ended(&upload) => Ok(()),
            Some(upload) => records.cancel_upload(&upload).await,
            None => records.cancel_snapshot(namespace, name).await,
        }
    }
}

fn parse(operation_id: &str) -> Result<(&str, &str)> {
    let parts = operation_id.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    let invalid = || Error::InvalidOperationId { action: NAME.to_owned(), operation_id: operation_id.to_owned() };
    parts.filter(|(_, name)| !name.contains('/')).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_named_by_its_snapshot_record() {
        assert_eq!(parse("shop/snap-1").unwrap(), ("shop", "snap-1"));
        for wrong in ["", "snap-1", "/snap-1", "shop/", "a/b/c"] {
            assert!(matches!(parse(wrong), Err(Error::InvalidOperationId { .. })), "{wrong}");
        }
    }
}

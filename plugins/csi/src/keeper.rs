//! What becomes of the CSI snapshots of a backup after its run.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use velero_api::records::BackupVolumeInfo;
use velero_api::v1::Backup;
use velero_cluster::Cluster;
use velero_plugin::{Result, VolumeKeeper};

use crate::objects::GroupTypes;
use crate::removal::{discard_of_backup, forget_restored, left_of_backup, release_of_backup};

/// How long drivers may take to delete snapshots.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_secs(2);

/// Keeps the snapshots that are objects of the cluster.
pub(crate) struct Keeper {
    pub(crate) cluster: Cluster,
    /// Where the cluster serves snapshots of groups.
    pub(crate) groups: Option<GroupTypes>,
}

#[async_trait]
impl VolumeKeeper for Keeper {
    async fn release(&self, backup: &Backup, volumes: &[BackupVolumeInfo]) -> Result<()> {
        release_of_backup(&self.cluster, self.groups.as_ref(), backup, volumes).await
    }

    async fn discard(&self, backup: &Backup) -> Result<()> {
        discard_of_backup(&self.cluster, self.groups.as_ref(), backup).await
    }

    async fn delete(&self, backup: &Backup, volumes: &[BackupVolumeInfo]) -> Result<Vec<String>> {
        let handle = |volume: &BackupVolumeInfo| Some(volume.csi_snapshot_info.as_ref()?.snapshot_handle.clone());
        let handles: BTreeSet<String> = volumes.iter().filter_map(handle).collect();
        forget_restored(&self.cluster, backup, &handles).await?;
        discard_of_backup(&self.cluster, self.groups.as_ref(), backup).await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = left_of_backup(&self.cluster, backup).await?;
            if left.is_empty() || Instant::now() >= deadline {
                return Ok(left);
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

//! A DataUpload of the backup tells where the data of a claim was moved. It is work that was done, and never made again.

use std::sync::Arc;

use async_trait::async_trait;
use velero_api::type_names::DATA_UPLOADS;
use velero_cluster::Cluster;
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use super::{backup_of, wants_data};
use crate::movement::Uploads;

/// Takes over what DataUploads came to.
pub(super) struct RestoreAction {
    cluster: Cluster,
    uploads: Arc<Uploads>,
}

impl RestoreAction {
    pub(super) fn new(cluster: &Cluster, uploads: Arc<Uploads>) -> Self {
        Self { cluster: cluster.clone(), uploads }
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/dataupload"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[DATA_UPLOADS]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let RestoreItemInput { item_from_backup, restore, .. } = input;
        if wants_data(restore) {
            let upload = Uploads::read(item_from_backup)?;
            let backup = backup_of(&self.cluster, restore).await?;
            self.uploads.learn(&upload, &backup, restore).await?;
        }
        Ok(RestoreItemOutcome::skipped())
    }
}

//! Lets the data of a snapshot be moved: begins the upload, follows it and ends it.

use std::sync::Arc;

use serde_json::Value;
use velero_api::annotations;
use velero_api::metadata;
use velero_api::v1::Backup;
use velero_cluster::{Cluster, types};
use velero_plugin::item::{filled, set_annotation};
use velero_plugin::{BackupItemOutcome, Error, OperationProgress, Result};

use super::claim::{NAME, naming_snapshot};
use crate::movement::{NodeAgents, Transfers, new_upload, upload_operation};
use crate::objects::identity;
use crate::removal::discard;

/// Lets the data of snapshots be moved.
pub(super) struct Mover {
    cluster: Cluster,
    uploads: Transfers,
}

impl Mover {
    pub(super) fn new(cluster: &Cluster, agents: &Arc<NodeAgents>) -> Self {
        Self { cluster: cluster.clone(), uploads: Transfers::uploads(cluster, agents) }
    }

    /// An error where the data of a claim cannot be moved, before a snapshot is taken for nothing.
    pub(super) fn check(&self, claim: &Value) -> Result<()> {
        if filled(claim, "/spec/storageClassName").is_some() {
            return Ok(());
        }
        let (namespace, name) = identity(claim);
        Err(Error::Item(format!(
            "the data of claim {namespace}/{name} cannot be moved: the claim has no storage class (spec.storageClassName), so no \
             volume can be made of its snapshot; back it up without snapshotMoveData or through a pod"
        )))
    }

    /// Begins to move the data of a snapshot. From here on it belongs to the data mover.
    pub(super) async fn begin(
        &self,
        claim: &Value,
        snapshot: &Value,
        content: &Value,
        backup: &Backup,
        data_mover: &str,
    ) -> Result<BackupItemOutcome> {
        let operation_id = upload_operation(backup, claim);
        let upload = serde_json::to_value(new_upload(claim, snapshot, content, backup, data_mover));
        let upload = upload.map_err(|error| Error::Failed(error.to_string()))?;
        let made = match self.uploads.create(&upload, &operation_id).await {
            Ok(made) => made,
            Err(error) => return Err(self.give_up(claim, snapshot, &operation_id, error, backup).await),
        };
        let (namespace, name) = identity(&made);
        let mut stored = naming_snapshot(claim, identity(snapshot).1, backup);
        set_annotation(&mut stored, annotations::DATA_UPLOAD_NAME, &format!("{namespace}/{name}"));
        Ok(BackupItemOutcome {
            updated_item: Some(stored),
            operation_id: Some(operation_id),
            items_to_update: vec![types::DATA_UPLOADS.identifier(namespace, name)],
            ..BackupItemOutcome::default()
        })
    }

    /// Removes the snapshot of an upload that did not come about; gives the reason in words. Should the upload be there all the
    /// same, it ends.
    async fn give_up(
        &self,
        claim: &Value,
        snapshot: &Value,
        operation_id: &str,
        error: Error,
        backup: &Backup,
    ) -> Error {
        let ((namespace, name), snapshot) = (identity(claim), identity(snapshot).1);
        let ended = self.uploads.cancel(metadata::namespace(backup), operation_id).await;
        let left = match ended.and(discard(&self.cluster, namespace, snapshot).await) {
            Ok(()) => String::new(),
            Err(error) => format!("; VolumeSnapshot {namespace}/{snapshot} may be left: {error}"),
        };
        Error::Item(format!(
            "the data of claim {namespace}/{name} is not moved: no DataUpload could be made: {error}{left}"
        ))
    }

    pub(super) async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress> {
        self.known(operation_id)?;
        self.uploads.progress(metadata::namespace(backup), operation_id).await
    }

    pub(super) async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<()> {
        self.known(operation_id)?;
        self.uploads.cancel(metadata::namespace(backup), operation_id).await
    }

    fn known(&self, operation_id: &str) -> Result<()> {
        match self.uploads.know(operation_id) {
            true => Ok(()),
            false => Err(Error::InvalidOperationId { action: NAME.to_owned(), operation_id: operation_id.to_owned() }),
        }
    }
}

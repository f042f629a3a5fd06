//! The volume of a restored claim is made of its snapshot, or filled by a data mover.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use velero_api::annotations::{DATA_UPLOAD_NAME, MUST_INCLUDE_ADDITIONAL_ITEMS_RESTORE, VOLUME_SNAPSHOT_NAME};
use velero_api::features::ENABLE_CSI;
use velero_api::metadata;
use velero_api::v1::{Backup, Restore};
use velero_cluster::{Cluster, types};
use velero_plugin::item::{annotation, set_annotation};
use velero_plugin::{
    Error, OperationProgress, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result,
};

use super::{backup_of, new_name, target, wants_data};
use crate::movement::{NodeAgents, Source, Transfers, Uploads, moves_data, new_download, waiting_for_download};
use crate::objects::{GROUP, SNAPSHOTS, identity};

const NAME: &str = "velero.io/csi-pvc-restorer";

/// Makes the snapshot of a claim, or what was moved of it, the source of its data.
pub(super) struct RestoreAction {
    cluster: Cluster,
    uploads: Arc<Uploads>,
    downloads: Transfers,
}

impl RestoreAction {
    pub(super) fn new(cluster: &Cluster, uploads: Arc<Uploads>, agents: &Arc<NodeAgents>) -> Self {
        Self { cluster: cluster.clone(), uploads, downloads: Transfers::downloads(cluster, agents) }
    }

    /// Whether a claim is there already. It keeps its data; what the backup has of it would be of no use.
    async fn exists(&self, claim: &Value, restore: &Restore) -> Result<bool> {
        let (namespace, name) = identity(claim);
        let place = types::PERSISTENT_VOLUME_CLAIMS.item(Some(target(restore, namespace)), name);
        Ok(self.cluster.get_raw(place).await?.is_some())
    }

    /// Lets a claim wait for a volume, and a data mover fill one for it.
    async fn move_back(
        &self,
        input: RestoreItemInput<'_>,
        upload: &str,
        backup: &Backup,
    ) -> Result<RestoreItemOutcome> {
        let RestoreItemInput { item, item_from_backup, restore } = input;
        let mut claim = empty(item);
        let outcome = |claim, operation_id| {
            Ok(RestoreItemOutcome { updated_item: Some(claim), operation_id, ..RestoreItemOutcome::default() })
        };
        let source = self.uploads.of_claim(upload, identity(item_from_backup), restore).await?;
        let Source::Moved(result) = source else {
            return outcome(claim, None);
        };
        let target = target(restore, identity(item_from_backup).0);
        waiting_for_download(&mut claim, target);
        // A restore that is only looked at has no identity, and nothing is made for it.
        if restore.metadata.uid.is_none() {
            return outcome(claim, None);
        }
        let (download, operation_id) = new_download(item_from_backup, target, &result, backup, restore);
        let download = serde_json::to_value(download).map_err(|error| Error::Failed(error.to_string()))?;
        self.downloads.create(&download, &operation_id).await?;
        outcome(claim, Some(operation_id))
    }

    fn known(&self, operation_id: &str) -> Result<()> {
        match self.downloads.know(operation_id) {
            true => Ok(()),
            false => Err(Error::InvalidOperationId { action: NAME.to_owned(), operation_id: operation_id.to_owned() }),
        }
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["persistentvolumeclaims"]))
    }

    fn needs_feature(&self) -> Option<&str> {
        Some(ENABLE_CSI)
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let RestoreItemInput { item, item_from_backup, restore } = input;
        let snapshot = annotation(item_from_backup, VOLUME_SNAPSHOT_NAME);
        let upload = annotation(item_from_backup, DATA_UPLOAD_NAME);
        if snapshot.is_none() && upload.is_none() {
            return Ok(RestoreItemOutcome::default());
        }
        if !wants_data(restore) {
            return Ok(RestoreItemOutcome { updated_item: Some(empty(item)), ..RestoreItemOutcome::default() });
        }
        if self.exists(item_from_backup, restore).await? {
            return Ok(RestoreItemOutcome::default());
        }
        // What a claim says may come from a backup before; whether data was moved is known to the backup itself.
        if let Some(upload) = upload {
            let backup = backup_of(&self.cluster, restore).await?;
            if moves_data(&backup) {
                return self.move_back(input, upload, &backup).await;
            }
        }
        let Some(snapshot) = snapshot else {
            return Ok(RestoreItemOutcome::default());
        };
        let mut claim = of_snapshot(item, &new_name(restore, snapshot));
        set_annotation(&mut claim, MUST_INCLUDE_ADDITIONAL_ITEMS_RESTORE, "true");
        Ok(RestoreItemOutcome {
            updated_item: Some(claim),
            additional_items: vec![SNAPSHOTS.identifier(identity(item_from_backup).0, snapshot)],
            ..RestoreItemOutcome::default()
        })
    }

    /// Of the operations, only those that move data are its own.
    async fn progress(&self, operation_id: &str, restore: &Restore) -> Result<OperationProgress> {
        self.known(operation_id)?;
        self.downloads.progress(metadata::namespace(restore), operation_id).await
    }

    async fn cancel(&self, operation_id: &str, restore: &Restore) -> Result<()> {
        self.known(operation_id)?;
        self.downloads.cancel(metadata::namespace(restore), operation_id).await
    }
}

/// The claim with an empty volume.
fn empty(claim: &Value) -> Value {
    let mut claim = claim.clone();
    if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["volumeName", "dataSource", "dataSourceRef"] {
            spec.remove(field);
        }
    }
    claim
}

/// The claim with a volume made of a snapshot.
fn of_snapshot(claim: &Value, snapshot: &str) -> Value {
    let mut claim = empty(claim);
    if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
        let source = json!({"apiGroup": GROUP, "kind": SNAPSHOTS.kind, "name": snapshot});
        spec.insert("dataSource".to_owned(), source);
    }
    claim
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("csi-claims", bring_back)]
    }

    fn bring_back(bytes: &[u8]) {
        let Ok(claim) = serde_json::from_slice::<Value>(bytes) else { return };
        assert!(
            of_snapshot(&claim, "s").pointer("/spec/volumeName").is_none(),
            "it would be bound to a volume of others"
        );
    }

    strike_all!(parsers);

    #[test]
    fn a_claim_gives_up_its_volume_for_the_snapshot() {
        let spec = json!({"volumeName": "pv", "dataSource": {"name": "old"}, "dataSourceRef": {"name": "old"}, "a": 1});
        let claim = json!({"spec": spec});
        let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
        assert_eq!(of_snapshot(&claim, "s"), json!({"spec": {"a": 1, "dataSource": source}}));
        assert_eq!(empty(&claim), json!({"spec": {"a": 1}}));
    }
}

//! The volume of a restored claim is made of its snapshot.

use async_trait::async_trait;
use serde_json::{Value, json};
use velero_api::annotations::{DATA_UPLOAD_NAME, MUST_INCLUDE_ADDITIONAL_ITEMS_RESTORE, VOLUME_SNAPSHOT_NAME};
use velero_api::features::ENABLE_CSI;
use velero_cluster::{Cluster, types};
use velero_plugin::item::{annotation, set_annotation};
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use super::{new_name, target, wants_data};
use crate::objects::{GROUP, SNAPSHOTS, identity};

/// Makes the snapshot of a claim the source of its data.
pub(super) struct RestoreAction {
    cluster: Cluster,
}

impl RestoreAction {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone() }
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/csi-pvc-restorer"
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
        let moved = annotation(item_from_backup, DATA_UPLOAD_NAME).is_some();
        let Some(snapshot) = snapshot.filter(|_| !moved) else {
            return Ok(RestoreItemOutcome::default());
        };
        if !wants_data(restore) {
            return Ok(RestoreItemOutcome { updated_item: Some(empty(item)), ..RestoreItemOutcome::default() });
        }
        let (namespace, name) = identity(item_from_backup);
        // A claim that is there keeps its data; its snapshot would be of no use.
        if self
            .cluster
            .get_raw(types::PERSISTENT_VOLUME_CLAIMS.item(Some(target(restore, namespace)), name))
            .await?
            .is_some()
        {
            return Ok(RestoreItemOutcome::default());
        }
        let mut claim = of_snapshot(item, &new_name(restore, snapshot));
        set_annotation(&mut claim, MUST_INCLUDE_ADDITIONAL_ITEMS_RESTORE, "true");
        Ok(RestoreItemOutcome {
            updated_item: Some(claim),
            additional_items: vec![SNAPSHOTS.identifier(namespace, snapshot)],
            ..RestoreItemOutcome::default()
        })
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
    use super::*;

    #[test]
    fn a_claim_gives_up_its_volume_for_the_snapshot() {
        let spec = json!({"volumeName": "pv", "dataSource": {"name": "old"}, "dataSourceRef": {"name": "old"}, "a": 1});
        let claim = json!({"spec": spec});
        let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
        assert_eq!(of_snapshot(&claim, "s"), json!({"spec": {"a": 1, "dataSource": source}}));
        assert_eq!(empty(&claim), json!({"spec": {"a": 1}}));
    }
}

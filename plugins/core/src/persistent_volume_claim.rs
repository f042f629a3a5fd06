//! Claims bring their volume, and stay together with the pods that mount it.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::metadata;
use velero_api::records::ResourceIdentifier;
use velero_api::type_names::PERSISTENT_VOLUME_CLAIMS as CLAIMS;
use velero_api::v1::Backup;
use velero_api::{annotations, labels};
use velero_plugin::item::{changed, filled, label, name, namespace, object_mut, remove, text};
use velero_plugin::{BackupItemAction, BackupItemOutcome, ItemBlockAction, ResourceSelector, Result};

use crate::indexes::{ClaimGroupIndex, MountIndex};

/// Stores a bound claim so that it can be bound anew, and adds its volume to the backup.
pub struct BackupAction;

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        "velero.io/pv"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[CLAIMS]))
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<BackupItemOutcome> {
        let Some(volume) = bound_volume(item) else {
            return Ok(BackupItemOutcome::default());
        };
        Ok(BackupItemOutcome {
            additional_items: vec![volume],
            updated_item: without_past(item, metadata::name(backup)),
            ..BackupItemOutcome::default()
        })
    }
}

/// Keeps a claim together with its volume, the running pods that mount it, and the claims of its volume group.
pub struct BlockAction {
    mounts: MountIndex,
    groups: ClaimGroupIndex,
}

impl BlockAction {
    /// Uses these indexes.
    pub fn new(mounts: MountIndex, groups: ClaimGroupIndex) -> Self {
        Self { mounts, groups }
    }
}

#[async_trait]
impl ItemBlockAction for BlockAction {
    fn name(&self) -> &str {
        "velero.io/pvc"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[CLAIMS]))
    }

    async fn related_items(&self, item: &Value, backup: &Backup) -> Result<Vec<ResourceIdentifier>> {
        let Some(volume) = bound_volume(item) else {
            return Ok(Vec::new());
        };
        let (namespace, name) = (namespace(item), name(item));
        let in_namespace = |resource: &str, name: &str| ResourceIdentifier::new("", resource, namespace, name);
        let mut related = vec![volume];
        let pods = self.mounts.pods(backup, namespace, name).await?;
        related.extend(pods.iter().map(|pod| in_namespace("pods", pod)));
        let key = backup.spec.volume_group_snapshot_label_key.as_str();
        if let Some(group) = label(item, key).filter(|group| !key.is_empty() && !group.is_empty()) {
            let claims = self.groups.claims(backup, namespace, group).await?;
            let others = claims.iter().filter(|claim| *claim != name);
            related.extend(others.map(|claim| in_namespace(CLAIMS, claim)));
        }
        Ok(related)
    }
}

/// The volume of a claim that is bound.
pub(crate) fn bound_volume(claim: &Value) -> Option<ResourceIdentifier> {
    let volume = filled(claim, "/spec/volumeName").filter(|_| text(claim, "/status/phase") == "Bound")?;
    Some(ResourceIdentifier::new("", "persistentvolumes", "", volume))
}

/// The claim without what only made sense when it was first bound; `None` when there is nothing of that.
fn without_past(claim: &Value, backup: &str) -> Option<Value> {
    // An empty class name asks for a volume made by hand, which the selector finds; otherwise it is in the way.
    let keeps_selector = claim.pointer("/spec/storageClassName").and_then(Value::as_str) == Some("");
    changed(claim, |claim| {
        remove(claim, "/spec", "dataSource");
        remove(claim, "/spec", "dataSourceRef");
        if !keeps_selector {
            remove(claim, "/spec", "selector");
        }
        if let Some(labels) = object_mut(claim, "/spec/selector/matchLabels") {
            labels.retain(|key, _| !key.starts_with("velero.io/"));
        }
        if let Some(labels) = object_mut(claim, "/metadata/labels") {
            labels.retain(|key, value| !is_stale(key, value, backup));
        }
    })
}

/// Whether a label of a claim was left by an earlier backup or restore.
fn is_stale(key: &str, value: &Value, backup: &str) -> bool {
    match key {
        labels::RESTORE_NAME | labels::VOLUME_SNAPSHOT_NAME | annotations::MUST_INCLUDE_ADDITIONAL_ITEMS => true,
        labels::BACKUP_NAME => value.as_str() != Some(backup),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim() -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": "data", "labels": {
                "app": "web",
                "velero.io/restore-name": "r1",
                "velero.io/backup-name": "old",
                "velero.io/volume-snapshot-name": "s1",
            }},
            "spec": {
                "volumeName": "pv-1",
                "storageClassName": "fast",
                "dataSource": {"kind": "VolumeSnapshot"},
                "dataSourceRef": {"kind": "VolumeSnapshot"},
                "selector": {"matchLabels": {"velero.io/dynamic-pv-restore": "x", "tier": "gold"}},
            },
            "status": {"phase": "Bound"},
        })
    }

    #[test]
    fn a_bound_claim_loses_its_past() {
        let changed = without_past(&claim(), "b1").unwrap();
        assert_eq!(changed["spec"], json!({"volumeName": "pv-1", "storageClassName": "fast"}));
        assert_eq!(changed["metadata"]["labels"], json!({"app": "web"}));
    }

    #[test]
    fn a_claim_without_a_class_keeps_its_selector() {
        let mut item = claim();
        item["spec"]["storageClassName"] = json!("");
        let changed = without_past(&item, "b1").unwrap();
        assert_eq!(changed["spec"]["selector"], json!({"matchLabels": {"tier": "gold"}}));
    }

    #[test]
    fn the_label_of_this_backup_stays() {
        let item = json!({"metadata": {"labels": {"velero.io/backup-name": "b1"}}, "spec": {"volumeName": "pv"}});
        assert_eq!(without_past(&item, "b1"), None);
    }

    #[test]
    fn only_a_bound_claim_brings_a_volume() {
        assert_eq!(bound_volume(&claim()).unwrap().name, "pv-1");
        for (pointer, value) in [("/status/phase", "Pending"), ("/status/phase", "Lost"), ("/spec/volumeName", "")] {
            let mut item = claim();
            *item.pointer_mut(pointer).unwrap() = json!(value);
            assert_eq!(bound_volume(&item), None, "{pointer} {value}");
        }
    }
}

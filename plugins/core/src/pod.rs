//! Pods bring their claims and their priority class.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Backup;
use velero_plugin::item::{elements, filled, namespace};
use velero_plugin::{BackupItemAction, BackupItemOutcome, ItemBlockAction, ResourceSelector, Result};

const NAME: &str = "velero.io/pod";

/// Adds the claims and the priority class of a pod to the backup.
pub struct BackupAction;

#[async_trait]
impl BackupItemAction for BackupAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["pods"]))
    }

    async fn execute(&self, item: &Value, _: &Backup) -> Result<BackupItemOutcome> {
        Ok(BackupItemOutcome { additional_items: related(item), ..BackupItemOutcome::default() })
    }
}

/// Keeps a pod and its claims together.
pub struct BlockAction;

#[async_trait]
impl ItemBlockAction for BlockAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["pods"]))
    }

    async fn related_items(&self, item: &Value, _: &Backup) -> Result<Vec<ResourceIdentifier>> {
        Ok(related(item))
    }
}

fn related(pod: &Value) -> Vec<ResourceIdentifier> {
    priority_class(pod).into_iter().chain(claims(pod)).collect()
}

/// The priority class of a pod.
pub(crate) fn priority_class(pod: &Value) -> Option<ResourceIdentifier> {
    let name = filled(pod, "/spec/priorityClassName")?;
    Some(ResourceIdentifier::new("scheduling.k8s.io", "priorityclasses", "", name))
}

/// The claims a pod mounts.
pub(crate) fn claims(pod: &Value) -> impl Iterator<Item = ResourceIdentifier> {
    let names = elements(pod, "/spec/volumes").filter_map(|volume| filled(volume, "/persistentVolumeClaim/claimName"));
    names.map(|name| ResourceIdentifier::new("", "persistentvolumeclaims", namespace(pod), name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(pod: &Value) -> Vec<String> {
        let describe = |item: ResourceIdentifier| format!("{} {}/{}", item.group_resource(), item.namespace, item.name);
        related(pod).into_iter().map(describe).collect()
    }

    #[test]
    fn a_pod_brings_its_claims_and_its_priority_class() {
        let pod = json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "priorityClassName": "high",
                "volumes": [
                    {"name": "cache", "emptyDir": {}},
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                    {"name": "odd", "persistentVolumeClaim": {"claimName": ""}},
                ],
            },
        });
        assert_eq!(names(&pod), ["priorityclasses.scheduling.k8s.io /high", "persistentvolumeclaims shop/data"]);
    }

    #[test]
    fn a_pod_without_volumes_brings_nothing() {
        assert!(names(&json!({"metadata": {"namespace": "shop"}, "spec": {}})).is_empty());
        assert!(names(&json!({})).is_empty());
    }
}

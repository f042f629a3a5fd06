//! Pods bring their claims and their priority class.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Backup;
use velero_plugin::{BackupItemAction, BackupItemOutcome, ItemBlockAction, ResourceSelector, Result};

use crate::text;

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
    let name = text(pod, "/spec/priorityClassName");
    (!name.is_empty()).then(|| ResourceIdentifier {
        group: "scheduling.k8s.io".to_owned(),
        resource: "priorityclasses".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    })
}

/// The claims a pod mounts.
pub(crate) fn claims(pod: &Value) -> impl Iterator<Item = ResourceIdentifier> {
    let namespace = text(pod, "/metadata/namespace");
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    let names = volumes.into_iter().flatten().map(|volume| text(volume, "/persistentVolumeClaim/claimName"));
    names.filter(|name| !name.is_empty()).map(move |name| ResourceIdentifier {
        group: String::new(),
        resource: "persistentvolumeclaims".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
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

//! Pods start anew: on any node, with a token that the cluster makes.

use async_trait::async_trait;
use serde_json::Value;
use velero_plugin::item::{elements_mut, list_mut, object_mut, text};
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use crate::pod::priority_class;

/// Frees a pod from its node, its computed priority and its old token, and adds its priority class to the restore.
pub struct RestoreAction;

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/pod"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["pods"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let additional_items = priority_class(input.item).into_iter().collect();
        Ok(RestoreItemOutcome { additional_items, ..RestoreItemOutcome::changed(input.item, free) })
    }
}

fn free(pod: &mut Value) {
    let token = format!("{}-token-", text(pod, "/spec/serviceAccountName"));
    let is_kept = |named: &Value| !text(named, "/name").starts_with(&token);
    if let Some(spec) = object_mut(pod, "/spec") {
        spec.remove("nodeName");
        spec.remove("priority");
    }
    if let Some(volumes) = list_mut(pod, "/spec/volumes") {
        volumes.retain(is_kept);
    }
    for containers in ["/spec/containers", "/spec/initContainers"] {
        for container in elements_mut(pod, containers) {
            if let Some(mounts) = list_mut(container, "/volumeMounts") {
                mounts.retain(is_kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_api::v1::{Restore, RestoreSpec};

    use super::*;

    fn freed(mut spec: Value) -> Value {
        spec["containers"] = spec.get("containers").cloned().unwrap_or_else(|| json!([]));
        let mut pod = json!({"metadata": {"name": "web"}, "spec": spec});
        free(&mut pod);
        pod["spec"].take()
    }

    #[test]
    fn the_node_and_the_computed_priority_go() {
        let spec = json!({"nodeName": "n1", "priority": 7, "priorityClassName": "high", "serviceAccountName": "foo"});
        assert_eq!(freed(spec), json!({"priorityClassName": "high", "serviceAccountName": "foo", "containers": []}));
    }

    #[test]
    fn the_old_token_goes_with_its_mounts() {
        let named = |names: &[&str]| Value::from_iter(names.iter().map(|name| json!({"name": name})));
        for (account, before, after) in [
            ("foo", vec!["foo"], vec!["foo"]),
            ("foo", vec!["foo", "foo-token-foo"], vec!["foo"]),
            ("foo", vec!["foo-token-", "data", "foo-token-x"], vec!["data"]),
            (
                "foo",
                vec!["bar-token-x", "foo-tokens", "my-foo-token-x"],
                vec!["bar-token-x", "foo-tokens", "my-foo-token-x"],
            ),
            ("foo", vec!["kube-api-access-x"], vec!["kube-api-access-x"]),
            ("", vec!["-token-x", "foo-token-x"], vec!["foo-token-x"]),
        ] {
            let spec = |names: &[&str]| {
                let container = json!([{"name": "main", "volumeMounts": named(names)}, {"name": "bare"}]);
                json!({
                    "serviceAccountName": account, "volumes": named(names),
                    "containers": container, "initContainers": container,
                })
            };
            assert_eq!(freed(spec(&before)), spec(&after), "{account} {before:?}");
        }
    }

    #[test]
    fn a_pod_without_any_of_that_stays_as_it_is() {
        assert_eq!(
            RestoreItemOutcome::changed(&json!({"spec": {"containers": [{"name": "main"}]}}), free).updated_item,
            None
        );
        assert_eq!(RestoreItemOutcome::changed(&json!({}), free).updated_item, None);
    }

    #[test]
    fn a_pod_brings_its_priority_class_and_leaves_its_claims_to_another_action() {
        let restore = Restore::new("velero", "r1", RestoreSpec::default());
        let pod = json!({"metadata": {"namespace": "shop"}, "spec": {"priorityClassName": "high", "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        ]}});
        let input = RestoreItemInput { item: &pod, item_from_backup: &pod, restore: &restore };
        let outcome = futures::executor::block_on(RestoreAction.execute(input)).unwrap();
        let items: Vec<_> = outcome.additional_items.iter().map(ToString::to_string).collect();
        assert_eq!(items, ["priorityclasses.scheduling.k8s.io high"]);
    }
}

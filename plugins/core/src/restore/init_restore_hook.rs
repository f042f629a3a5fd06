//! Pods get the init containers that the hooks of the restore, or their own annotations, ask for.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::metadata;
use velero_api::v1::Restore;
use velero_plugin::item::{describe, text};
use velero_plugin::{Error, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};
use velero_rules::restore_hooks::{RestoreHookRules, insert_init_containers};

/// Adds the init containers of restore hooks to a pod.
pub struct RestoreAction;

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/init-restore-hook"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["pods"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let containers = init_containers(input.item, input.restore)?;
        if containers.is_empty() {
            return Ok(RestoreItemOutcome::default());
        }
        Ok(RestoreItemOutcome::changed(input.item, |pod| insert_init_containers(pod, containers)))
    }
}

fn init_containers(pod: &Value, restore: &Restore) -> Result<Vec<Value>> {
    let spec = &restore.spec;
    let rules = RestoreHookRules::new(&spec.hooks, resolve).map_err(|error| {
        let name = metadata::name(restore);
        Error::Item(format!("hooks of restore {name}: {error}"))
    })?;
    let namespace = text(pod, "/metadata/namespace");
    let target = spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str);
    let containers = rules.init_containers(pod, target);
    containers.map_err(|error| Error::Item(format!("{}: {error}", describe(pod))))
}

/// Hooks are for pods alone, so their names are the only ones that matter.
fn resolve(resource: &str) -> Option<String> {
    let is_pod = ["pods", "pod", "po"].iter().any(|name| name.eq_ignore_ascii_case(resource));
    is_pod.then(|| "pods".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_api::v1::RestoreSpec;

    use super::*;

    fn restore(hook: &Value) -> Restore {
        let mut spec: RestoreSpec = serde_json::from_value(json!({"hooks": {"resources": [hook]}})).unwrap();
        spec.namespace_mapping.insert("shop".to_owned(), "shop-2".to_owned());
        Restore::new("velero", "r1", spec)
    }

    fn with_init(mut group: Value) -> Value {
        let container = json!({"name": "hook", "image": "busybox", "command": ["true"]});
        group["name"] = "h1".into();
        group["postHooks"] = json!([{"init": {"initContainers": [container]}}]);
        group
    }

    fn pod(annotations: &Value) -> Value {
        json!({
            "kind": "Pod",
            "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
            "spec": {"containers": [{"name": "main"}], "initContainers": [{"name": "restore-wait"}, {"name": "own"}]},
        })
    }

    fn names(pod: &Value, restore: &Restore) -> Result<Vec<String>> {
        let input = RestoreItemInput { item: pod, item_from_backup: pod, restore };
        let outcome = futures::executor::block_on(RestoreAction.execute(input))?;
        let pod = outcome.updated_item.as_ref().unwrap_or(pod);
        let containers = pod["spec"]["initContainers"].as_array().unwrap();
        Ok(containers.iter().map(|container| text(container, "/name").to_owned()).collect())
    }

    #[test]
    fn a_hook_is_for_the_namespace_a_pod_goes_to() {
        for (group, applies) in [
            (json!({}), true),
            (json!({"includedNamespaces": ["shop-2"]}), true),
            (json!({"includedNamespaces": ["shop"]}), false),
            (json!({"excludedNamespaces": ["shop-2"]}), false),
            (json!({"includedResources": ["po"]}), true),
            (json!({"includedResources": ["Pod"]}), true),
            (json!({"labelSelector": {"matchLabels": {"app": "other"}}}), false),
        ] {
            let found = names(&pod(&json!({})), &restore(&with_init(group.clone()))).unwrap();
            let expected: &[&str] = if applies { &["restore-wait", "hook", "own"] } else { &["restore-wait", "own"] };
            assert_eq!(found, expected, "{group}");
        }
    }

    #[test]
    fn annotations_replace_the_hooks_of_the_restore() {
        let annotations = json!({
            "init.hook.restore.velero.io/container-image": "busybox",
            "init.hook.restore.velero.io/container-name": "mine",
        });
        let found = names(&pod(&annotations), &restore(&with_init(json!({})))).unwrap();
        assert_eq!(found, ["restore-wait", "mine", "own"]);
    }

    #[test]
    fn an_init_container_that_cannot_run_fails_the_pod() {
        let hook = json!({"name": "h1", "postHooks": [{"init": {"initContainers": [{"name": "hook"}]}}]});
        let error = names(&pod(&json!({})), &restore(&hook)).unwrap_err().to_string();
        assert!(error.contains("Pod shop/web"), "{error}");
    }

    #[test]
    fn an_unreadable_selector_names_the_restore() {
        let expression = json!([{"key": "app", "operator": "Near", "values": ["a"]}]);
        let hook = with_init(json!({"labelSelector": {"matchExpressions": expression}}));
        let error = names(&pod(&json!({})), &restore(&hook)).unwrap_err().to_string();
        assert!(error.contains("restore r1"), "{error}");
    }
}

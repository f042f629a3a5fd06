//! What tells whether a pod that something else would make again is worth restoring itself.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use velero_api::annotations::{restore_exec_hook, restore_init_hook};
use velero_api::metadata;
use velero_api::v1::Restore;
use velero_plugin::item::{annotation, elements, text};
use velero_plugin::{Error, Result};
use velero_rules::restore_hooks::RestoreHookRules;

/// The most characters a label may have.
const LABEL: usize = 63;
/// How much of a name is kept, and of its hash added, when it is too long for a label.
const KEPT: (usize, usize) = (57, 6);

/// Volumes that hold no data of their own.
const WITHOUT_DATA: &[&str] = &["hostPath", "secret", "configMap", "projected", "downwardAPI"];

/// Whether a pod has volumes with data.
pub(crate) fn has_volumes(pod: &Value) -> bool {
    elements(pod, "/spec/volumes").any(|volume| {
        let has_data = !WITHOUT_DATA.iter().any(|source| volume.get(source).is_some());
        has_data && !text(volume, "/name").starts_with("default-token")
    })
}

/// Whether the annotations of a pod ask for a hook when it is restored.
pub(crate) fn has_hook_annotations(pod: &Value) -> bool {
    [restore_exec_hook::COMMAND, restore_init_hook::CONTAINER_IMAGE].iter().any(|key| annotation(pod, key).is_some())
}

/// Whether hooks of a restore select pods of a namespace with these labels.
pub(crate) fn hooks_select(restore: &Restore, namespace: &str, labels: &Value) -> Result<bool> {
    let rules = RestoreHookRules::new(&restore.spec.hooks, pods_alone).map_err(|error| {
        let name = metadata::name(restore);
        Error::Item(format!("hooks of restore {name}: {error}"))
    })?;
    Ok(rules.select(&json!({"metadata": {"labels": labels}}), namespace))
}

/// Hooks are for pods alone, so their names are the only ones that matter.
fn pods_alone(resource: &str) -> Option<String> {
    let is_pod = ["pods", "pod", "po"].iter().any(|name| name.eq_ignore_ascii_case(resource));
    is_pod.then(|| "pods".to_owned())
}

/// Whether a backup took all volumes through the file system.
pub(crate) fn takes_all_volumes(backup: &Value) -> bool {
    let fields = ["/spec/defaultVolumesToRestic", "/spec/defaultVolumesToFsBackup"];
    fields.iter().any(|field| backup.pointer(field) == Some(&json!(true)))
}

/// Labels as `key=value,…`, sorted.
pub(crate) fn labels_to_text(labels: &Value) -> String {
    let labels: BTreeMap<_, _> = labels.as_object().into_iter().flatten().collect();
    let pairs = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

/// The labels back from their text.
pub(crate) fn labels_from_text(text: &str) -> Value {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into()
}

/// A name as the value of a label.
pub(crate) fn label_value(name: &str) -> String {
    if name.len() <= LABEL {
        return name.to_owned();
    }
    let hash: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    let (kept, added) = KEPT;
    name.chars().take(kept).chain(hash.chars().take(added)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::restore;

    #[test]
    fn only_volumes_with_data_count() {
        for (volume, expected) in [
            (json!({"name": "a", "persistentVolumeClaim": {"claimName": "data"}}), true),
            (json!({"name": "a", "emptyDir": {}}), true),
            (json!({"name": "a", "hostPath": {"path": "/"}}), false),
            (json!({"name": "a", "secret": {}}), false),
            (json!({"name": "a", "configMap": {}}), false),
            (json!({"name": "a", "projected": {}}), false),
            (json!({"name": "a", "downwardAPI": {}}), false),
            (json!({"name": "default-token-x", "emptyDir": {}}), false),
        ] {
            assert_eq!(has_volumes(&json!({"spec": {"volumes": [volume]}})), expected, "{volume}");
        }
        assert!(!has_volumes(&json!({"spec": {}})));
    }

    #[test]
    fn hooks_select_by_namespace_resource_and_labels() {
        let hook = json!([{"exec": {"command": ["true"]}}]);
        for (group, expected) in [
            (json!({"postHooks": hook}), Some(true)),
            (json!({"postHooks": []}), Some(false)),
            (json!({"postHooks": hook, "includedNamespaces": ["shop"]}), Some(true)),
            (json!({"postHooks": hook, "includedNamespaces": ["bank"]}), Some(false)),
            (json!({"postHooks": hook, "excludedNamespaces": ["shop"]}), Some(false)),
            (json!({"postHooks": hook, "includedResources": ["pods"]}), Some(true)),
            (json!({"postHooks": hook, "includedResources": ["deployments"]}), Some(false)),
            (json!({"postHooks": hook, "labelSelector": {"matchLabels": {"app": "web"}}}), Some(true)),
            (json!({"postHooks": hook, "labelSelector": {"matchLabels": {"app": "db"}}}), Some(false)),
            (
                json!({"postHooks": hook, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "?"}]}}),
                None,
            ),
        ] {
            let restore = restore(&json!({"spec": {"hooks": {"resources": [group]}}}));
            assert_eq!(hooks_select(&restore, "shop", &json!({"app": "web"})).ok(), expected, "{group}");
        }
    }

    #[test]
    fn labels_become_text_and_back() {
        let labels = json!({"b": "2", "a": "1", "empty": ""});
        assert_eq!(labels_to_text(&labels), "a=1,b=2,empty=");
        assert_eq!(labels_from_text("a=1,b=2,empty="), labels);
        assert_eq!((labels_to_text(&json!(null)).as_str(), labels_from_text("")), ("", json!({})));
    }

    #[test]
    fn a_long_name_is_cut_and_told_from_others_by_its_hash() {
        let long = "x".repeat(64);
        let value = label_value(&long);
        assert_eq!((value.len(), &value[..57]), (63, &long[..57]));
        assert_ne!(value, label_value(&format!("{long}y")));
        assert_eq!(label_value(&"x".repeat(63)), "x".repeat(63));
    }
}

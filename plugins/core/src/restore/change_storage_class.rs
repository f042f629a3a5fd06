//! Storage classes may have other names where a backup is restored.
//!
//! The plugin config maps old class names to new ones; a new one has to exist.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::OnceCell;
use velero_cluster::{Cluster, types};
use velero_plugin::item::{describe, elements_mut, text};
use velero_plugin::{Error, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use super::lookup::{self, PluginConfig};

const NAME: &str = "velero.io/change-storage-class";

/// Changes the class names of volumes, claims and claim templates as the plugin config says.
pub struct RestoreAction {
    cluster: Cluster,
    config: PluginConfig,
    classes: OnceCell<BTreeSet<String>>,
}

impl RestoreAction {
    /// Reads its config from `namespace`, and the classes of the cluster, when they are first needed.
    pub fn new(cluster: &Cluster, namespace: &str) -> Self {
        Self { cluster: cluster.clone(), config: PluginConfig::new(cluster, namespace, NAME), classes: OnceCell::new() }
    }

    async fn classes(&self) -> Result<&BTreeSet<String>> {
        self.classes.get_or_try_init(async || lookup::names(&self.cluster, &types::STORAGE_CLASSES, None).await).await
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        NAME
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["persistentvolumeclaims", "persistentvolumes", "statefulsets.apps"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let mapping = self.config.data().await?;
        if mapping.is_empty() {
            return Ok(RestoreItemOutcome::default());
        }
        let mut item = input.item.clone();
        let chosen = remap(&mut item, mapping);
        if !chosen.is_empty() {
            let classes = self.classes().await?;
            if let Some(missing) = chosen.iter().find(|class| !classes.contains(**class)) {
                return Err(Error::Item(format!(
                    "{}: storage class {missing} does not exist; create it or correct the plugin config of {NAME}",
                    describe(input.item)
                )));
            }
        }
        Ok(RestoreItemOutcome::updated(input.item, item))
    }
}

/// Replaces the class names that are mapped; gives the new ones.
fn remap<'a>(item: &mut Value, mapping: &'a BTreeMap<String, String>) -> BTreeSet<&'a str> {
    let mut chosen = BTreeSet::new();
    let mut replace = |owner: &mut Value| {
        let old = text(owner, "/spec/storageClassName");
        if let Some(class) = mapping.get(old).filter(|_| !old.is_empty()) {
            owner["spec"]["storageClassName"] = class.as_str().into();
            chosen.insert(class.as_str());
        }
    };
    if text(item, "/kind") == "StatefulSet" {
        elements_mut(item, "/spec/volumeClaimTemplates").for_each(&mut replace);
    } else {
        replace(item);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mapping(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect()
    }

    #[test]
    fn mapped_names_are_replaced_in_volumes_and_claims() {
        for (class, pairs, expected) in [
            (json!("one"), vec![("one", "two")], json!("two")),
            (json!("one"), vec![("three", "four")], json!("one")),
            (json!("one"), vec![("one", "one")], json!("one")),
            (json!(""), vec![("one", "two")], json!("")),
            (Value::Null, vec![("one", "two")], Value::Null),
        ] {
            for kind in ["PersistentVolume", "PersistentVolumeClaim"] {
                let mapping = mapping(&pairs);
                let mut item = json!({"kind": kind, "spec": {"storageClassName": class}});
                let chosen = remap(&mut item, &mapping);
                assert_eq!(item["spec"]["storageClassName"], expected, "{kind} {class} {pairs:?}");
                assert_eq!(chosen.is_empty(), !pairs.iter().any(|(old, _)| class == *old), "{kind} {class} {pairs:?}");
            }
        }
    }

    #[test]
    fn each_claim_template_is_looked_at() {
        let mapping = mapping(&[("1", "a"), ("2", "b"), ("3", "c")]);
        for (before, after) in [
            (vec!["1"], vec!["a"]),
            (vec!["1", "1"], vec!["a", "a"]),
            (vec!["1", "2", "3"], vec!["a", "b", "c"]),
            (vec!["1", "9"], vec!["a", "9"]),
            (vec![], vec![]),
        ] {
            let set = |classes: &[&str]| {
                let templates = classes.iter().map(|class| json!({"spec": {"storageClassName": class}}));
                json!({"kind": "StatefulSet", "spec": {"volumeClaimTemplates": Value::from_iter(templates)}})
            };
            let mut item = set(&before);
            remap(&mut item, &mapping);
            assert_eq!(item, set(&after), "{before:?}");
        }
    }

    #[test]
    fn an_item_without_a_class_stays_as_it_is() {
        let mapping = mapping(&[("", "a"), ("1", "a")]);
        for item in [json!({"kind": "PersistentVolumeClaim", "spec": {}}), json!({"kind": "StatefulSet"})] {
            let mut changed = item.clone();
            assert!(remap(&mut changed, &mapping).is_empty(), "{item}");
            assert_eq!(changed, item);
        }
    }
}

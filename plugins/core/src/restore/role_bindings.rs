//! Bindings name subjects by namespace, so they follow the namespace mapping.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Value;
use velero_plugin::item::elements_mut;
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

/// Gives the subjects of a binding the namespaces that they are restored to.
pub struct RestoreAction {
    name: &'static str,
    resource: &'static str,
}

impl RestoreAction {
    /// The action on bindings of the whole cluster.
    pub fn of_cluster() -> Self {
        Self { name: "velero.io/cluster-role-bindings", resource: "clusterrolebindings.rbac.authorization.k8s.io" }
    }

    /// The action on bindings of single namespaces.
    pub fn of_namespaces() -> Self {
        Self { name: "velero.io/role-bindings", resource: "rolebindings.rbac.authorization.k8s.io" }
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        self.name
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[self.resource]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        Ok(RestoreItemOutcome::changed(input.item, |binding| remap(binding, &input.restore.spec.namespace_mapping)))
    }
}

fn remap(binding: &mut Value, mapping: &BTreeMap<String, String>) {
    for namespace in elements_mut(binding, "/subjects").filter_map(|subject| subject.get_mut("namespace")) {
        if let Some(target) = namespace.as_str().and_then(|source| mapping.get(source)) {
            *namespace = target.as_str().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subjects_follow_the_mapping() {
        for (namespaces, mapping, expected) in [
            (vec!["foo"], vec![], vec!["foo"]),
            (vec!["foo"], vec![("foo", "bar")], vec!["bar"]),
            (vec!["foo"], vec![("other", "bar")], vec!["foo"]),
            (vec!["foo", "baz"], vec![("foo", "bar"), ("a", "b")], vec!["bar", "baz"]),
            (vec!["a", "b"], vec![("a", "b"), ("b", "a")], vec!["b", "a"]),
        ] {
            let binding = |namespaces: &[&str]| {
                let subjects =
                    namespaces.iter().map(|it| json!({"kind": "ServiceAccount", "namespace": it, "name": "x"}));
                json!({"subjects": Value::from_iter(subjects)})
            };
            let mapping = mapping.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect();
            let mut item = binding(&namespaces);
            remap(&mut item, &mapping);
            assert_eq!(item, binding(&expected), "{namespaces:?} {mapping:?}");
        }
    }

    #[test]
    fn a_subject_without_a_namespace_stays_as_it_is() {
        let mapping = BTreeMap::from([("foo".to_owned(), "bar".to_owned()), (String::new(), "bar".to_owned())]);
        for binding in [json!({"subjects": [{"kind": "User", "name": "foo"}]}), json!({"subjects": null}), json!({})] {
            assert_eq!(RestoreItemOutcome::changed(&binding, |it| remap(it, &mapping)).updated_item, None, "{binding}");
        }
    }
}

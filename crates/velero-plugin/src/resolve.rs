//! What an action applies to.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use velero_cluster::Discovery;
use velero_rules::includes_excludes::IncludesExcludes;
use velero_rules::selector::Selector;

use crate::error::{Error, Result};

/// The items an action wants to see, in the words of its author. Empty lists mean everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceSelector {
    /// Namespaces to take.
    pub included_namespaces: Vec<String>,
    /// Namespaces to leave out.
    pub excluded_namespaces: Vec<String>,
    /// Types to take, by any name the cluster knows them by.
    pub included_resources: Vec<String>,
    /// Types to leave out.
    pub excluded_resources: Vec<String>,
    /// Labels the item must have, as `kubectl` writes them.
    pub label_selector: String,
}

impl ResourceSelector {
    /// All items of these types.
    pub fn resources(names: &[&str]) -> Self {
        Self { included_resources: names.iter().map(|name| (*name).to_owned()).collect(), ..Self::default() }
    }
}

/// An action with its selector in the names the cluster uses.
#[derive(Clone)]
pub struct Resolved<A> {
    /// The action.
    pub action: A,
    resources: IncludesExcludes,
    namespaces: IncludesExcludes,
    labels: Selector,
}

/// Resolves a selector against what the cluster serves. Done once a backup for each action.
pub fn resolve<A>(name: &str, action: A, selector: &ResourceSelector, discovery: &Discovery) -> Result<Resolved<A>> {
    let labels = selector.label_selector.parse();
    let type_name = |name: &str| discovery.resolve(name).map(|found| found.group_resource());
    Ok(Resolved {
        action,
        resources: IncludesExcludes::of_resources(
            &selector.included_resources,
            &selector.excluded_resources,
            type_name,
        ),
        namespaces: IncludesExcludes::new(&selector.included_namespaces, &selector.excluded_namespaces),
        labels: labels.map_err(|source| Error::Selector { action: name.to_owned(), source })?,
    })
}

impl<A> Resolved<A> {
    /// Whether any item of a type can match; asked once a type, so that most items need no further question.
    pub fn applies_to_type(&self, group_resource: &str) -> bool {
        self.resources.should_include(group_resource)
    }

    /// Whether an item of a type that can match does match. A cluster-scoped item matches only a selector that leaves
    /// no namespace out.
    pub fn applies_to_item<L: Borrow<BTreeMap<String, String>>>(
        &self,
        namespace: Option<&str>,
        labels: impl FnOnce() -> L,
    ) -> bool {
        let in_namespace = match namespace {
            Some(namespace) => self.namespaces.should_include(namespace),
            None => self.namespaces.include_everything(),
        };
        in_namespace && (self.labels.is_empty() || self.labels.matches(labels().borrow()))
    }
}

#[cfg(test)]
mod tests {
    use velero_cluster::{ResourceType, types};

    use super::*;

    fn discovery() -> Discovery {
        let types = vec![types::PODS.clone(), ResourceType::new("apps/v1", "Deployment", "deployments", true)];
        Discovery::new(types, Vec::new())
    }

    fn no_labels() -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    #[test]
    fn any_name_of_a_type_selects_it() {
        for name in ["pods", "pod", "Pod"] {
            let selector = ResourceSelector::resources(&[name]);
            let resolved = resolve("a.io/b", (), &selector, &discovery()).unwrap();
            assert!(resolved.applies_to_type("pods"), "{name}");
            assert!(!resolved.applies_to_type("deployments.apps"), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_does_not_select_everything() {
        let selector = ResourceSelector::resources(&["widgets.example.com"]);
        let resolved = resolve("a.io/b", (), &selector, &discovery()).unwrap();
        assert!(!resolved.applies_to_type("pods"));
    }

    #[test]
    fn a_cluster_scoped_item_needs_a_selector_without_namespaces() {
        let everywhere = resolve("a.io/b", (), &ResourceSelector::default(), &discovery()).unwrap();
        assert!(everywhere.applies_to_item(None, no_labels));
        let selector =
            ResourceSelector { excluded_namespaces: vec!["kube-system".to_owned()], ..ResourceSelector::default() };
        let somewhere = resolve("a.io/b", (), &selector, &discovery()).unwrap();
        assert!(!somewhere.applies_to_item(None, no_labels));
        assert!(somewhere.applies_to_item(Some("shop"), no_labels));
        assert!(!somewhere.applies_to_item(Some("kube-system"), no_labels));
    }

    #[test]
    fn labels_are_compared_and_a_bad_selector_is_named() {
        let mut selector = ResourceSelector { label_selector: "app=web".to_owned(), ..ResourceSelector::default() };
        let resolved = resolve("a.io/b", (), &selector, &discovery()).unwrap();
        let web = || BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        assert!(resolved.applies_to_item(Some("shop"), web));
        assert!(!resolved.applies_to_item(Some("shop"), no_labels));
        selector.label_selector = "app in (".to_owned();
        let error = resolve("a.io/b", (), &selector, &discovery()).err().unwrap();
        assert!(error.to_string().contains("a.io/b"), "{error}");
    }
}

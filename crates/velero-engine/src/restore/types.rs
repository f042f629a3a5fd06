//! The types that objects can be written as: what the cluster serves, and what restored definitions add to it.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use velero_cluster::{Discovery, ResourceType};
use velero_plugin::item::text;

/// A type to write an object as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Served {
    pub resource_type: Arc<ResourceType>,
    /// Whether the type comes from a definition of this very restore, and the server may need a moment to serve it.
    pub is_new: bool,
}

/// The types known so far.
pub(super) struct Types {
    known: RwLock<Known>,
}

struct Known {
    discovery: Arc<Discovery>,
    defined: Vec<Arc<ResourceType>>,
}

impl Types {
    pub(super) fn new(discovery: Arc<Discovery>) -> Self {
        Self { known: RwLock::new(Known { discovery, defined: Vec::new() }) }
    }

    /// The type of an object; `None` when nobody serves it.
    pub(super) fn of(&self, object: &Value) -> Option<Served> {
        let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let matches = |found: &&Arc<ResourceType>| found.kind == kind && found.api_version() == api_version;
        let defined = known.defined.iter().find(matches).cloned();
        let served = known.discovery.by_kind(api_version, kind).map(|found| Arc::new(found.clone()));
        let is_new = defined.is_some();
        served.or(defined).map(|resource_type| Served { resource_type, is_new })
    }

    /// Why an object cannot be written that has no type here, and what to do.
    pub(super) fn unserved(&self, object: &Value) -> String {
        let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let of_group = || known.discovery.unanswered().iter().filter(|silent| silent.group == group);
        match of_group().find(|silent| silent.version == version).or_else(|| of_group().next()) {
            Some(silent) => format!("{silent}; repair the APIService and restore again"),
            None => format!(
                "the server could not find the requested resource: the cluster does not serve {api_version}/{kind}; \
                 install what brings this type and restore again"
            ),
        }
    }

    /// Adds the types of a definition that was restored, or would be.
    pub(super) fn define(&self, definition: &Value) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for resource_type in defined_types(definition) {
            let api_version = resource_type.api_version();
            if known.discovery.by_kind(&api_version, &resource_type.kind).is_none() {
                known.defined.push(Arc::new(resource_type));
            }
        }
    }

    /// Whether a definition of this restore added a type.
    pub(super) fn has_new(&self) -> bool {
        !self.known.read().unwrap_or_else(PoisonError::into_inner).defined.is_empty()
    }

    /// Takes over what the cluster serves by now.
    pub(super) fn refresh(&self, discovery: Discovery) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).discovery = Arc::new(discovery);
    }
}

fn defined_types(definition: &Value) -> Vec<ResourceType> {
    let group = text(definition, "/spec/group");
    let (kind, plural) = (text(definition, "/spec/names/kind"), text(definition, "/spec/names/plural"));
    let namespaced = text(definition, "/spec/scope") != "Cluster";
    let versions = definition["spec"]["versions"].as_array();
    let served = versions.into_iter().flatten().filter(|version| version["served"] == true);
    let single = definition["spec"]["version"].as_str();
    let names = served.filter_map(|version| version["name"].as_str());
    let mut all: Vec<&str> = names.collect();
    if all.is_empty() {
        all.extend(single);
    }
    all.into_iter().map(|version| ResourceType::new(&format!("{group}/{version}"), kind, plural, namespaced)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_cluster::UnansweredGroup;

    use super::*;

    fn definition() -> Value {
        json!({"spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [{"name": "v1", "served": true}, {"name": "v1alpha1", "served": false}]
        }})
    }

    #[test]
    fn a_restored_definition_makes_its_served_versions_known() {
        let types = Types::new(Arc::new(Discovery::new(Vec::new(), Vec::new())));
        let object = |version: &str| json!({"apiVersion": format!("example.com/{version}"), "kind": "Gadget"});
        assert_eq!(types.of(&object("v1")), None);
        types.define(&definition());
        let found = types.of(&object("v1")).unwrap();
        assert!(found.is_new && !found.resource_type.namespaced);
        assert_eq!(found.resource_type.group_resource(), "gadgets.example.com");
        assert_eq!(types.of(&object("v1alpha1")), None);
    }

    #[test]
    fn why_a_type_is_not_served_names_the_api_service_that_does_not_answer() {
        let silent = UnansweredGroup::new("gone.example.com", "v1", None);
        let types = Types::new(Arc::new(Discovery::new(Vec::new(), vec![silent])));
        let why = |api_version: &str| types.unserved(&json!({"apiVersion": api_version, "kind": "Thing"}));
        assert!(why("gone.example.com/v1").contains("APIService v1.gone.example.com"));
        assert!(why("gone.example.com/v2").contains("APIService v1.gone.example.com"));
        assert!(why("other.example.com/v1").contains("does not serve other.example.com/v1/Thing"));
    }

    #[test]
    fn a_type_that_was_served_before_is_not_new() {
        let served = ResourceType::new("example.com/v1", "Gadget", "gadgets", false);
        let types = Types::new(Arc::new(Discovery::new(vec![served], Vec::new())));
        types.define(&definition());
        assert!(!types.of(&json!({"apiVersion": "example.com/v1", "kind": "Gadget"})).unwrap().is_new);
        assert!(!types.has_new());
    }
}

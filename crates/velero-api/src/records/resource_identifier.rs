//! The name of one object, with the type it is of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names one object by group, resource, namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ResourceIdentifier {
    /// The API group, empty for the core group.
    pub group: String,
    /// The plural name of the type, as in `deployments`.
    pub resource: String,
    /// The namespace, empty for a cluster-scoped object.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ResourceIdentifier {
    /// An object of a type; `group` is empty for the core group, `namespace` for a cluster-scoped object.
    pub fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        let [group, resource, namespace, name] = [group, resource, namespace, name].map(str::to_owned);
        Self { group, resource, namespace, name }
    }

    /// The namespace; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }

    /// The type with its group, as in `deployments.apps` or `pods`.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }
}

impl fmt::Display for ResourceIdentifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ", self.group_resource())?;
        if !self.namespace.is_empty() {
            write!(formatter, "{}/", self.namespace)?;
        }
        formatter.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespaced_object_of_a_group_is_named_in_full() {
        let text = r#"{"Group":"apps","Resource":"deployments","Namespace":"shop","Name":"web"}"#;
        let identifier: ResourceIdentifier = serde_json::from_str(text).unwrap();
        assert_eq!(identifier.to_string(), "deployments.apps shop/web");
        assert_eq!(serde_json::to_string(&identifier).unwrap(), text);
    }

    #[test]
    fn a_cluster_scoped_object_of_the_core_group_has_the_shortest_name() {
        let identifier = ResourceIdentifier::new("", "nodes", "", "n1");
        assert_eq!(identifier.to_string(), "nodes n1");
    }
}

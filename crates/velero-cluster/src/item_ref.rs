//! One item by its type, its namespace and its name.

use std::fmt;

use crate::resource_type::ResourceType;

/// One item by its type, its namespace and its name: what those need who read, write, book or tell of it.
///
/// How much is known of the type depends on the place: the API server is asked by [`ResourceType`], the ledger of a backup
/// knows the type as it was planned, records and messages know its name alone (`ItemRef<str>`, as in `deployments.apps`).
#[derive(Debug)]
pub struct ItemRef<'a, T: ?Sized = ResourceType> {
    /// The type.
    pub resource_type: &'a T,
    /// The namespace; `None` for a cluster-scoped item.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

impl<'a, T: ?Sized> ItemRef<'a, T> {
    /// The item of a type with that name.
    pub fn new(resource_type: &'a T, namespace: Option<&'a str>, name: &'a str) -> Self {
        Self { resource_type, namespace, name }
    }

    /// `namespace/name`, or `name` for a cluster-scoped item.
    pub fn key(&self) -> String {
        match self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.to_owned(),
        }
    }
}

// Deriving them would ask the same of the type, which is only referred to.
impl<T: ?Sized> Clone for ItemRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for ItemRef<'_, T> {}

/// As messages name it: `deployments.apps shop/web`. The namespace of a cluster-scoped type is not told.
impl fmt::Display for ItemRef<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = self.resource_type.group_resource();
        match self.namespace.filter(|_| self.resource_type.namespaced) {
            Some(namespace) => write!(formatter, "{resource} {namespace}/{}", self.name),
            None => write!(formatter, "{resource} {}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_named_with_its_group_and_the_namespace_it_can_have() {
        let deployments = ResourceType::new("apps/v1", "Deployment", "deployments", true);
        let nodes = ResourceType::new("v1", "Node", "nodes", false);
        assert_eq!(deployments.item(Some("shop"), "web").to_string(), "deployments.apps shop/web");
        assert_eq!(nodes.item(Some("ignored"), "n1").to_string(), "nodes n1");
        assert_eq!(nodes.item(None, "n1").to_string(), "nodes n1");
    }

    #[test]
    fn a_key_tells_items_of_a_type_apart() {
        assert_eq!(ItemRef::new("pods", Some("shop"), "web").key(), "shop/web");
        assert_eq!(ItemRef::new("nodes", None, "n1").key(), "n1");
    }
}

//! An item on its way through a restore: where it comes from, what is written, and where it goes.

use std::sync::Arc;

use serde_json::Value;
use velero_cluster::ItemRef;

use super::contents::Stored;
use super::ledger::ItemKey;
use super::types::Served;

/// An item on its way: where it comes from and where it goes.
pub(crate) struct Item {
    pub resource: Arc<str>,
    /// The namespace it has in the backup.
    pub original: Option<Box<str>>,
    /// The namespace it will have.
    pub target: Option<Box<str>>,
    pub name: Box<str>,
    pub(super) stored: Stored,
}

impl Item {
    /// `pods/shop/web-0`, as results name items.
    pub(crate) fn id(&self) -> String {
        match self.target.as_deref() {
            Some(namespace) => format!("{}/{namespace}/{}", self.resource, self.name),
            None => format!("{}/{}", self.resource, self.name),
        }
    }

    /// Its type, and the namespace and name it will have.
    pub(crate) fn reference(&self) -> ItemRef<'_, str> {
        ItemRef::new(&*self.resource, self.target.as_deref(), &self.name)
    }

    pub(super) fn key(&self) -> ItemKey {
        ItemKey { resource: Arc::clone(&self.resource), namespace: self.target.clone(), name: self.name.clone() }
    }
}

/// An item ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub object: Value,
    pub status: Option<Value>,
    pub managed_fields: Vec<Value>,
}

/// An object and where it goes.
pub(crate) struct Target<'a> {
    pub item: &'a Item,
    pub(super) served: Served,
    pub name: String,
    pub namespace: Option<String>,
}

impl Target<'_> {
    /// The object in the cluster.
    pub(crate) fn reference(&self) -> ItemRef<'_> {
        self.served.resource_type.item(self.namespace(), &self.name)
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

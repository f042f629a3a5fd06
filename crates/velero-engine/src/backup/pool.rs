//! Items that were collected and wait for the items they belong to.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use velero_cluster::{ItemRef, RawItem};

use super::plan::PlannedType;
pub(super) use crate::volumes::{CLAIMS, VOLUMES};

/// One item on its way into the archive.
pub(super) struct Item {
    pub planned: Arc<PlannedType>,
    pub raw: RawItem,
    labels: OnceLock<BTreeMap<String, String>>,
}

impl Item {
    pub(super) fn new(planned: &Arc<PlannedType>, raw: RawItem) -> Self {
        Self { planned: Arc::clone(planned), raw, labels: OnceLock::new() }
    }

    /// Its type, namespace and name.
    pub(super) fn reference(&self) -> ItemRef<'_, PlannedType> {
        self.planned.item(self.raw.namespace(), self.raw.name())
    }

    /// Its namespace and name, for those that outlive it.
    pub(super) fn identity(&self) -> (Option<String>, String) {
        (self.raw.namespace().map(str::to_owned), self.raw.name().to_owned())
    }

    /// Its labels, read once; none when its metadata cannot be read.
    pub(super) fn labels(&self) -> &BTreeMap<String, String> {
        let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let read = || self.raw.metadata().map(|metadata| metadata.labels().map(pair).collect()).unwrap_or_default();
        self.labels.get_or_init(read)
    }
}

/// Whether items of a type wait for the pods they belong to.
pub(super) fn is_held(type_name: &str) -> bool {
    matches!(type_name, CLAIMS | VOLUMES)
}

/// Items that wait, in the order they came.
#[derive(Default)]
pub(super) struct Pool {
    items: Vec<Option<Item>>,
    places: HashMap<(usize, Box<str>), usize>,
}

impl Pool {
    /// Adds an item; one that is there already is replaced.
    pub(super) fn insert(&mut self, item: Item) {
        let key = key(item.reference());
        match self.places.get(&key) {
            Some(place) => self.items[*place] = Some(item),
            None => {
                self.places.insert(key, self.items.len());
                self.items.push(Some(item));
            }
        }
    }

    /// Takes an item out.
    pub(super) fn take(&mut self, item: ItemRef<'_, PlannedType>) -> Option<Item> {
        if self.places.is_empty() {
            return None;
        }
        let place = self.places.remove(&key(item))?;
        self.items[place].take()
    }

    /// Whether an item waits here.
    pub(super) fn contains(&self, item: ItemRef<'_, PlannedType>) -> bool {
        self.places.contains_key(&key(item))
    }

    /// How many items wait here.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Takes all items out that are left and were selected for themselves, in the order they came.
    pub(super) fn drain(&mut self) -> Vec<Item> {
        self.places.clear();
        let items = std::mem::take(&mut self.items).into_iter().flatten();
        items.filter(|item| item.planned.listed).collect()
    }
}

fn key(item: ItemRef<'_, PlannedType>) -> (usize, Box<str>) {
    (item.resource_type.index, item.key().into())
}

#[cfg(test)]
mod tests {
    use velero_cluster::types;

    use super::*;

    fn item(planned: &Arc<PlannedType>, namespace: &str, name: &str) -> Item {
        let text = format!(r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}"}}}}"#);
        let raw = RawItem::new(Arc::clone(&planned.resource_type), text.into_bytes().into()).unwrap();
        Item::new(planned, raw)
    }

    #[test]
    fn what_is_taken_does_not_come_again_and_the_rest_keeps_its_order() {
        let planned = Arc::new(PlannedType::for_test(3, types::PERSISTENT_VOLUME_CLAIMS.clone()));
        let mut pool = Pool::default();
        for name in ["c", "a", "b", "a"] {
            pool.insert(item(&planned, "shop", name));
        }
        assert_eq!(pool.len(), 3);
        assert!(pool.take(planned.item(Some("bank"), "a")).is_none());
        assert!(pool.take(planned.item(Some("shop"), "a")).is_some());
        assert!(pool.take(planned.item(Some("shop"), "a")).is_none());
        let rest: Vec<String> = pool.drain().iter().map(|item| item.raw.name().to_owned()).collect();
        assert_eq!(rest, ["c", "b"]);
        assert!(pool.drain().is_empty());
    }
}

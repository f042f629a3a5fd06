//! The table of items: names one behind the other, entries by number, a hash table over them.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::texts::{Place, Texts, number};

/// Items, each with a value and a number: from zero on, in the order in which they came.
#[derive(Debug, Clone)]
pub(crate) struct ItemTable<V> {
    names: Texts,
    /// The namespaces; the first stands for none.
    namespaces: Vec<Box<str>>,
    namespace_numbers: HashMap<Box<str>, u32>,
    entries: Vec<Entry<V>>,
    index: HashTable<u32>,
    hashes: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct Entry<V> {
    name: Place,
    namespace: u32,
    value: V,
}

/// An item of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableItem<'a, V> {
    /// The namespace; `None` for a cluster-scoped item.
    pub namespace: Option<&'a str>,
    pub name: &'a str,
    pub value: V,
}

impl<V> Default for ItemTable<V> {
    fn default() -> Self {
        Self {
            names: Texts::default(),
            namespaces: vec![Box::default()],
            namespace_numbers: HashMap::from([(Box::default(), 0)]),
            entries: Vec::new(),
            index: HashTable::new(),
            hashes: RandomState::new(),
        }
    }
}

impl<V: Copy> ItemTable<V> {
    /// How many items there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All numbers.
    pub(crate) fn numbers(&self) -> std::ops::Range<u32> {
        0..number(self.entries.len())
    }

    /// The namespaces that items are in.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().skip(1).map(AsRef::as_ref)
    }

    /// The number of an item.
    pub(crate) fn find(&self, namespace: Option<&str>, name: &str) -> Option<u32> {
        let namespace = *self.namespace_numbers.get(namespace.unwrap_or_default())?;
        self.find_in(namespace, name)
    }

    fn find_in(&self, namespace: u32, name: &str) -> Option<u32> {
        let is_it = |number: &u32| {
            let entry = &self.entries[*number as usize];
            entry.namespace == namespace && self.names.get(entry.name) == name
        };
        self.index.find(self.hashes.hash_one((namespace, name)), is_it).copied()
    }

    /// An item by its number.
    pub(crate) fn get(&self, number: u32) -> TableItem<'_, V> {
        let entry = &self.entries[number as usize];
        let namespace = (entry.namespace != 0).then(|| &*self.namespaces[entry.namespace as usize]);
        TableItem { namespace, name: self.names.get(entry.name), value: entry.value }
    }

    /// Puts a new value on an item.
    pub(crate) fn set(&mut self, number: u32, value: V) {
        self.entries[number as usize].value = value;
    }

    /// Adds an item, or puts a new value on the one that is there; gives its number.
    pub(crate) fn insert(&mut self, namespace: Option<&str>, name: &str, value: V) -> u32 {
        let namespace = self.namespace_number(namespace);
        if let Some(known) = self.find_in(namespace, name) {
            self.set(known, value);
            return known;
        }
        let number = self.add(namespace, name, value);
        let Self { index, hashes, entries, names, .. } = self;
        let hash = |number: &u32| {
            let entry = &entries[*number as usize];
            hashes.hash_one((entry.namespace, names.get(entry.name)))
        };
        index.insert_unique(hashes.hash_one((namespace, name)), number, hash);
        number
    }

    /// Adds an item that is never looked for, whatever else there is of its name.
    pub(crate) fn append(&mut self, namespace: Option<&str>, name: &str, value: V) {
        let namespace = self.namespace_number(namespace);
        self.add(namespace, name, value);
    }

    fn add(&mut self, namespace: u32, name: &str, value: V) -> u32 {
        let number = number(self.entries.len());
        let name = self.names.add(&[name]);
        self.entries.push(Entry { name, namespace, value });
        number
    }

    fn namespace_number(&mut self, namespace: Option<&str>) -> u32 {
        let namespace = namespace.unwrap_or_default();
        if let Some(known) = self.namespace_numbers.get(namespace) {
            return *known;
        }
        let number = number(self.namespaces.len());
        self.namespaces.push(namespace.into());
        self.namespace_numbers.insert(namespace.into(), number);
        number
    }

    /// The numbers of the wanted items, by namespace and name.
    pub(crate) fn sorted(&self, wanted: impl Fn(V) -> bool) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.numbers().filter(|number| wanted(self.get(*number).value)).collect();
        numbers.shrink_to_fit();
        let key = |number: &u32| {
            let item = self.get(*number);
            (item.namespace, item.name)
        };
        numbers.sort_unstable_by(|left, right| key(left).cmp(&key(right)));
        numbers
    }

    /// The same items with other values; they can no longer be looked for.
    pub(crate) fn map<W: Copy>(self, value: impl Fn(V) -> W) -> ItemTable<W> {
        let Self { names, namespaces, namespace_numbers, entries, index, hashes } = self;
        drop(index);
        let change =
            |entry: Entry<V>| Entry { name: entry.name, namespace: entry.namespace, value: value(entry.value) };
        let entries = entries.into_iter().map(change).collect();
        ItemTable { names, namespaces, namespace_numbers, entries, index: HashTable::new(), hashes }
    }
}

impl<V: Copy> TableItem<'_, V> {
    /// Compares `namespace/name` of two items as text.
    pub(super) fn cmp_as_text(&self, other: &Self) -> Ordering {
        match (self.namespace, other.namespace) {
            (None, None) => self.name.cmp(other.name),
            (Some(own), Some(others)) if own == others => self.name.cmp(other.name),
            _ => self.bytes().cmp(other.bytes()),
        }
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        let namespace = self.namespace.map(|namespace| namespace.bytes().chain(std::iter::once(b'/')));
        namespace.into_iter().flatten().chain(self.name.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_found_by_both_its_names_and_keeps_its_number() {
        let mut table = ItemTable::default();
        for (place, (namespace, name)) in
            [(Some("shop"), "web"), (Some("bank"), "web"), (None, "web"), (Some("shop"), "db")].into_iter().enumerate()
        {
            assert_eq!(table.insert(namespace, name, place), place as u32);
        }
        assert_eq!(table.find(Some("bank"), "web"), Some(1));
        assert_eq!(table.find(None, "web"), Some(2));
        assert_eq!(table.find(Some("bank"), "db"), None);
        assert_eq!(table.find(Some("nowhere"), "web"), None);
        assert_eq!(table.insert(Some("shop"), "web", 7), 0, "it is there already");
        assert_eq!(table.get(0), TableItem { namespace: Some("shop"), name: "web", value: 7 });
        assert_eq!(table.get(2), TableItem { namespace: None, name: "web", value: 2 });
        assert_eq!(table.len(), 4);
        assert_eq!(table.namespaces().collect::<Vec<_>>(), ["shop", "bank"]);
    }

    #[test]
    fn items_are_sorted_by_namespace_and_name() {
        let mut table = ItemTable::default();
        for (namespace, name) in [("shop", "b"), ("bank", "z"), ("shop", "a"), ("bank", "out")] {
            table.insert(Some(namespace), name, name != "out");
        }
        let names = |number: &u32| (table.get(*number).namespace.unwrap(), table.get(*number).name);
        let sorted = table.sorted(|wanted| wanted);
        assert_eq!(sorted.iter().map(names).collect::<Vec<_>>(), [("bank", "z"), ("shop", "a"), ("shop", "b")]);
    }

    #[test]
    fn a_million_items_take_little_memory_each() {
        assert!(size_of::<Entry<u8>>() <= 20, "{}", size_of::<Entry<u8>>());
        assert!(size_of::<Entry<[u32; 4]>>() <= 32, "{}", size_of::<Entry<[u32; 4]>>());
    }
}

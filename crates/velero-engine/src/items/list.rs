//! The list of items that a backup or restore leaves: as a file it is a [`ResourceList`], in memory it takes a fraction
//! of what that takes.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use velero_api::records::ResourceList;

use super::table::{ItemTable, TableItem};
use super::texts::number;

/// What a restore has done with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    Created,
    Updated,
    Failed,
    Skipped,
}

impl Done {
    fn suffix(self) -> &'static str {
        match self {
            Self::Created => "(created)",
            Self::Updated => "(updated)",
            Self::Failed => "(failed)",
            Self::Skipped => "(skipped)",
        }
    }
}

/// How an item is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// The place of its `<apiVersion>/<Kind>` among the kinds.
    pub kind: u32,
    /// What was done with it, where that stands behind its name.
    pub done: Option<Done>,
}

/// Items by `<apiVersion>/<Kind>`, each as `namespace/name` and what became of it.
#[derive(Clone, Default)]
pub struct ItemList {
    tables: Vec<ItemTable<Option<Told>>>,
    /// Where the items of each kind lie, in order.
    kinds: BTreeMap<String, Vec<Place>>,
}

/// The table of an item, and its number there.
#[derive(Clone, Copy)]
struct Place {
    table: u32,
    number: u32,
}

impl ItemList {
    /// Lists the items of tables that are told, under the names of their kinds.
    pub(crate) fn new(tables: Vec<ItemTable<Option<Told>>>, kinds: &[String]) -> Self {
        let mut places: Vec<Vec<Place>> = vec![Vec::new(); kinds.len()];
        for (table, items) in tables.iter().enumerate() {
            for item in items.numbers() {
                if let Some(of_kind) = items.get(item).value.and_then(|told| places.get_mut(told.kind as usize)) {
                    of_kind.push(Place { table: number(table), number: item });
                }
            }
        }
        let mut list = Self { tables, kinds: BTreeMap::new() };
        for (kind, mut places) in kinds.iter().zip(places) {
            places.sort_unstable_by(|left, right| list.compare(*left, *right));
            if !places.is_empty() {
                list.kinds.insert(kind.clone(), places);
            }
        }
        list
    }

    /// The list as it is in the file.
    pub fn to_map(&self) -> ResourceList {
        let texts = |places: &Vec<Place>| places.iter().map(|place| self.text(*place).to_string()).collect();
        self.kinds.iter().map(|(kind, places)| (kind.clone(), texts(places))).collect()
    }

    fn item(&self, place: Place) -> TableItem<'_, Option<Told>> {
        self.tables[place.table as usize].get(place.number)
    }

    fn text(&self, place: Place) -> Text<'_> {
        Text(self.item(place))
    }

    fn compare(&self, left: Place, right: Place) -> Ordering {
        let (left, right) = (self.item(left), self.item(right));
        left.cmp_as_text(&right)
    }
}

/// An item as the list has it.
struct Text<'a>(TableItem<'a, Option<Told>>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = self.0.namespace {
            write!(formatter, "{namespace}/")?;
        }
        formatter.write_str(self.0.name)?;
        formatter.write_str(self.0.value.and_then(|told| told.done).map_or("", Done::suffix))
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for ItemList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.kinds.len()))?;
        for (kind, places) in &self.kinds {
            map.serialize_entry(kind, &OfKind { list: self, places })?;
        }
        map.end()
    }
}

struct OfKind<'a> {
    list: &'a ItemList,
    places: &'a [Place],
}

impl Serialize for OfKind<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.places.len()))?;
        for place in self.places {
            sequence.serialize_element(&self.list.text(*place))?;
        }
        sequence.end()
    }
}

impl fmt::Debug for ItemList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_map().fmt(formatter)
    }
}

impl PartialEq for ItemList {
    fn eq(&self, other: &Self) -> bool {
        self.to_map() == other.to_map()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_takes_little_room_in_the_list() {
        assert_eq!(size_of::<Option<Told>>(), 8);
    }

    #[test]
    fn the_list_is_sorted_as_text_and_says_what_became_of_each_item() {
        let (mut pods, mut renamed) = (ItemTable::default(), ItemTable::default());
        let told = |kind, done| Some(Told { kind, done });
        pods.insert(Some("shop"), "web", told(0, Some(Done::Created)));
        pods.insert(Some("shop-b"), "a", told(0, Some(Done::Failed)));
        pods.insert(Some("shop"), "hidden", None);
        pods.insert(None, "node", told(1, None));
        renamed.append(Some("shop"), "v", told(0, Some(Done::Created)));
        renamed.append(Some("shop"), "v", told(0, Some(Done::Created)));
        let kinds = ["v1/Pod", "v1/Node", "v1/Unused"].map(str::to_owned);
        let list = ItemList::new(vec![pods, renamed], &kinds);
        let expected = serde_json::json!({
            "v1/Node": ["node"],
            "v1/Pod": ["shop-b/a(failed)", "shop/v(created)", "shop/v(created)", "shop/web(created)"],
        });
        assert_eq!(serde_json::to_value(&list).unwrap(), expected);
        assert_eq!(serde_json::to_value(list.to_map()).unwrap(), expected);
    }
}

//! A block: items between the same hooks, each of which can be taken out once.

use serde_json::Value;
use velero_cluster::ItemRef;

use super::plan::PlannedType;
use super::pool::Item;

/// Items that belong together, in the order they are backed up.
#[derive(Default)]
pub(super) struct ItemBlock {
    items: Vec<Option<BlockItem>>,
}

/// An item of a block, parsed if an action has looked at it.
pub(super) struct BlockItem {
    pub item: Item,
    pub value: Option<Value>,
}

impl ItemBlock {
    /// Adds an item behind the others.
    pub(super) fn push(&mut self, item: BlockItem) {
        self.items.push(Some(item));
    }

    /// How many items the block was made of.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// The items that are still in the block.
    pub(super) fn iter(&self) -> impl Iterator<Item = &BlockItem> {
        self.items.iter().flatten()
    }

    /// Takes an item by its place.
    pub(super) fn take(&mut self, place: usize) -> Option<BlockItem> {
        self.items.get_mut(place)?.take()
    }

    /// Takes an item by what it is.
    pub(super) fn find(&mut self, wanted: ItemRef<'_, PlannedType>) -> Option<BlockItem> {
        let is_it = |block_item: &BlockItem| {
            let own = block_item.item.reference();
            own.resource_type.index == wanted.resource_type.index
                && (own.name, own.namespace) == (wanted.name, wanted.namespace)
        };
        self.items.iter_mut().find(|slot| slot.as_ref().is_some_and(is_it))?.take()
    }
}

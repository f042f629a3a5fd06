//! Items on their way into the archive: those that are ready, and those that wait for something slow.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::item_block::BlockItem;
use super::write::Record;
use crate::lock;

/// Items on their way into the archive.
#[derive(Default)]
pub(super) struct Batch {
    /// Those that are ready.
    pub records: Vec<Record>,
    /// Volumes whose data comes first.
    pub volumes: Vec<PendingVolume>,
    /// Items that wait for their turn.
    pub items: Vec<PendingItem>,
}

/// A volume whose data is still to be dealt with.
pub(super) struct PendingVolume {
    pub record: Record,
    pub name: String,
    pub value: Arc<Value>,
}

/// An item that waits for its turn.
pub(super) struct PendingItem {
    pub block_item: BlockItem,
    /// Whether it comes whatever the filters say.
    pub must_include: bool,
}

/// What was put aside until the end of the batch.
#[derive(Default)]
pub(super) struct Deferred(Mutex<(Vec<PendingVolume>, Vec<PendingItem>)>);

impl Deferred {
    /// Puts volumes and items aside.
    pub(super) fn add(&self, volumes: Vec<PendingVolume>, items: Vec<PendingItem>) {
        let mut deferred = lock(&self.0);
        deferred.0.extend(volumes);
        deferred.1.extend(items);
    }

    /// The volumes and items that were put aside.
    pub(super) fn take(&self) -> (Vec<PendingVolume>, Vec<PendingItem>) {
        std::mem::take(&mut *lock(&self.0))
    }
}

//! Items that wait: volumes whose data comes first, and items whose actions wait for something slow, such as claims whose
//! volumes get a CSI snapshot.
//!
//! The action on such a claim returns when the driver has taken the snapshot. So that drivers work side by side, these
//! items come last: those of a block whose pods have hooks when the other items of the block are done and before the
//! hooks that follow, all others at the end of the batch they came with. Then many are worked on at the same time,
//! however many blocks there are.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use velero_plugin::BackupItemAction;

use super::admit::Admission;
use super::batch::{Batch, PendingItem, PendingVolume};
use super::item::{ItemSaver, log_item};
use super::item_block::{BlockItem, ItemBlock};
use super::pool::Item;
use super::write::Record;
use crate::detail;
use crate::stage::try_within;

/// How many volumes are dealt with at the same time.
const VOLUMES_AT_ONCE: usize = 16;

/// How many items are worked on at the same time whose actions only wait, each for its own driver.
const ITEMS_AT_ONCE: usize = 128;

impl ItemSaver<'_> {
    /// Whether an item waits for its turn.
    pub(super) fn waits(&self, item: &Item) -> bool {
        let all = &self.admission.plan.backup_actions;
        let mut actions = item.planned.backup_actions.iter().map(|index| &all[*index].action);
        self.saves_volumes && actions.any(|action| action.waits() && self.is_on(action))
    }

    /// Whether the server has the feature that an action needs.
    pub(super) fn is_on(&self, action: &Arc<dyn BackupItemAction>) -> bool {
        action.needs_feature().is_none_or(|feature| self.features.is_enabled(feature))
    }

    /// Backs up items that have waited, many at a time; gives what they brought.
    pub(super) async fn back_up_waiting(&self, mut items: Vec<PendingItem>) -> Batch {
        let mut all = Batch::default();
        while !items.is_empty() {
            let batches: Vec<Batch> = stream::iter(items)
                .map(|item| self.back_up_pending(item).boxed())
                .buffer_unordered(ITEMS_AT_ONCE)
                .collect()
                .await;
            items = Vec::new();
            for batch in batches {
                all.records.extend(batch.records);
                all.volumes.extend(batch.volumes);
                items.extend(batch.items);
            }
            self.admission.ledger.publish();
        }
        all
    }

    async fn back_up_pending(&self, PendingItem { block_item, must_include }: PendingItem) -> Batch {
        let mut batch = Batch::default();
        self.back_up_or_report(block_item, must_include, &mut ItemBlock::default(), &mut batch).await;
        batch
    }

    /// Backs up an item; what goes wrong is told.
    pub(super) async fn back_up_or_report(
        &self,
        block_item: BlockItem,
        must_include: bool,
        block: &mut ItemBlock,
        batch: &mut Batch,
    ) {
        let planned = Arc::clone(&block_item.item.planned);
        let (namespace, name) = block_item.item.identity();
        if let Err(error) = self.back_up_item(block_item, must_include, block, batch).await {
            let entry = self.admission.journal.error().item(planned.item(namespace.as_deref(), &name));
            entry.error(&error).message("Error backing up item");
        }
    }

    /// Deals with the data of volumes, many at a time; gives the volumes whose items belong into the archive.
    pub(super) async fn save_volumes(&self, volumes: Vec<PendingVolume>) -> Vec<Record> {
        let saved: Vec<Option<Record>> = stream::iter(volumes)
            .map(|volume| self.save_volume(volume).boxed())
            .buffer_unordered(VOLUMES_AT_ONCE)
            .collect()
            .await;
        saved.into_iter().flatten().collect()
    }

    async fn save_volume(&self, PendingVolume { record, name, value }: PendingVolume) -> Option<Record> {
        let Admission { ledger, journal, .. } = self.admission;
        let stage = detail!("volume", velero.volume = name);
        let Err(error) = try_within(stage, self.volumes.save(&value)).await else {
            log_item(journal, record.planned.item(None, &name));
            return Some(record);
        };
        ledger.fail(record.planned.item(None, &name));
        journal.error().item(record.planned.item(None, &name)).error(&error).message("Error backing up item");
        None
    }
}

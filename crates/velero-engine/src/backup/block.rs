//! Blocks: items that belong together, between the same hooks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::channel::mpsc;
use futures::{FutureExt, SinkExt, StreamExt};
use tokio::sync::OwnedSemaphorePermit;

use super::BackupError;
use super::batch::{Batch, PendingItem};
use super::collect::CollectedPage;
use super::group;
use super::held::HeldBlock;
use super::item::{ItemSaver, log_item};
use super::item_block::{BlockItem, ItemBlock};
use super::plan::PODS;
use super::pool::Item;
use super::run::Run;
use super::write::Record;
use crate::hooks::HookedPod;
use crate::volumes::PodPlace;

/// How many blocks may be ready before their turn comes.
const BLOCKS_AHEAD: usize = 10;

impl Run {
    /// Backs up a page of a list. Items that no action looks at go straight on.
    pub(super) async fn back_up_page(&self, page: CollectedPage) -> Result<(), BackupError> {
        self.position.store(page.planned.rank, Ordering::Relaxed);
        let items = page.items.into_iter().map(|raw| Item::new(&page.planned, raw));
        if !page.planned.is_plain() {
            return self.back_up_items(items.collect()).await;
        }
        let admission = self.admission();
        let mut batch = Vec::with_capacity(items.len());
        for item in items {
            if admission.admits(&item, false) && self.ledger.take(item.reference()) {
                log_item(&self.journal, item.reference());
                batch.push(Record::unchanged(item.planned, item.raw));
            }
        }
        self.records.send(batch).await?;
        self.records.flush().await?;
        self.ledger.publish();
        Ok(())
    }

    /// Backs up items together with what belongs to them, then the volumes that may come last.
    pub(super) async fn back_up_items(&self, items: Vec<Item>) -> Result<(), BackupError> {
        let saver = self.item_saver();
        self.back_up_blocks(&saver, items).await?;
        let (volumes, items) = self.deferred.take();
        let waiting = saver.back_up_waiting(items).boxed();
        let (saved, waited) = tokio::join!(saver.save_volumes(volumes).boxed(), waiting);
        self.records.send(saved).await?;
        self.records.send(waited.records).await?;
        self.records.send(saver.save_volumes(waited.volumes).boxed().await).await?;
        self.volumes.notes.part();
        self.ledger.publish();
        self.records.flush().await
    }

    /// Blocks are made while earlier ones are worked on: both wait for plugins.
    async fn back_up_blocks(&self, saver: &ItemSaver<'_>, items: Vec<Item>) -> Result<(), BackupError> {
        let (mut ready, blocks) = mpsc::channel(BLOCKS_AHEAD);
        let grouper = self.grouper();
        let make = async move {
            for seeds in group::seeds(&self.journal, items) {
                if ready.send(grouper.block(seeds).await).await.is_err() {
                    return;
                }
            }
        };
        let work = async {
            let workers = self.request.item_block_workers.max(1);
            let mut done = blocks.map(|block| self.back_up_block(saver, block).boxed()).buffer_unordered(workers);
            while let Some(done) = done.next().await {
                done?;
            }
            Ok(())
        };
        let ((), worked) = tokio::join!(make.boxed(), work.boxed());
        worked
    }

    async fn back_up_block(&self, saver: &ItemSaver<'_>, block: ItemBlock) -> Result<(), BackupError> {
        let pods = pods(&block);
        let (hooked, place) = self.run_pre_hooks(&block).await;
        let stored = self.store_block(saver, block, !hooked.is_empty()).await;
        // Whatever became of the items: what the hooks before have stopped is to go on.
        self.release_or_hold(HeldBlock { pods, hooked, place }).await;
        stored
    }

    async fn store_block(
        &self,
        saver: &ItemSaver<'_>,
        mut block: ItemBlock,
        is_hooked: bool,
    ) -> Result<(), BackupError> {
        let mut batch = Batch::default();
        for place in 0..block.len() {
            let Some(block_item) = block.take(place) else {
                continue;
            };
            if saver.waits(&block_item.item) {
                batch.items.push(PendingItem { block_item, must_include: false });
                continue;
            }
            saver.back_up_or_report(block_item, false, &mut block, &mut batch).await;
        }
        if is_hooked {
            // What the hooks before have stopped must not go on before the snapshots are taken.
            let waited = saver.back_up_waiting(std::mem::take(&mut batch.items)).boxed().await;
            batch.records.extend(waited.records);
            batch.volumes.extend(waited.volumes);
            batch.records.extend(saver.save_volumes(std::mem::take(&mut batch.volumes)).await);
        }
        self.deferred.add(batch.volumes, batch.items);
        self.records.send(batch.records).await?;
        self.ledger.publish();
        Ok(())
    }

    /// Runs the pre hooks of the pods of a block; gives those whose post hooks are due, and the place of the block among
    /// those between their hooks. A pod whose hook says that failure is final stays out of the backup, and goes on at
    /// once.
    async fn run_pre_hooks(&self, block: &ItemBlock) -> (Vec<Arc<HookedPod>>, Option<OwnedSemaphorePermit>) {
        let (mut hooked, mut place) = (Vec::new(), None);
        for BlockItem { item, value } in block.iter().filter(|block_item| block_item.item.planned.name == PODS) {
            let Some(pod) = HookedPod::new(&self.plan.hooks, &item.raw, value.as_ref()) else {
                continue;
            };
            if place.is_none() {
                place = self.held.place().await;
            }
            let pod = Arc::new(pod);
            match self.owed_hooks.run_pre(&self.hooks, &pod).await {
                Ok(()) => hooked.push(pod),
                Err(error) => {
                    self.owed_hooks.run_post_if_owed(&self.hooks, &pod).await;
                    let entry = self.journal.error().item(item.reference()).error(&error);
                    entry.message("Error running pre hooks for pod");
                    self.ledger.fail(item.reference());
                }
            }
        }
        (hooked, place)
    }
}

/// The pods of a block.
fn pods(block: &ItemBlock) -> Vec<PodPlace> {
    let pods = block.iter().filter(|block_item| block_item.item.planned.name == PODS);
    pods.map(|pod| pod.item.identity()).map(|(namespace, name)| (namespace.unwrap_or_default(), name)).collect()
}

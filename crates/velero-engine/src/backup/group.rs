//! Grouping: items that must be backed up together, between the same hooks.

use std::collections::VecDeque;
use std::sync::Mutex;

use velero_api::records::ResourceIdentifier;
use velero_api::v1::Backup;
use velero_cluster::{Cluster, ItemRef};
use velero_rules::ordering::put_in_order;

use super::admit::Admission;
use super::item_block::{BlockItem, ItemBlock};
use super::pool::{Item, Pool};
use crate::{Journal, lock};

/// What it takes to make blocks of items.
#[derive(Clone, Copy)]
pub(super) struct Grouper<'a> {
    pub admission: Admission<'a>,
    /// The backup, as item block actions are told of it.
    pub backup: &'a Backup,
    /// The items that wait for those they belong to.
    pub pool: &'a Mutex<Pool>,
    pub cluster: &'a Cluster,
}

/// Splits items into the beginnings of blocks: those that `spec.orderedResources` names form one, all others one each.
pub(super) fn seeds(journal: &Journal, items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut seeds = Vec::with_capacity(items.len());
    let mut items = items.into_iter().peekable();
    while let Some(item) = items.next() {
        if item.planned.order.is_empty() {
            seeds.push(vec![item]);
            continue;
        }
        let planned = std::sync::Arc::clone(&item.planned);
        let mut of_type = vec![item];
        while let Some(next) = items.next_if(|next| next.planned.index == planned.index) {
            of_type.push(next);
        }
        let order: Vec<&str> = planned.order.iter().map(String::as_str).collect();
        let ordered = put_in_order(of_type, &order, |item| item.reference().key());
        for name in &ordered.missing {
            journal.warning().message(&format!("Cannot find resource '{name}'."));
        }
        let mut rest = ordered.items;
        let others = rest.split_off(ordered.named);
        seeds.push(rest);
        seeds.extend(others.into_iter().map(|item| vec![item]));
    }
    seeds
}

impl Grouper<'_> {
    /// Builds a block: the given items, and all that item block actions name as related to them.
    pub(super) async fn block(&self, seeds: Vec<Item>) -> ItemBlock {
        let mut block = ItemBlock::default();
        let mut waiting = VecDeque::new();
        for item in seeds {
            self.enqueue(&mut waiting, item);
        }
        while let Some(item) = waiting.pop_front() {
            let mut block_item = BlockItem { item, value: None };
            for related in self.related_items(&mut block_item).await {
                if let Some(item) = self.find_related(&related).await {
                    self.enqueue(&mut waiting, item);
                }
            }
            block.push(block_item);
        }
        block
    }

    /// Adds an item unless the filters leave it out or another block has it.
    fn enqueue(&self, waiting: &mut VecDeque<Item>, item: Item) {
        if self.admission.admits(&item, false) && self.admission.ledger.group(item.reference()) {
            waiting.push_back(item);
        }
    }

    async fn related_items(&self, block_item: &mut BlockItem) -> Vec<ResourceIdentifier> {
        let Admission { plan, journal, .. } = self.admission;
        let item = &block_item.item;
        let mut related = Vec::new();
        for index in &item.planned.block_actions {
            let resolved = &plan.block_actions[*index];
            if !resolved.applies_to_item(item.raw.namespace(), || item.labels()) {
                continue;
            }
            let value = match &mut block_item.value {
                Some(value) => value,
                empty => match item.raw.to_value() {
                    Ok(value) => empty.insert(value),
                    // The item itself will fail for the same reason, and say so.
                    Err(_) => return Vec::new(),
                },
            };
            match resolved.action.related_items(value, self.backup).await {
                Ok(items) => related.extend(items),
                Err(error) => {
                    let entry = journal.error().item(item.reference()).error(&error);
                    entry.message(&format!("Error executing ItemBlock action {}", resolved.action.name()));
                }
            }
        }
        related
    }

    /// Finds a related item among those collected, or else in the cluster.
    async fn find_related(&self, related: &ResourceIdentifier) -> Option<Item> {
        let Admission { plan, ledger, journal, .. } = self.admission;
        let resource = related.group_resource();
        let (namespace, name) = (related.namespace(), related.name.as_str());
        let Some(planned) = plan.preferred(&resource) else {
            let entry = journal.error().item(ItemRef::new(resource.as_str(), namespace, name));
            entry.message("Unable to add related item, the cluster does not serve its type");
            return None;
        };
        let wanted = planned.item(namespace, name);
        if ledger.is_known(wanted) {
            return None;
        }
        if let Some(item) = lock(self.pool).take(wanted) {
            return Some(item);
        }
        if !self.admission.filters_admit(wanted) || self.admission.comes_later(planned) {
            return None;
        }
        let found = self.cluster.get_raw(planned.resource_type.item(namespace, name)).await;
        match found {
            Ok(Some(raw)) => Some(Item::new(planned, raw)),
            Ok(None) => {
                let entry = journal.warning().item(wanted);
                entry.message("Related item was not found in Kubernetes API, can't add to item block");
                None
            }
            Err(error) => {
                let entry = journal.error().item(wanted).error(&error);
                entry.message("Error while trying to get related item from cluster");
                None
            }
        }
    }
}

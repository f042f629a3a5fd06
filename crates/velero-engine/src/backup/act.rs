//! Acting on items: hooks, actions, additional items.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::channel::mpsc;
use futures::future::BoxFuture;
use futures::{FutureExt, SinkExt, StreamExt};
use serde_json::Value;
use tokio::sync::watch;
use velero_api::annotations;
use velero_api::records::{BackupOperationSpec, ResourceIdentifier, VolumeMethod};
use velero_api::v1::BackupProgress;
use velero_archive::go_json;
use velero_plugin::BackupItemOutcome;

use super::collect::{CollectedPage, LISTS_AHEAD};
use super::group::{self, BlockItem, ItemBlock};
use super::ledger::Ledger;
use super::plan::{NAMESPACES, PODS, Plan, PlannedType};
use super::pool::{CLAIMS, Item, Pool, VOLUMES, is_held};
use super::waiting::{Batch, Deferred, PendingItem, PendingVolume};
use super::write::{self, Archive, Body, Record, Records};
use super::{BackupError, BackupOutcome, BackupRequest};
use crate::hooks::{HookRunner, HookedPod, OwedHooks};
use crate::recorder::BackupRecorder;
use crate::volumes::{BackupContext, BackupVolumes, SavedClaim, VolumeTypes};
use crate::{Journal, lock};

/// How many blocks may be ready before their turn comes.
const BLOCKS_AHEAD: usize = 10;

/// Why an item is not in the archive, in words.
pub(super) type ItemResult<T> = Result<T, String>;

/// A backup under way: everything the stages share.
pub(super) struct Run {
    pub request: BackupRequest,
    pub plan: Plan,
    pub journal: Journal,
    pub ledger: Arc<Ledger>,
    pub(super) records: Records,
    /// The rank of the type that is being worked on.
    pub(super) position: AtomicUsize,
    pool: Mutex<Pool>,
    hooks: HookRunner,
    owed_hooks: OwedHooks,
    volumes: BackupVolumes,
    deferred: Deferred,
    /// Whether the data of volumes is dealt with too.
    pub(super) saves_volumes: bool,
    pub(super) recorder: BackupRecorder,
}

/// What an item became under its actions.
enum Acted {
    Unchanged,
    Changed(Value),
    Skipped,
}

impl Run {
    /// Begins a backup, and the archive it fills.
    pub(super) fn start<W: Write + Send + 'static>(
        request: BackupRequest,
        plan: Plan,
        journal: &Journal,
        progress: watch::Sender<BackupProgress>,
        sink: W,
    ) -> (Self, Archive<W>) {
        let ledger = Arc::new(Ledger::new(plan.types().len(), progress));
        let (archive, records) = write::start(sink, request.limits, journal, &ledger);
        let run = Self {
            ledger,
            hooks: HookRunner::new(request.cluster.clone(), journal.clone()),
            owed_hooks: request.owed_hooks.clone(),
            volumes: BackupVolumes::new(&request.backup.spec),
            deferred: Deferred::default(),
            recorder: request.recorder.clone(),
            saves_volumes: true,
            position: AtomicUsize::new(0),
            pool: Mutex::default(),
            request,
            plan,
            journal: journal.clone(),
            records,
        };
        (run, archive)
    }

    /// What there is to know for those who save volumes.
    pub(super) fn volume_context(&self) -> BackupContext<'_> {
        let request = &self.request;
        let resource_type = |name: &str| self.plan.preferred(name).map(|planned| &*planned.resource_type);
        BackupContext {
            volumes: &self.volumes,
            backup: &request.backup,
            cluster: &request.cluster,
            actions: &request.actions,
            journal: &self.journal,
            recorder: &self.recorder,
            policies: request.policies.as_ref(),
            features: &request.features,
            types: VolumeTypes {
                volumes: resource_type(VOLUMES),
                claims: resource_type(CLAIMS),
                pods: resource_type(PODS),
            },
            claims_are_left_out: self.plan.preferred(CLAIMS).is_none_or(|claims| !claims.included),
            page_size: request.page_size,
        }
    }

    /// The items that wait for those they belong to.
    pub(super) fn pool(&self) -> MutexGuard<'_, Pool> {
        lock(&self.pool)
    }

    /// Takes all items that nobody has taken along.
    pub(super) fn drain_pool(&self) -> Vec<Item> {
        self.pool().drain()
    }

    /// Whether all items of a type are still to be listed, so that none of them needs to be asked for.
    pub(super) fn comes_later(&self, planned: &PlannedType) -> bool {
        let reached = self.position.load(Ordering::Relaxed) + LISTS_AHEAD;
        let streamed =
            planned.listed && planned.order.is_empty() && !is_held(&planned.name) && planned.name != NAMESPACES;
        streamed && planned.rank > reached && self.plan.selectors.is_empty() && self.plan.filters.is_empty()
    }

    /// Backs up a page of a list. Items that no action looks at go straight on.
    pub(super) async fn back_up_page(&self, page: CollectedPage) -> Result<(), BackupError> {
        self.position.store(page.planned.rank, Ordering::Relaxed);
        let items = page.items.into_iter().map(|raw| Item::new(&page.planned, raw));
        if !page.planned.is_plain() {
            return self.back_up_items(items.collect()).await;
        }
        let mut batch = Vec::with_capacity(items.len());
        for item in items {
            let (namespace, name) = (item.raw.namespace(), item.raw.name());
            if self.admits(&item, false) && self.ledger.claim(&item.planned, namespace, name) {
                self.log_item(&item.planned, namespace, name);
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
        self.back_up_blocks(items).await?;
        let (volumes, items) = self.deferred.take();
        let waiting = self.back_up_waiting(items).boxed();
        let (saved, waited) = tokio::join!(self.save_volumes(volumes).boxed(), waiting);
        self.records.send(saved).await?;
        self.records.send(waited.records).await?;
        self.records.send(self.save_volumes(waited.volumes).boxed().await).await?;
        self.volumes.part();
        self.ledger.publish();
        self.records.flush().await
    }

    /// Blocks are made while earlier ones are worked on: both wait for plugins.
    async fn back_up_blocks(&self, items: Vec<Item>) -> Result<(), BackupError> {
        let (mut ready, blocks) = mpsc::channel(BLOCKS_AHEAD);
        let make = async move {
            for seeds in group::seeds(self, items) {
                if ready.send(group::block(self, seeds).await).await.is_err() {
                    return;
                }
            }
        };
        let work = async {
            let workers = self.request.item_block_workers.max(1);
            let mut done = blocks.map(|block| self.back_up_block(block).boxed()).buffer_unordered(workers);
            while let Some(done) = done.next().await {
                done?;
            }
            Ok(())
        };
        let ((), worked) = tokio::join!(make.boxed(), work.boxed());
        worked
    }

    async fn back_up_block(&self, block: ItemBlock) -> Result<(), BackupError> {
        let hooked = self.run_pre_hooks(&block).await;
        let stored = self.store_block(block, !hooked.is_empty()).await;
        // Whatever became of the items: what the hooks before have stopped is to go on.
        for pod in hooked {
            self.owed_hooks.run_post(&self.hooks, &pod).await;
        }
        stored
    }

    async fn store_block(&self, mut block: ItemBlock, is_hooked: bool) -> Result<(), BackupError> {
        let mut batch = Batch::default();
        for place in 0..block.len() {
            let Some(block_item) = block.take(place) else {
                continue;
            };
            if self.waits(&block_item.item) {
                batch.items.push(PendingItem { block_item, must_include: false });
                continue;
            }
            self.back_up_or_tell(block_item, false, &mut block, &mut batch).await;
        }
        if is_hooked {
            // What the hooks before have stopped must not go on before the snapshots are taken.
            let waited = self.back_up_waiting(std::mem::take(&mut batch.items)).boxed().await;
            batch.records.extend(waited.records);
            batch.volumes.extend(waited.volumes);
            batch.records.extend(self.save_volumes(std::mem::take(&mut batch.volumes)).await);
        }
        self.deferred.add(batch.volumes, batch.items);
        self.records.send(batch.records).await?;
        self.ledger.publish();
        Ok(())
    }

    /// Runs the pre hooks of the pods of a block; gives those whose post hooks are due. A pod whose hook says that
    /// failure is final stays out of the backup, and goes on at once.
    async fn run_pre_hooks(&self, block: &ItemBlock) -> Vec<Arc<HookedPod>> {
        let mut hooked = Vec::new();
        for BlockItem { item, value } in block.iter().filter(|block_item| block_item.item.planned.name == PODS) {
            let Some(pod) = HookedPod::new(&self.plan.hooks, &item.raw, value.as_ref()) else {
                continue;
            };
            let pod = Arc::new(pod);
            match self.owed_hooks.run_pre(&self.hooks, &pod).await {
                Ok(()) => hooked.push(pod),
                Err(error) => {
                    self.owed_hooks.run_post_if_owed(&self.hooks, &pod).await;
                    let (namespace, name) = (item.raw.namespace(), item.raw.name());
                    let entry = self.journal.error().object(PODS, namespace, name).error(&error);
                    entry.message("Error running pre hooks for pod");
                    self.ledger.fail(&item.planned, namespace, name);
                }
            }
        }
        hooked
    }

    /// Backs up one item, its additional items first. An item that was backed up before, or that the filters leave
    /// out, is no error.
    pub(super) fn back_up_item<'b>(
        &'b self,
        block_item: BlockItem,
        must_include: bool,
        block: &'b mut ItemBlock,
        batch: &'b mut Batch,
    ) -> BoxFuture<'b, ItemResult<()>> {
        Box::pin(async move {
            let BlockItem { item, value } = block_item;
            let planned = Arc::clone(&item.planned);
            let (namespace, name) = (item.raw.namespace(), item.raw.name());
            if !self.admits(&item, must_include) || !self.ledger.claim(&planned, namespace, name) {
                return Ok(());
            }
            let acted = self.act_on(&item, value, block, batch).await;
            let added = acted.and_then(|acted| self.add(&item, acted, batch));
            if let Ok(true) = added
                && planned.name == PODS
                && self.saves_volumes
            {
                self.volume_context().save_pod(&item.raw).await;
            }
            added.map(|_| ()).inspect_err(|_| self.ledger.fail(&planned, namespace, name))
        })
    }

    /// Adds an item to those that go into the archive, unless an action keeps it out; the data of a volume comes first.
    fn add(&self, item: &Item, acted: Acted, batch: &mut Batch) -> ItemResult<bool> {
        let (planned, namespace, name) = (Arc::clone(&item.planned), item.raw.namespace(), item.raw.name());
        let (record, value) = match acted {
            Acted::Unchanged => (Record::unchanged(Arc::clone(&planned), item.raw.clone()), None),
            Acted::Changed(value) => (changed(item, &value)?, Some(value)),
            Acted::Skipped => {
                self.ledger.skip(&planned, namespace, name);
                return Ok(false);
            }
        };
        if planned.name == VOLUMES && self.saves_volumes {
            let value = value.map_or_else(|| item.raw.to_value().map_err(|error| error.to_string()), Ok)?;
            let value = Arc::new(value);
            self.volumes.meet(name, &value);
            batch.volumes.push(PendingVolume { record, name: name.to_owned(), value });
            return Ok(true);
        }
        self.log_item(&planned, namespace, name);
        batch.records.push(record);
        Ok(true)
    }

    /// Runs the actions that apply to an item, each on what the one before made of it.
    async fn act_on(
        &self,
        item: &Item,
        mut value: Option<Value>,
        block: &mut ItemBlock,
        batch: &mut Batch,
    ) -> ItemResult<Acted> {
        let (planned, namespace, name) = (&item.planned, item.raw.namespace(), item.raw.name());
        let mut changed = false;
        for index in &planned.backup_actions {
            let resolved = &self.plan.backup_actions[*index];
            let action = &resolved.action;
            if !self.is_on(action) || !resolved.applies_to_item(namespace, || item.labels()) {
                continue;
            }
            let current = match &mut value {
                Some(value) => value,
                empty => empty.insert(item.raw.to_value().map_err(|error| error.to_string())?),
            };
            let mut saved_claim = None;
            if let Some(method) = action.saves_volume() {
                saved_claim = self.begin_claim(&method, current).await?;
                if saved_claim.is_none() {
                    continue;
                }
            }
            let mut outcome = action.execute(current, &self.request.backup).await.map_err(|error| {
                let (resource, namespace) = (&planned.name, namespace.unwrap_or_default());
                format!("error executing custom action {} (groupResource={resource}, namespace={namespace}, name={name}): {error}", action.name())
            })?;
            if let Some(updated) = outcome.updated_item.take() {
                *current = updated;
                changed = true;
            }
            if annotation(current, annotations::SKIP_FROM_BACKUP).is_some() {
                let entry = self.journal.info().object(&planned.name, namespace, name);
                entry.message(&format!("Resource is skipped from backup by action {}.", action.name()));
                return Ok(Acted::Skipped);
            }
            let must_include = take_must_include(current, &mut changed);
            if let Some(operation_id) = &outcome.operation_id {
                self.volume_context().follow(&planned.name, current, operation_id);
            }
            self.record_operation(planned.identifier(namespace, name), action.name(), &outcome);
            for additional in &outcome.additional_items {
                self.back_up_additional_item(additional, must_include, block, batch).await?;
            }
            if let Some(claim) = saved_claim {
                self.volume_context().end_claim(&claim).map_err(|error| error.to_string())?;
            }
        }
        Ok(value.filter(|_| changed).map_or(Acted::Unchanged, Acted::Changed))
    }

    /// Begins to save the volume of a claim by an action; `None` when the action is not to be called for it.
    async fn begin_claim(&self, method: &VolumeMethod, claim: &Value) -> ItemResult<Option<SavedClaim<'_>>> {
        if !self.saves_volumes {
            return Ok(None);
        }
        self.volume_context().begin_claim(method, claim).await.map_err(|error| error.to_string())
    }

    /// Backs up an item that an action asked for: from the block, from the pool, or else from the cluster.
    pub(super) async fn back_up_additional_item(
        &self,
        additional: &ResourceIdentifier,
        must_include: bool,
        block: &mut ItemBlock,
        batch: &mut Batch,
    ) -> ItemResult<()> {
        let resource = additional.group_resource();
        let namespace = Some(additional.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let name = additional.name.as_str();
        let Some(planned) = self.plan.preferred(&resource) else {
            return Err(format!("additional item {resource} {name}: the cluster does not serve its type"));
        };
        let not_now = !self.filters_admit(planned, namespace, name) || self.comes_later(planned);
        if (not_now && !must_include) || self.ledger.is_settled(planned, namespace, name) {
            return Ok(());
        }
        let waiting = block.find(planned, namespace, name);
        let waiting = waiting.or_else(|| {
            let item = self.pool().take(planned, namespace, name)?;
            Some(BlockItem { item, value: None })
        });
        let found = match waiting {
            Some(found) => found,
            None => {
                let got = self.request.cluster.get_raw(&planned.resource_type, namespace, name).await;
                let Some(raw) = got.map_err(|error| error.to_string())? else {
                    let entry = self.journal.warning().object(&resource, namespace, name);
                    entry.message("Additional item was not found in Kubernetes API, can't back it up");
                    return Ok(());
                };
                BlockItem { item: Item::new(planned, raw), value: None }
            }
        };
        if self.waits(&found.item) {
            batch.items.push(PendingItem { block_item: found, must_include });
            return Ok(());
        }
        self.back_up_item(found, must_include, block, batch).await
    }

    fn record_operation(&self, item: ResourceIdentifier, action: &str, outcome: &BackupItemOutcome) {
        let Some(operation_id) = outcome.operation_id.clone().filter(|id| !id.is_empty()) else {
            return;
        };
        let spec = BackupOperationSpec {
            backup_item_action: action.to_owned(),
            resource_identifier: item,
            operation_id,
            post_operation_items: outcome.items_to_update.clone(),
            ..BackupOperationSpec::default()
        };
        self.recorder.add_operation(&self.request.backup, spec);
    }

    pub(super) fn log_item(&self, planned: &PlannedType, namespace: Option<&str>, name: &str) {
        self.journal.info().object(&planned.name, namespace, name).message("Backed up item");
    }

    /// Closes the books.
    pub(super) fn finish(self) -> BackupOutcome {
        let mut closing = self.ledger.close(&self.plan);
        for item in &closing.lost {
            let namespace = Some(item.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let resource = item.group_resource();
            let entry = self.journal.error().object(&resource, namespace, &item.name);
            entry.message("Error backing up item: it did not get into the archive");
        }
        closing.failed.append(&mut closing.lost);
        let count = closing.progress.items_backed_up;
        self.journal.info().field("progress", "").message(&format!("Backed up a total of {count} items"));
        BackupOutcome {
            progress: closing.progress,
            resource_list: closing.resource_list,
            operations: self.recorder.operations.all(),
            hook_status: self.hooks.status(),
            failed_items: closing.failed,
            skipped_items: closing.skipped,
            snapshots: self.recorder.snapshots.all(),
            volumes: self.volumes.infos(),
        }
    }
}

pub(super) fn identity(item: &Item) -> (Option<String>, String) {
    (item.raw.namespace().map(str::to_owned), item.raw.name().to_owned())
}

fn annotation<'v>(item: &'v Value, key: &str) -> Option<&'v str> {
    item.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// Whether an action asks for its additional items whatever the filters say. The annotation is a message to the
/// engine and does not belong into the archive.
fn take_must_include(item: &mut Value, changed: &mut bool) -> bool {
    let annotations = item.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let found = annotations.and_then(|all| all.remove(annotations::MUST_INCLUDE_ADDITIONAL_ITEMS));
    *changed |= found.is_some();
    found.is_some_and(|value| value == "true")
}

/// An item that an action changed. Its name and namespace may have changed too.
fn changed(item: &Item, value: &Value) -> ItemResult<Record> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = text("/metadata/name");
    if name.is_empty() {
        return Err("an action returned an item without a name".to_owned());
    }
    let namespace = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
    let before = identity(item);
    Ok(Record {
        planned: Arc::clone(&item.planned),
        renamed_from: (before.0 != namespace || before.1 != name).then_some(before),
        body: Body::Changed { namespace, name, json: go_json::to_vec(value).map_err(|error| error.to_string())? },
    })
}

#[cfg(test)]
mod tests;

//! One item: actions, additional items, and what goes into the archive.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use velero_api::FeatureFlags;
use velero_api::annotations;
use velero_api::records::{BackupOperationSpec, ResourceIdentifier, VolumeMethod};
use velero_api::v1::Backup;
use velero_archive::go_json;
use velero_cluster::{Cluster, ItemRef};
use velero_plugin::item::{annotation, filled, name, object_mut};
use velero_plugin::{BackupItemAction, BackupItemOutcome};

use super::admit::Admission;
use super::batch::{Batch, PendingItem, PendingVolume};
use super::error::ItemError;
use super::item_block::{BlockItem, ItemBlock};
use super::plan::{PODS, PlannedType};
use super::pool::{Item, Pool, VOLUMES};
use super::write::{Body, Record};
use crate::recorder::BackupRecorder;
use crate::stage::Sums;
use crate::volumes::{SavedClaim, VolumeSaver};
use crate::{Journal, lock};

/// What is done with an item, or why it is not in the archive.
pub(super) type ItemResult<T> = Result<T, ItemError>;

/// What it takes to back up items, each with those that its actions ask for.
pub(super) struct ItemSaver<'a> {
    pub admission: Admission<'a>,
    /// The items that wait for those they belong to.
    pub pool: &'a Mutex<Pool>,
    pub cluster: &'a Cluster,
    pub volumes: VolumeSaver<'a>,
    /// Whether the data of volumes is dealt with too.
    pub saves_volumes: bool,
    /// The backup, for calls that go on when the run is given up.
    pub backup: &'a Arc<Backup>,
    pub recorder: &'a BackupRecorder,
    pub features: &'a FeatureFlags,
    /// The calls of actions.
    pub calls: &'a Sums,
}

/// What an item became under its actions.
enum Acted {
    Unchanged,
    Changed(Value),
    Skipped,
}

impl ItemSaver<'_> {
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
            if !self.admission.admits(&item, must_include) || !self.admission.ledger.take(item.reference()) {
                return Ok(());
            }
            let acted = self.act_on(&item, value, block, batch).await;
            let added = acted.and_then(|acted| self.add(&item, acted, batch));
            if let Ok(true) = added
                && item.planned.name == PODS
                && self.saves_volumes
            {
                self.volumes.save_pod(&item.raw).await;
            }
            added.map(|_| ()).inspect_err(|_| self.admission.ledger.fail(item.reference()))
        })
    }

    /// Adds an item to those that go into the archive, unless an action keeps it out; the data of a volume comes first.
    fn add(&self, item: &Item, acted: Acted, batch: &mut Batch) -> ItemResult<bool> {
        let (record, value) = match acted {
            Acted::Unchanged => (Record::unchanged(Arc::clone(&item.planned), item.raw.clone()), None),
            Acted::Changed(value) => (changed(item, &value)?, Some(value)),
            Acted::Skipped => {
                self.admission.ledger.skip(item.reference());
                return Ok(false);
            }
        };
        if item.planned.name == VOLUMES && self.saves_volumes {
            let value = value.map_or_else(|| item.raw.to_value(), Ok)?;
            let value = Arc::new(value);
            let name = item.raw.name().to_owned();
            self.volumes.meet(&name, &value);
            batch.volumes.push(PendingVolume { record, name, value });
            return Ok(true);
        }
        log_item(self.admission.journal, item.reference());
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
        let (planned, namespace) = (&item.planned, item.raw.namespace());
        let mut changed = false;
        for index in &planned.backup_actions {
            let resolved = &self.admission.plan.backup_actions[*index];
            let action = &resolved.action;
            if !self.is_on(action) || !resolved.applies_to_item(namespace, || item.labels()) {
                continue;
            }
            let current = match &mut value {
                Some(value) => value,
                empty => empty.insert(item.raw.to_value()?),
            };
            let mut saved_claim = None;
            if let Some(method) = action.saves_volume() {
                saved_claim = self.begin_claim(&method, current).await?;
                if saved_claim.is_none() {
                    continue;
                }
            }
            let mut outcome = self.run_action(item, action, current, saved_claim.as_ref()).await?;
            if let Some(updated) = outcome.updated_item.take() {
                *current = updated;
                changed = true;
            }
            if annotation(current, annotations::SKIP_FROM_BACKUP).is_some() {
                self.keep_out(item, action.name(), &outcome);
                return Ok(Acted::Skipped);
            }
            let must_include = take_must_include(current, &mut changed);
            if let Some(operation_id) = &outcome.operation_id {
                self.volumes.follow(&planned.name, current, operation_id);
            }
            for additional in &outcome.additional_items {
                self.back_up_additional_item(additional, must_include, block, batch).await?;
            }
            if let Some(claim) = saved_claim {
                self.volumes.end_claim(&claim)?;
            }
        }
        Ok(value.filter(|_| changed).map_or(Acted::Unchanged, Acted::Changed))
    }

    /// Has an action handle what an item is by now.
    async fn run_action(
        &self,
        item: &Item,
        action: &Arc<dyn BackupItemAction>,
        current: &mut Value,
        saved_claim: Option<&SavedClaim<'_>>,
    ) -> ItemResult<BackupItemOutcome> {
        let recorder = OperationRecorder::new(self, item.planned.identifier(item.raw.namespace(), item.raw.name()));
        let call = match saved_claim {
            Some(claim) => save_claim(action, current, claim, recorder).boxed(),
            None => execute(action, current, recorder).boxed(),
        };
        let done = self.calls.add(action.name(), call).await;
        done.map_err(|source| failed(action.name(), item.reference(), source))
    }

    /// Notes that an action keeps an item out of the backup, and so what it has begun on it.
    fn keep_out(&self, item: &Item, action: &str, outcome: &BackupItemOutcome) {
        if let Some(operation_id) = &outcome.operation_id {
            self.recorder.disregard(action, operation_id);
        }
        let entry = self.admission.journal.info().item(item.reference());
        entry.message(&format!("Resource is skipped from backup by action {action}."));
    }

    /// Begins to save the volume of a claim by an action; `None` when the action is not to be called for it.
    async fn begin_claim(&self, method: &VolumeMethod, claim: &Value) -> ItemResult<Option<SavedClaim<'_>>> {
        if !self.saves_volumes {
            return Ok(None);
        }
        Ok(self.volumes.begin_claim(method, claim).await?)
    }

    /// Backs up an item that an action asked for: from the block, from the pool, or else from the cluster.
    pub(super) async fn back_up_additional_item(
        &self,
        additional: &ResourceIdentifier,
        must_include: bool,
        block: &mut ItemBlock,
        batch: &mut Batch,
    ) -> ItemResult<()> {
        let Admission { plan, ledger, journal, .. } = self.admission;
        let resource = additional.group_resource();
        let (namespace, name) = (additional.namespace(), additional.name.as_str());
        let Some(planned) = plan.preferred(&resource) else {
            return Err(ItemError::NotServed { resource, name: name.to_owned() });
        };
        let wanted = planned.item(namespace, name);
        let not_now = !self.admission.filters_admit(wanted) || self.admission.comes_later(planned);
        if (not_now && !must_include) || ledger.is_settled(wanted) {
            return Ok(());
        }
        let waiting = block.find(wanted);
        let waiting = waiting.or_else(|| {
            let item = lock(self.pool).take(wanted)?;
            Some(BlockItem { item, value: None })
        });
        let found = match waiting {
            Some(found) => found,
            None => {
                let got = self.cluster.get_raw(planned.resource_type.item(namespace, name)).await;
                let Some(raw) = got? else {
                    let entry = journal.warning().item(wanted);
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
}

/// Says that an item is on its way into the archive.
pub(super) fn log_item(journal: &Journal, item: ItemRef<'_, PlannedType>) {
    journal.info().item(item).message("Backed up item");
}

/// Records the operation that an action starts on an item.
struct OperationRecorder {
    recorder: BackupRecorder,
    backup: Arc<Backup>,
    item: ResourceIdentifier,
}

impl OperationRecorder {
    fn new(saver: &ItemSaver<'_>, item: ResourceIdentifier) -> Self {
        Self { recorder: saver.recorder.clone(), backup: Arc::clone(saver.backup), item }
    }

    fn record(self, action: &str, outcome: &BackupItemOutcome) {
        let Some(operation_id) = outcome.operation_id.clone().filter(|id| !id.is_empty()) else {
            return;
        };
        let spec = BackupOperationSpec {
            backup_item_action: action.to_owned(),
            resource_identifier: self.item,
            operation_id,
            post_operation_items: outcome.items_to_update.clone(),
            ..BackupOperationSpec::default()
        };
        self.recorder.add_operation(&self.backup, spec);
    }
}

/// Has an action handle an item. Its answer alone says what it has started, so the call is not broken off.
async fn execute(
    action: &Arc<dyn BackupItemAction>,
    item: &mut Value,
    recorder: OperationRecorder,
) -> velero_plugin::Result<BackupItemOutcome> {
    let (action, value, calls) = (Arc::clone(action), std::mem::take(item), recorder.recorder.clone());
    let call = async move {
        let done = action.execute(&value, &recorder.backup).await;
        if let Ok(outcome) = &done {
            recorder.record(action.name(), outcome);
        }
        (value, done)
    };
    let (value, done) = calls.call(call).await;
    *item = value;
    done
}

/// Has an action handle a claim whose volume it saves. What it makes carries the UID of the backup and is found by that.
async fn save_claim(
    action: &Arc<dyn BackupItemAction>,
    item: &Value,
    claim: &SavedClaim<'_>,
    recorder: OperationRecorder,
) -> velero_plugin::Result<BackupItemOutcome> {
    let outcome = action.execute_with(item, &recorder.backup, &claim.parameters).await?;
    recorder.record(action.name(), &outcome);
    Ok(outcome)
}

/// An action that failed on an item.
fn failed(action: &str, item: ItemRef<'_, PlannedType>, source: velero_plugin::Error) -> ItemError {
    ItemError::Action {
        action: action.to_owned(),
        resource: item.resource_type.name.clone(),
        namespace: item.namespace.unwrap_or_default().to_owned(),
        name: item.name.to_owned(),
        source: Box::new(source),
    }
}

/// Whether an action asks for its additional items whatever the filters say. The annotation is a message to the
/// engine and does not belong into the archive.
fn take_must_include(item: &mut Value, changed: &mut bool) -> bool {
    let annotations = object_mut(item, "/metadata/annotations");
    let found = annotations.and_then(|all| all.remove(annotations::MUST_INCLUDE_ADDITIONAL_ITEMS));
    *changed |= found.is_some();
    found.is_some_and(|value| value == "true")
}

/// An item that an action changed. Its name and namespace may have changed too.
fn changed(item: &Item, value: &Value) -> ItemResult<Record> {
    let name = name(value).to_owned();
    if name.is_empty() {
        return Err(ItemError::Nameless);
    }
    let namespace = filled(value, "/metadata/namespace").map(str::to_owned);
    let before = item.identity();
    Ok(Record {
        planned: Arc::clone(&item.planned),
        renamed_from: (before.0 != namespace || before.1 != name).then_some(before),
        body: Body::Changed { namespace, name, json: go_json::to_vec(value)? },
    })
}

#[cfg(test)]
mod tests;

//! A restore under way: everything the steps share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, stream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Span;
use tracing::field::Empty;
use velero_api::metadata;
use velero_api::records::{ResourceIdentifier, RestoreOperation, RestoreOperationSpec, RestoreVolumeInfo};
use velero_api::v1::{HookStatus, RestoreProgress};
use velero_cluster::ItemRef;
use velero_plugin::item::text;
use velero_plugin::{Resolved, RestoreItemAction};
use velero_rules::difference::Change;
use velero_rules::includes_excludes::IncludesExcludes;
use velero_rules::restore_hooks::RestoreHookRules;

use super::contents::Contents;
use super::item::Item;
use super::known_namespaces::Namespaces;
use super::ledger::{Done, ItemKey, Ledger, PlannedKey, Row};
use super::outages::Outages;
use super::outcome::{ItemPreview, Preview, PreviewAction, RestoreOutcome, RunningHooks};
use super::pace::Pace;
use super::plan::{DEFINITIONS, NAMESPACES, Plan, Step, is_admission};
use super::selection::Selection;
use super::trouble::{Ended, Postponed, ResultSection, Severity, Trouble};
use super::types::Types;
use super::{RestoreError, RestoreRequest};
use crate::Journal;
pub(super) use crate::lock;
use crate::recorder::started;
use crate::stage::{Sums, within};
use crate::volumes::{Earlier, RestoreContext, RestoreVolumes, VolumeRestorer};
use crate::{detail, stage};

/// The most items of a type that are worked on at the same time; how many requests go out is up to [`Pace`].
pub(super) const ROWS: usize = 128;

/// How many bytes of differences a preview tells; a report that nobody can read helps nobody.
const MOST_CHANGES: usize = 64 << 20;

/// Whether a restore writes, or only says what it would write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Write,
    Preview,
}

/// A restore under way.
pub(super) struct Run {
    pub request: RestoreRequest,
    pub restore_name: String,
    pub mode: Mode,
    pub plan: Plan,
    pub contents: Contents,
    pub selection: Selection,
    pub ledger: Ledger,
    pub journal: Journal,
    pub actions: Vec<Resolved<Arc<dyn RestoreItemAction>>>,
    pub types: Types,
    pub pace: Pace,
    pub outages: Outages,
    pub postponed: Mutex<Vec<Postponed>>,
    pub volumes: RestoreVolumes,
    pub earlier: Earlier,
    pub namespaces: Namespaces,
    pub hook_rules: RestoreHookRules,
    pub status_types: Option<IncludesExcludes>,
    pub hooks: Mutex<JoinSet<HookStatus>>,
    pub new_volumes: Mutex<JoinSet<()>>,
    pub fillings: Mutex<JoinSet<Vec<RestoreVolumeInfo>>>,
    rows: AtomicU64,
    previews: Mutex<HashMap<ItemKey, (Row, ItemPreview)>>,
    /// How many bytes of differences were told so far.
    told: AtomicUsize,
    /// The stage in which items are restored.
    pub(super) stage: Span,
    /// The calls of actions.
    pub(super) calls: Sums,
}

impl Run {
    /// Puts a restore together; the total is told.
    pub(super) async fn new(
        mut request: RestoreRequest,
        mode: Mode,
        plan: Plan,
        contents: Contents,
        selection: Selection,
        journal: Journal,
        progress: watch::Sender<RestoreProgress>,
    ) -> Result<Self, RestoreError> {
        let discovery = Arc::clone(&request.discovery);
        let resolve = |name: &str| discovery.resolve(name).map(|found| found.group_resource());
        let spec = &request.restore.spec;
        let hook_rules = RestoreHookRules::new(&spec.hooks, resolve);
        let status_types = spec
            .restore_status
            .as_ref()
            .map(|types| IncludesExcludes::of_resources(&types.included_resources, &types.excluded_resources, resolve));
        let actions = resolved_actions(&request).await?;
        let volumes = RestoreVolumes::new(
            std::mem::take(&mut request.volumes),
            std::mem::take(&mut request.snapshots),
            &request.restore.spec,
            &request.features,
        );
        let earlier = match mode {
            Mode::Write => Earlier::meet(&request, &journal).await?,
            Mode::Preview => Earlier::default(),
        };
        let copies = volumes.copies();
        request.actions.restore_item().iter().for_each(|action| action.fills_volumes(&copies));
        let stage = stage!("items", velero.items = Empty);
        Ok(Self {
            calls: Sums::inside(&stage, "action"),
            stage,
            hook_rules: hook_rules.map_err(|error| RestoreError::Request(format!("hooks of the restore: {error}")))?,
            status_types,
            actions,
            restore_name: metadata::name(&request.restore).to_owned(),
            ledger: Ledger::new(keys(&plan, &contents), progress),
            types: Types::new(discovery),
            volumes,
            earlier,
            namespaces: Namespaces::default(),
            pace: Pace::new(),
            outages: Outages::default(),
            postponed: Mutex::default(),
            hooks: Mutex::default(),
            new_volumes: Mutex::default(),
            fillings: Mutex::default(),
            rows: AtomicU64::new(0),
            previews: Mutex::default(),
            told: AtomicUsize::new(0),
            request,
            mode,
            plan,
            contents,
            selection,
            journal,
        })
    }

    /// What there is to know for those who restore volumes.
    pub(super) fn volume_context(&self) -> VolumeRestorer<'_> {
        let context = RestoreContext {
            volumes: &self.volumes.notes,
            restore: &self.request.restore,
            location: &self.request.backup.spec.storage_location,
            cluster: &self.request.cluster,
            actions: &self.request.actions,
            journal: &self.journal,
            pace: &self.pace,
            is_preview: self.mode == Mode::Preview,
            resource_timeout: self.request.resource_timeout,
            terminating_timeout: self.request.terminating_timeout,
            tasks: &self.new_volumes,
            copy_means: &self.request.copy_means,
            earlier: &self.earlier,
            fillings: &self.fillings,
        };
        VolumeRestorer { volumes: &self.volumes, context }
    }

    /// Does all that the plan says.
    pub(super) async fn restore(&self) {
        self.tell_plan();
        let (definitions, others): (Vec<_>, Vec<_>) =
            self.plan.steps.iter().partition(|step| &*step.resource == DEFINITIONS);
        let (admission, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|step| is_admission(&step.resource));
        for step in definitions {
            self.restore_type(step).await;
            self.learn_new_types().await;
        }
        self.restore_namespaces().await;
        for step in others {
            self.restore_type(step).await;
        }
        self.restore_postponed().await;
        for step in admission {
            self.restore_type(step).await;
        }
        // Only what an action asks for can still be waiting here.
        self.restore_postponed().await;
        self.give_up_namespaces().await;
        self.volume_context().close();
        self.tell_left();
    }

    /// Whether no further item is to be begun.
    pub(super) fn is_halted(&self) -> bool {
        self.request.halt.is_cancelled()
    }

    /// Tells what was not begun any more.
    fn tell_left(&self) {
        if !self.is_halted() {
            return;
        }
        for ((namespace, resource), count) in self.ledger.left() {
            let entry = self.journal.error().resource(&resource).namespace(namespace.as_deref());
            entry.message(&format!("not restored, since the restore was ended before: {count} of {resource}"));
        }
    }

    async fn restore_type(&self, step: &Step) {
        if self.is_halted() {
            return;
        }
        let (count, resource) = (step.items.len(), &step.resource);
        self.journal.info().resource(resource).message(&format!("Restoring {count} items of {resource}"));
        let restoring = stream::iter(step.items(&self.contents))
            .take_while(|_| std::future::ready(!self.is_halted()))
            .for_each_concurrent(ROWS, |item| self.restore_planned(&step.resource, item, self.next_row()));
        let stage = detail!("type", trace.name = format!("restore {resource}"), velero.items = count);
        within(stage, restoring).await;
    }

    pub(super) fn next_row(&self) -> Row {
        self.rows.fetch_add(1, Ordering::Relaxed)
    }

    fn tell_plan(&self) {
        let total = self.plan.total();
        self.journal.info().message(&format!("Restoring {total} items of {} types", self.plan.steps.len()));
        for (resource, number) in &self.plan.completed {
            let Some(item) = self.contents.of_type(resource).map(|items| items.get(*number)) else { continue };
            let (namespace, name) = (item.namespace.unwrap_or_default(), item.name);
            let entry = self.journal.info().item(ItemRef::new(&**resource, Some(namespace), name));
            entry.message(&format!("{namespace}/{name} is complete - skipping"));
        }
        if self.contents.types().is_empty() {
            self.journal.warning().message("zero items to be restored: the backup holds none");
        }
    }

    /// Enters a trouble into the journal and makes an end of it.
    pub(super) fn end_with(&self, item: &Item, trouble: Trouble) -> Ended {
        let entry = match trouble.severity {
            Severity::Warning => self.journal.warning(),
            Severity::Error => self.journal.error(),
        };
        let entry = entry.resource(&item.resource).name(&item.name);
        match trouble.section {
            ResultSection::Place => entry.namespace(item.target.as_deref()).message(&trouble.message),
            ResultSection::Velero => entry.message(&trouble.message),
        }
        match (trouble.severity, trouble.section) {
            (Severity::Warning, _) => {}
            (Severity::Error, ResultSection::Velero) => {
                self.preview(item, PreviewAction::Conflict, &trouble.message, Vec::new());
            }
            (Severity::Error, ResultSection::Place) => {
                self.preview(item, PreviewAction::Fail, &trouble.message, Vec::new());
            }
        }
        Ended { kind: trouble.kind, ..Ended::new(trouble.done, trouble.exists) }
    }

    pub(super) fn log_end(&self, item: &Item, ended: &Ended) {
        let message = match (ended.done, &ended.reason) {
            (Done::Created, _) => "Created item",
            (Done::Updated, _) => "Updated item",
            (Done::Failed, _) => "Item was not restored",
            (Done::Skipped, Some(reason)) => &format!("Skipped item: {reason}"),
            (Done::Skipped, None) => "Skipped item",
        };
        self.journal.info().item(item.reference()).message(message);
    }

    pub(super) fn record_operation(&self, item: &Item, action: &str, operation_id: String) {
        if operation_id.is_empty() {
            return;
        }
        let (resource, group) = item.resource.split_once('.').unwrap_or((&item.resource, ""));
        let spec = RestoreOperationSpec {
            restore_name: self.restore_name.clone(),
            restore_uid: metadata::uid(&self.request.restore).to_owned(),
            restore_item_action: action.to_owned(),
            resource_identifier: ResourceIdentifier::new(
                group,
                resource,
                item.target.as_deref().unwrap_or_default(),
                &item.name,
            ),
            operation_id,
            ..RestoreOperationSpec::default()
        };
        self.request.operations.add(RestoreOperation { spec, status: started() });
    }

    /// Notes what would happen to an item; nothing when it does happen.
    pub(super) fn preview(&self, item: &Item, action: PreviewAction, reason: &str, changes: Vec<Change>) {
        if self.mode == Mode::Write {
            return;
        }
        let kind = self.contents.read(item.stored).unwrap_or_default();
        let size: usize = changes.iter().map(Change::size).sum();
        let is_full = self.told.fetch_add(size, Ordering::Relaxed) + size > MOST_CHANGES;
        let (changes, reason) = match is_full && !changes.is_empty() {
            true => (Vec::new(), format!("{reason}; what differs is not told, the report is full")),
            false => (changes, reason.to_owned()),
        };
        let mut preview = ItemPreview {
            action,
            api_version: text(&kind, "/apiVersion").to_owned(),
            kind: text(&kind, "/kind").to_owned(),
            resource: item.resource.to_string(),
            namespace: item.target.as_deref().map(str::to_owned),
            original_namespace: item.original.as_deref().filter(|_| item.original != item.target).map(str::to_owned),
            name: item.name.to_string(),
            reason,
            changes,
        };
        preview.hide_secrets();
        self.add_preview(item.key(), preview);
    }

    pub(super) fn add_preview(&self, key: ItemKey, preview: ItemPreview) {
        lock(&self.previews).insert(key, (self.next_row(), preview));
    }

    /// Closes the books of a restore.
    pub(super) fn finish(self) -> (RestoreOutcome, RunningHooks) {
        // Nothing is read any more, and the list of what was restored wants room.
        drop(self.contents);
        let (progress, resource_list) = self.ledger.finish();
        let count = progress.items_restored;
        self.stage.record("velero.items", count);
        self.journal.info().message(&format!("Restored a total of {count} items"));
        let operations = self.request.operations.all();
        let volumes = self.volumes.notes.restored();
        let pods = self.hooks.into_inner().unwrap_or_else(PoisonError::into_inner);
        let new_volumes = self.new_volumes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let fillings = self.fillings.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outcome = RestoreOutcome { progress, resource_list, operations, volumes };
        (outcome, RunningHooks { pods, volumes: new_volumes, fillings })
    }

    /// Closes the books of a preview.
    pub(super) fn finish_preview(self) -> Preview {
        let previews = self.previews.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut items: Vec<_> = previews.into_values().collect();
        items.sort_by_key(|(row, _)| *row);
        Preview { items: items.into_iter().map(|(_, preview)| preview).collect() }
    }
}

/// The actions of a restore, each with what it applies to.
async fn resolved_actions(request: &RestoreRequest) -> Result<Vec<Resolved<Arc<dyn RestoreItemAction>>>, RestoreError> {
    let mut resolved = Vec::new();
    for action in request.actions.restore_item() {
        let selector = action.applies_to().await?;
        resolved.push(velero_plugin::resolve(action.name(), Arc::clone(action), &selector, &request.discovery)?);
    }
    Ok(resolved)
}

fn keys<'a>(plan: &'a Plan, contents: &'a Contents) -> impl Iterator<Item = PlannedKey<'a>> {
    let namespaces = plan.namespaces.keys();
    let namespaces = namespaces.map(|name| PlannedKey { resource: NAMESPACES, namespace: None, name });
    let items = plan.steps.iter().flat_map(|step| {
        step.items(contents).map(|item| PlannedKey {
            resource: &step.resource,
            namespace: item.namespace.map(|namespace| plan.scope.target(namespace)),
            name: item.name,
        })
    });
    namespaces.chain(items)
}

pub(super) fn namespace_key(name: &str) -> ItemKey {
    ItemKey { resource: NAMESPACES.into(), namespace: None, name: name.into() }
}

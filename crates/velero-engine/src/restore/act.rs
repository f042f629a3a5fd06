//! One item: from the archive, through actions and modifiers, to what is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use velero_api::annotations;
use velero_api::records::ResourceIdentifier;
use velero_cluster::ItemRef;
use velero_plugin::item::{take_annotation, text};
use velero_plugin::{RestoreItemAction, RestoreItemInput, RestoreItemOutcome};

use super::item::{Item, Wanted};
use super::ledger::{Done, Row, Turn};
use super::object;
use super::plan::{NAMESPACES, PlannedItem};
use super::run::Run;
use super::selection::Selection;
use super::trouble::{Ended, ItemResult, Trouble};
use crate::volumes::VolumeVerdict;

impl Run {
    /// Restores a planned item and whatever it asks for.
    pub(super) async fn restore_planned(&self, resource: &Arc<str>, planned: PlannedItem<'_>, row: Row) {
        let target = planned.namespace.map(|namespace| self.plan.scope.target(namespace).into());
        let (original, name, stored) = (planned.namespace.map(Into::into), planned.name.into(), planned.stored);
        self.restore_item(Item { resource: Arc::clone(resource), original, target, name, stored }, row).await;
    }

    /// Restores an item unless that was done before; whether it exists now.
    fn restore_item(&self, item: Item, row: Row) -> BoxFuture<'_, bool> {
        async move {
            let key = item.key();
            if let Turn::Handled { exists } = self.ledger.take(&key, row).await {
                return exists;
            }
            let result = self.handle(&item, row).await;
            self.conclude(item, result, row)
        }
        .boxed()
    }

    /// Brings one item from the archive into the cluster.
    pub(super) async fn handle(&self, item: &Item, row: Row) -> ItemResult {
        let from_backup = self.read(item)?;
        let kind = kind_key(&from_backup);
        if let (Some(original), Some(target)) = (item.original.as_deref(), item.target.as_deref())
            && !Selection::is_work(&item.resource)
        {
            let ready = self.ensure_namespace(original, target).await;
            ready.map_err(|trouble| trouble.about(kind.clone()))?;
        }
        // Whatever becomes of it, it is listed under the kind it has in the backup.
        match self.prepare(item, from_backup, row).await {
            Ok(Prepared::Ended(ended)) => Ok(Ended { kind: Some(kind), ..ended }),
            Ok(Prepared::ToWrite(wanted)) => self.write_as(item, kind, *wanted).await,
            Err(trouble) => Err(trouble.about(kind)),
        }
    }

    /// The object of an item as it is in the archive.
    pub(super) fn read(&self, item: &Item) -> Result<Value, Trouble> {
        let object = self
            .contents
            .read(item.stored)
            .map_err(|error| Trouble::error(format!("error decoding \"{}\": {error}", self.path_of(item))))?;
        let namespace = item.original.as_deref().unwrap_or_default();
        let belongs =
            text(&object, "/metadata/name") == &*item.name && text(&object, "/metadata/namespace") == namespace;
        if belongs {
            return Ok(object);
        }
        Err(Trouble::error(format!(
            "error decoding \"{}\": the object in it has another name or namespace than its path says",
            self.path_of(item)
        )))
    }

    /// Makes of an item what is to be written.
    async fn prepare(&self, item: &Item, from_backup: Value, row: Row) -> Result<Prepared, Trouble> {
        let skip = |reason: &str| Ok(Prepared::Ended(self.skip(item, reason)));
        if object::is_mirror_pod(&item.resource, &from_backup) {
            return skip("it is a mirror pod: the kubelet makes it from a file");
        }
        self.make_way(item, &from_backup).await?;
        let mut object = from_backup.clone();
        if &*item.resource == "persistentvolumes"
            && let Some(ended) = self.handle_volume(item, &mut object).await?
        {
            return Ok(Prepared::Ended(ended));
        }
        if Selection::is_work(&item.resource) {
            self.volumes.meet_work(&item.resource, &from_backup);
            self.tell_of_work(&from_backup);
        }
        let status = object::strip(&mut object);
        for resolved in &self.actions {
            let applies = resolved.applies_to_type(&item.resource)
                && resolved.applies_to_item(item.target.as_deref(), || labels_of(&object));
            if applies && self.act(&*resolved.action, item, &mut object, &from_backup, row).await? == Act::Skip {
                return skip(&format!("the action {} keeps it out", resolved.action.name()));
            }
        }
        if &*item.resource == "persistentvolumeclaims" {
            self.volume_context().restore_claim(item, &object);
            self.volumes.notes.free_claim(&mut object);
        }
        if Selection::is_work(&item.resource) {
            return skip("it is work of Velero that was done, and must not be done again");
        }
        self.modify(item, &mut object);
        if let Some(target) = &item.target {
            object::set_namespace(&mut object, target);
        }
        object::add_labels(&mut object, &self.restore_name, &self.request.restore.spec.backup_name);
        let managed_fields = object::take_managed_fields(&mut object);
        Ok(Prepared::ToWrite(Box::new(Wanted { object, status, managed_fields })))
    }

    /// Decides about a volume; gives the end if it is not made.
    async fn handle_volume(&self, item: &Item, volume: &mut Value) -> Result<Option<Ended>, Trouble> {
        let anew = "its claim gets a new volume";
        match self.volumes.handle(volume) {
            VolumeVerdict::AsItWas => Ok(None),
            VolumeVerdict::Anew => Ok(Some(self.skip(item, anew))),
            VolumeVerdict::AnewWithData(what) => {
                Err(Trouble::error(format!("the data of volume {} is in {what}; {anew} without the data", item.name)))
            }
            VolumeVerdict::FromSnapshot => self.volume_context().restore_volume(item, volume).await.map(|()| None),
        }
    }

    /// Runs one action on an item.
    async fn act(
        &self,
        action: &dyn RestoreItemAction,
        item: &Item,
        object: &mut Value,
        from_backup: &Value,
        row: Row,
    ) -> Result<Act, Trouble> {
        if action.needs_feature().is_some_and(|feature| !self.request.features.is_enabled(feature)) {
            return Ok(Act::GoOn);
        }
        let input = RestoreItemInput { item: object, item_from_backup: from_backup, restore: &self.request.restore };
        let outcome = self.calls.add(action.name(), action.execute(input)).await;
        let mut outcome = outcome.map_err(|error| Trouble::error(format!("error preparing {}: {error}", item.id())))?;
        if let Some(operation_id) = outcome.operation_id.take() {
            self.volume_context().follow(item, &operation_id);
            self.record_operation(item, action.name(), operation_id);
        }
        if outcome.skip_restore {
            return Ok(Act::Skip);
        }
        if let Some(updated) = outcome.updated_item.take() {
            *object = updated;
        }
        let must_include = take_annotation(object, annotations::MUST_INCLUDE_ADDITIONAL_ITEMS_RESTORE);
        let existing = self.restore_additional(item, &outcome, must_include.as_deref() == Some("true"), row).await;
        self.wait_for_additional(action, item, &outcome, &existing).await;
        Ok(Act::GoOn)
    }

    /// Restores what an action asks for; gives those items that exist then.
    async fn restore_additional(
        &self,
        item: &Item,
        outcome: &RestoreItemOutcome,
        must_include: bool,
        row: Row,
    ) -> Vec<ResourceIdentifier> {
        let mut existing = Vec::new();
        for additional in &outcome.additional_items {
            let resource = additional.group_resource();
            let original = Some(additional.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let Some(stored) = self.contents.find(ItemRef::new(resource.as_str(), original, &additional.name)) else {
                let place = original.map(|namespace| format!("{namespace}/")).unwrap_or_default();
                let entry = self.journal.warning().namespace(original);
                entry.message(&format!(
                    "unable to restore additional item {resource} {place}{} of {}: it is not in the backup",
                    additional.name,
                    item.id()
                ));
                continue;
            };
            if !must_include && !self.admits(&resource, original) || stored.completed || resource == NAMESPACES {
                continue;
            }
            let target = original.map(|namespace| self.plan.scope.target(namespace).into());
            let name = additional.name.as_str().into();
            let wanted = Item { resource: resource.into(), original: original.map(Into::into), target, name, stored };
            if self.restore_item(wanted, row).await {
                existing.push(additional.clone());
            }
        }
        existing
    }

    /// Whether an item that an action asks for may come along: labels and names do not count.
    fn admits(&self, resource: &str, namespace: Option<&str>) -> bool {
        let always = namespace.is_some() && Selection::always_takes(resource);
        self.selection.takes_type(resource) && (always || self.plan.scope.admits(namespace))
    }

    fn modify(&self, item: &Item, object: &mut Value) {
        let Some(modifiers) = &self.request.modifiers else {
            return;
        };
        for error in modifiers.apply(object, &item.resource) {
            let entry = self.journal.error().namespace(item.target.as_deref());
            entry.message(&format!("error modifying {}: {error}", item.id()));
        }
    }

    /// Records why an item stays out.
    pub(super) fn skip(&self, item: &Item, reason: &str) -> Ended {
        self.preview(item, super::PreviewAction::Skip, reason, Vec::new());
        Ended { reason: Some(reason.to_owned()), ..Ended::new(Done::Skipped, false) }
    }

    fn path_of(&self, item: &Item) -> String {
        let path = velero_archive::ItemPath {
            group_resource: &item.resource,
            version: None,
            namespace: item.original.as_deref(),
            name: &item.name,
        };
        path.to_string()
    }
}

/// What an item came to before it is written.
enum Prepared {
    ToWrite(Box<Wanted>),
    Ended(Ended),
}

#[derive(PartialEq, Eq)]
enum Act {
    GoOn,
    Skip,
}

/// `<apiVersion>/<Kind>`, as the list of restored items has it.
pub(super) fn kind_key(object: &Value) -> String {
    format!("{}/{}", text(object, "/apiVersion"), text(object, "/kind"))
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.map(|labels| labels.iter().filter_map(text).collect()).unwrap_or_default()
}

//! A restored content names what the driver holds, and never deletes it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use velero_api::annotations::{SNAPSHOTTER_SECRET_NAME, SNAPSHOTTER_SECRET_NAMESPACE};
use velero_api::features::ENABLE_CSI;
use velero_api::type_names::VOLUME_SNAPSHOT_CONTENTS;
use velero_api::v1::Restore;
use velero_plugin::item::text;
use velero_plugin::{Error, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use super::{new_name, target, wants_data};
use crate::classes::Classes;
use crate::objects::{handle, secret};

/// What the snapshot controller notes on a content that it is working on.
const UNDER_WAY: [&str; 2] = [
    "snapshot.storage.kubernetes.io/volumesnapshot-being-created",
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
];

/// Points a content to what the driver holds.
pub(super) struct RestoreAction {
    classes: Arc<Classes>,
}

impl RestoreAction {
    pub(super) fn new(classes: Arc<Classes>) -> Self {
        Self { classes }
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/csi-volumesnapshotcontent-restorer"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[VOLUME_SNAPSHOT_CONTENTS]))
    }

    fn needs_feature(&self) -> Option<&str> {
        Some(ENABLE_CSI)
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let RestoreItemInput { item, item_from_backup, restore } = input;
        if !wants_data(restore) {
            return Ok(RestoreItemOutcome { skip_restore: true, ..RestoreItemOutcome::default() });
        }
        let handle = usable_handle(item_from_backup).map_err(Error::Item)?;
        let driver = text(item, "/spec/driver");
        // The class of the old cluster may be missing here; one of the driver brings what the driver needs.
        let own = |class: &&Value| text(class, "/driver") == driver;
        let class = self.classes.all().await?.iter().find(own).map(|class| text(class, "/metadata/name"));
        let content = rewritten(item, handle, class, restore);
        let additional_items: Vec<_> =
            secret(&content, SNAPSHOTTER_SECRET_NAME, SNAPSHOTTER_SECRET_NAMESPACE).into_iter().collect();
        Ok(RestoreItemOutcome { updated_item: Some(content), additional_items, ..RestoreItemOutcome::default() })
    }
}

/// The handle of a content, unless the backup knows that there is nothing to use behind it.
fn usable_handle(content: &Value) -> Result<&str, String> {
    let (name, volume) = (text(content, "/metadata/name"), text(content, "/spec/volumeSnapshotRef/name"));
    let problem = match handle(content) {
        None => "it has no snapshot handle",
        Some(_) if content.pointer("/status/readyToUse") == Some(&json!(false)) => {
            "the driver had not made it usable when the backup ended"
        }
        Some(handle) => return Ok(handle),
    };
    Err(format!("VolumeSnapshotContent {name} of VolumeSnapshot {volume} cannot be restored: {problem}"))
}

/// The content under its new name, for the snapshot of that name where that goes.
fn rewritten(content: &Value, handle: &str, class: Option<&str>, restore: &Restore) -> Value {
    let mut content = content.clone();
    let name = new_name(restore, text(&content, "/spec/volumeSnapshotRef/name"));
    let namespace = target(restore, text(&content, "/spec/volumeSnapshotRef/namespace")).to_owned();
    if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), name.as_str().into());
        if let Some(notes) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            notes.retain(|key, _| !UNDER_WAY.contains(&key.as_str()));
        }
    }
    if let Some(spec) = content.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("deletionPolicy".to_owned(), "Retain".into());
        spec.insert("source".to_owned(), json!({"snapshotHandle": handle}));
        match class {
            Some(class) => spec.insert("volumeSnapshotClassName".to_owned(), class.into()),
            None => spec.remove("volumeSnapshotClassName"),
        };
        if let Some(reference) = spec.get_mut("volumeSnapshotRef").and_then(Value::as_object_mut) {
            reference.insert("name".to_owned(), name.into());
            reference.insert("namespace".to_owned(), namespace.into());
            reference.remove("uid");
            reference.remove("resourceVersion");
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;
    use crate::objects::identity;

    fn content() -> Value {
        let reference =
            json!({"name": "vs", "namespace": "shop", "uid": "1", "resourceVersion": "2", "kind": "VolumeSnapshot"});
        json!({
            "metadata": {"name": "snapcontent-1", "annotations": {UNDER_WAY[0]: "yes", "a": "b"}},
            "spec": {"deletionPolicy": "Delete", "driver": "disk", "source": {"volumeHandle": "v"},
                "volumeSnapshotClassName": "old", "volumeSnapshotRef": reference},
            "status": {"snapshotHandle": "h", "readyToUse": true},
        })
    }

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("csi-contents", bring_back)]
    }

    fn bring_back(bytes: &[u8]) {
        let Ok(content) = serde_json::from_slice::<Value>(bytes) else { return };
        if let Ok(handle) = usable_handle(&content) {
            let _ = rewritten(&content, handle, Some("class"), &Restore::new("velero", "r", Default::default()));
        }
        let _ = (crate::objects::failure(&content), crate::objects::is_ready(&content), identity(&content));
    }

    strike_all!(parsers);

    #[test]
    fn a_content_keeps_what_the_driver_holds_and_follows_the_namespace() {
        let mut restore = Restore::new("velero", "r", Default::default());
        restore.spec.namespace_mapping = [("shop".to_owned(), "shop-2".to_owned())].into();
        let rewritten = rewritten(&content(), "h", Some("new"), &restore);
        let name = new_name(&restore, "vs");
        assert_eq!(rewritten["metadata"], json!({"name": name, "annotations": {"a": "b"}}));
        let reference = json!({"name": name, "namespace": "shop-2", "kind": "VolumeSnapshot"});
        assert_eq!(
            rewritten["spec"],
            json!({"deletionPolicy": "Retain", "driver": "disk", "source": {"snapshotHandle": "h"},
                "volumeSnapshotClassName": "new", "volumeSnapshotRef": reference})
        );
        let unclassed = super::rewritten(&content(), "h", None, &restore);
        assert!(unclassed["spec"].get("volumeSnapshotClassName").is_none());
    }

    #[test]
    fn a_content_that_never_became_usable_is_not_restored() {
        assert_eq!(usable_handle(&content()), Ok("h"));
        for (status, word) in [
            (json!({}), "no snapshot handle"),
            (json!({"snapshotHandle": "h", "readyToUse": false}), "not made it usable"),
        ] {
            let mut content = content();
            content["status"] = status;
            let problem = usable_handle(&content).unwrap_err();
            assert!(problem.contains(word) && problem.contains("snapcontent-1"), "{problem}");
        }
        let mut old = content();
        old["status"] = json!({"snapshotHandle": "h"});
        assert_eq!(usable_handle(&old), Ok("h"), "older backups do not say");
    }
}

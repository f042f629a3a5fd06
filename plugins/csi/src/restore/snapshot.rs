//! A restored snapshot is bound to a content that names what the driver holds.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use velero_api::annotations::{
    CSI_DRIVER_NAME, MUST_INCLUDE_ADDITIONAL_ITEMS_RESTORE, VOLUME_SNAPSHOT_CONTENT_DELETION_POLICY,
    VOLUME_SNAPSHOT_HANDLE,
};
use velero_api::features::ENABLE_CSI;
use velero_api::labels;
use velero_api::metadata;
use velero_api::type_names::VOLUME_SNAPSHOTS;
use velero_api::v1::Restore;
use velero_cluster::{Cluster, Discovery};
use velero_plugin::item::{annotation, set_annotation, text};
use velero_plugin::{Error, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use super::group::GroupContents;
use super::{new_name, target, wants_data};
use crate::classes::Classes;
use crate::objects::{CONTENTS, SNAPSHOTS, bound_content, identity};

/// Binds a snapshot to its new content.
pub(super) struct RestoreAction {
    cluster: Cluster,
    classes: Arc<Classes>,
    groups: GroupContents,
}

impl RestoreAction {
    pub(super) fn new(cluster: &Cluster, discovery: &Discovery, classes: Arc<Classes>) -> Self {
        Self { cluster: cluster.clone(), classes, groups: GroupContents::new(cluster, discovery) }
    }

    /// Makes the content of a snapshot from its annotations, for backups that do not hold the content.
    async fn make_content(&self, snapshot: &Value, restore: &Restore) -> Result<()> {
        let (namespace, name) = identity(snapshot);
        let noted = |key: &str| {
            annotation(snapshot, key).filter(|value| !value.is_empty()).ok_or_else(|| {
                Error::Item(format!("VolumeSnapshot {namespace}/{name} of the backup has neither a content nor {key}"))
            })
        };
        let (handle, driver) = (noted(VOLUME_SNAPSHOT_HANDLE)?, noted(CSI_DRIVER_NAME)?);
        let own = |class: &&Value| text(class, "/driver") == driver;
        let class = self.classes.all().await?.iter().find(own).map(|class| text(class, "/metadata/name"));
        let content = new_content(snapshot, (handle, driver), class, restore);
        match self.cluster.create_until_answered(&CONTENTS, None, &content).await {
            Err(error) if !error.is_already_exists() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/csi-volumesnapshot-restorer"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[VOLUME_SNAPSHOTS]))
    }

    fn needs_feature(&self) -> Option<&str> {
        Some(ENABLE_CSI)
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let RestoreItemInput { item, item_from_backup, restore } = input;
        if !wants_data(restore) {
            return Ok(RestoreItemOutcome { skip_restore: true, ..RestoreItemOutcome::default() });
        }
        // A restore that is only looked at has no identity yet, and nothing is made for it.
        let is_real = restore.metadata.uid.is_some();
        if is_real && let Err(error) = self.groups.ensure(item_from_backup, restore).await {
            let (namespace, name) = identity(item_from_backup);
            tracing::warn!(namespace, snapshot = name, %error, "The content of the snapshot's group is not made");
        }
        let mut additional_items = Vec::new();
        match bound_content(item_from_backup) {
            Some(content) => additional_items.push(CONTENTS.identifier("", content)),
            None if is_real => self.make_content(item_from_backup, restore).await?,
            None => {}
        }
        let updated_item = Some(bound_to_new_content(item, &new_name(restore, identity(item_from_backup).1)));
        Ok(RestoreItemOutcome { updated_item, additional_items, ..RestoreItemOutcome::default() })
    }
}

/// The snapshot under a name it shares with its content. No class is needed to use it.
fn bound_to_new_content(snapshot: &Value, name: &str) -> Value {
    let mut snapshot = snapshot.clone();
    if let Some(metadata) = snapshot.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), name.into());
    }
    if let Some(spec) = snapshot.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("source".to_owned(), json!({"volumeSnapshotContentName": name}));
        spec.remove("volumeSnapshotClassName");
    }
    set_annotation(&mut snapshot, VOLUME_SNAPSHOT_CONTENT_DELETION_POLICY, "Retain");
    set_annotation(&mut snapshot, MUST_INCLUDE_ADDITIONAL_ITEMS_RESTORE, "true");
    snapshot
}

/// The content of a snapshot, from what its annotations say.
fn new_content(snapshot: &Value, (handle, driver): (&str, &str), class: Option<&str>, restore: &Restore) -> Value {
    let (namespace, old_name) = identity(snapshot);
    let name = new_name(restore, old_name);
    let marks = json!({
        labels::BACKUP_NAME: labels::valid_value(&restore.spec.backup_name),
        labels::RESTORE_NAME: labels::valid_value(metadata::name(restore)),
    });
    let mut content = json!({
        "apiVersion": CONTENTS.api_version(),
        "kind": CONTENTS.kind,
        "metadata": {"name": name, "labels": marks},
        "spec": {
            "deletionPolicy": "Retain",
            "driver": driver,
            "source": {"snapshotHandle": handle},
            "volumeSnapshotRef": {
                "apiVersion": SNAPSHOTS.api_version(), "kind": SNAPSHOTS.kind,
                "namespace": target(restore, namespace), "name": name,
            },
        },
    });
    if let (Some(class), Some(spec)) = (class, content.get_mut("spec").and_then(Value::as_object_mut)) {
        spec.insert("volumeSnapshotClassName".to_owned(), class.into());
    }
    content
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("csi-snapshots", bring_back)]
    }

    fn bring_back(bytes: &[u8]) {
        let Ok(snapshot) = serde_json::from_slice::<Value>(bytes) else { return };
        let restore = Restore::new("velero", "r", Default::default());
        let content = new_content(&snapshot, ("h", "disk"), Some("fast"), &restore);
        assert_eq!(content["spec"]["deletionPolicy"], "Retain", "a restore never takes a snapshot away");
        let _ = bound_to_new_content(&snapshot, "new");
    }

    strike_all!(parsers);

    #[test]
    fn a_snapshot_is_bound_to_the_content_of_its_new_name_without_a_class() {
        let spec = json!({"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "fast"});
        let snapshot = json!({"metadata": {"name": "old", "namespace": "shop"}, "spec": spec});
        let bound = bound_to_new_content(&snapshot, "new");
        assert_eq!(bound["metadata"]["name"], "new");
        assert_eq!(bound["spec"], json!({"source": {"volumeSnapshotContentName": "new"}}));
        assert_eq!(bound["metadata"]["annotations"][VOLUME_SNAPSHOT_CONTENT_DELETION_POLICY], "Retain");
    }

    #[test]
    fn a_content_from_annotations_points_to_the_snapshot_where_that_goes() {
        let mut restore = Restore::new("velero", "r", Default::default());
        restore.spec.namespace_mapping = [("shop".to_owned(), "shop-2".to_owned())].into();
        let snapshot = json!({"metadata": {"name": "old", "namespace": "shop"}});
        let content = new_content(&snapshot, ("h", "disk"), Some("fast"), &restore);
        assert_eq!(content["spec"]["volumeSnapshotRef"]["namespace"], "shop-2");
        assert_eq!(content["spec"]["volumeSnapshotRef"]["name"], content["metadata"]["name"]);
        assert_eq!(content["spec"]["source"], json!({"snapshotHandle": "h"}));
        assert_eq!(content["spec"]["volumeSnapshotClassName"], "fast");
        assert!(new_content(&snapshot, ("h", "disk"), None, &restore)["spec"].get("volumeSnapshotClassName").is_none());
    }
}

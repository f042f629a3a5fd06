//! Drivers that name the group of a snapshot want a content of that group to exist before they bind the snapshot.

use serde_json::{Value, json};
use tokio::sync::Mutex;
use velero_api::annotations::{CSI_DRIVER_NAME, VOLUME_GROUP_SNAPSHOT_HANDLE, VOLUME_SNAPSHOT_HANDLE};
use velero_api::labels;
use velero_api::metadata;
use velero_api::v1::Restore;
use velero_cluster::{Cluster, Discovery, ResourceType};
use velero_plugin::Result;
use velero_plugin::item::{annotation, set_annotation, text};

use super::{new_name, target};
use crate::classes::Classes;
use crate::objects::{GROUP_SNAPSHOTS, identity};

const VERSION: &str = "groupsnapshot.storage.k8s.io/v1beta2";
/// Parameters of a group class, and the annotations of a content that say the same.
const SECRETS: [(&str, &str); 2] = [
    (
        "/parameters/csi.storage.k8s.io~1group-snapshotter-secret-name",
        "groupsnapshot.storage.kubernetes.io/deletion-secret-name",
    ),
    (
        "/parameters/csi.storage.k8s.io~1group-snapshotter-secret-namespace",
        "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace",
    ),
];

/// The contents of groups that a restore has made.
pub(super) struct GroupContents {
    cluster: Cluster,
    contents: ResourceType,
    classes: Classes,
    /// Held by who adds to a content, for several snapshots of a group are restored at the same time.
    turn: Mutex<()>,
}

impl GroupContents {
    pub(super) fn new(cluster: &Cluster, discovery: &Discovery) -> Self {
        let served = |kind: &str, plural: &str| {
            let found = discovery.resolve(&format!("{plural}.{GROUP_SNAPSHOTS}")).cloned();
            found.unwrap_or_else(|| ResourceType::new(VERSION, kind, plural, false))
        };
        Self {
            cluster: cluster.clone(),
            contents: served("VolumeGroupSnapshotContent", "volumegroupsnapshotcontents"),
            classes: Classes::new(cluster, served("VolumeGroupSnapshotClass", "volumegroupsnapshotclasses")),
            turn: Mutex::default(),
        }
    }

    /// Sees to it that the content of a snapshot's group exists and names the snapshot.
    pub(super) async fn ensure(&self, snapshot: &Value, restore: &Restore) -> Result<()> {
        let noted = |key: &str| annotation(snapshot, key).filter(|value| !value.is_empty());
        let (Some(group), Some(handle), Some(driver)) =
            (noted(VOLUME_GROUP_SNAPSHOT_HANDLE), noted(VOLUME_SNAPSHOT_HANDLE), noted(CSI_DRIVER_NAME))
        else {
            return Ok(());
        };
        let _turn = self.turn.lock().await;
        let name = new_name(restore, group);
        if let Some(content) = self.cluster.get(self.contents.item(None, &name)).await? {
            return self.add_handle(&content, handle).await;
        }
        let mut content = self.new_content(snapshot, &name, (group, handle, driver), restore);
        let own = |class: &&Value| text(class, "/driver") == driver;
        if let Some(class) = self.classes.all().await?.iter().find(own) {
            for (parameter, key) in SECRETS {
                if !text(class, parameter).is_empty() {
                    set_annotation(&mut content, key, text(class, parameter));
                }
            }
        }
        let mut made = self.cluster.create(&self.contents, None, &content).await?;
        if let Some(object) = made.as_object_mut() {
            object.insert("status".to_owned(), json!({"volumeGroupSnapshotHandle": group}));
        }
        self.cluster.update_status(&self.contents, None, &made).await?;
        Ok(())
    }

    async fn add_handle(&self, content: &Value, handle: &str) -> Result<()> {
        let known = content.pointer("/spec/source/groupSnapshotHandles/volumeSnapshotHandles");
        let mut handles: Vec<Value> = known.and_then(Value::as_array).cloned().unwrap_or_default();
        if handles.iter().any(|known| known == handle) {
            return Ok(());
        }
        handles.push(handle.into());
        let patch = json!({"spec": {"source": {"groupSnapshotHandles": {"volumeSnapshotHandles": handles}}}});
        self.cluster.merge_patch(self.contents.item(None, text(content, "/metadata/name")), &patch).await?;
        Ok(())
    }

    fn new_content(
        &self,
        snapshot: &Value,
        name: &str,
        (group, handle, driver): (&str, &str, &str),
        restore: &Restore,
    ) -> Value {
        let restore_name = labels::valid_value(metadata::name(restore));
        let short = name.get(..8).unwrap_or(name);
        json!({
            "apiVersion": self.contents.api_version(),
            "kind": self.contents.kind,
            "metadata": {"name": name, "labels": {labels::RESTORE_NAME: restore_name}},
            "spec": {
                "deletionPolicy": "Retain",
                "driver": driver,
                "source": {"groupSnapshotHandles": {
                    "volumeGroupSnapshotHandle": group, "volumeSnapshotHandles": [handle],
                }},
                "volumeGroupSnapshotRef": {
                    "name": format!("stub-vgs-{short}"), "namespace": target(restore, identity(snapshot).0),
                },
            },
        })
    }
}

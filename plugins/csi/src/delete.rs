//! Lets the driver delete its snapshot when the backup that took it is deleted.
//!
//! The objects of the snapshot left the cluster when the backup was finished. A content that names the handle is made
//! for the purpose and deleted at once: the driver then deletes what it holds, and the content goes when that is done.

use std::time::Duration;

use async_trait::async_trait;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::metadata;
use velero_api::type_names::VOLUME_SNAPSHOT_CONTENTS;
use velero_api::v1::Backup;
use velero_cluster::{Cluster, Error as ClusterError};
use velero_plugin::item::{label, set_label, text};
use velero_plugin::{DeleteItemAction, ResourceSelector, Result};

use crate::objects::{CONTENTS, SNAPSHOTS, handle, is_ready};

/// Keeps a content until the driver has deleted what is behind it.
const FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// How often the status is written again that others wrote in between.
const ATTEMPTS: usize = 5;
/// How long a sidecar may take to look at a new content.
const SIDECAR: Duration = Duration::from_secs(5);

/// Deletes what the driver holds behind a content of the backup.
pub struct DeleteAction {
    cluster: Cluster,
}

impl DeleteAction {
    /// The action, in that cluster.
    pub fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone() }
    }

    /// Waits until the sidecar has said all it has to say about the content of a member of a group: should it name the
    /// group after us, it would not delete the member alone.
    async fn wait_for_sidecar(&self, content: &str) -> Result<()> {
        let said = |content: Option<&Value>| content.is_none_or(is_ready);
        match self.cluster.wait_until(CONTENTS.item(None, content), SIDECAR, said).await {
            Ok(_) | Err(ClusterError::TimedOut { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Says what is behind a content. The driver deletes nothing that the status does not name.
    async fn name_handle(&self, content: &Value, handle: &str) -> Result<()> {
        let name = text(content, "/metadata/name");
        let mut content = content.clone();
        for _ in 0..ATTEMPTS {
            if let Some(object) = content.as_object_mut() {
                object.insert("status".to_owned(), json!({"snapshotHandle": handle, "readyToUse": true}));
            }
            match self.cluster.update_status(&CONTENTS, None, &content).await {
                Err(error) if error.is_conflict() => {}
                answer => return Ok(answer.map(drop)?),
            }
            match self.cluster.get(CONTENTS.item(None, name)).await? {
                Some(found) => content = found,
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl DeleteItemAction for DeleteAction {
    fn name(&self) -> &str {
        "velero.io/csi-volumesnapshotcontent-delete"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&[VOLUME_SNAPSHOT_CONTENTS]))
    }

    fn is_needed(&self, backup: &Backup) -> bool {
        backup.status.csi_volume_snapshots_attempted > 0
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<()> {
        let name = labels::valid_value(metadata::name(backup));
        let Some(handle) = handle(item).filter(|_| label(item, labels::BACKUP_NAME) == Some(&name)) else {
            return Ok(());
        };
        let content = self.cluster.create_once(&CONTENTS, None, &for_deletion(item, handle, backup)).await?;
        if !text(item, "/status/volumeGroupSnapshotHandle").is_empty() {
            self.wait_for_sidecar(text(&content, "/metadata/name")).await?;
        }
        self.name_handle(&content, handle).await?;
        self.cluster.delete(CONTENTS.item(None, text(&content, "/metadata/name")), &DeleteParams::default()).await?;
        Ok(())
    }
}

/// A content of no snapshot, only there to be deleted with what is behind it.
fn for_deletion(content: &Value, handle: &str, backup: &Backup) -> Value {
    let id = uuid::Uuid::new_v4();
    let mut made = json!({
        "apiVersion": CONTENTS.api_version(),
        "kind": CONTENTS.kind,
        "metadata": {
            "name": format!("vsc-{id}"),
            "labels": {labels::BACKUP_NAME: label(content, labels::BACKUP_NAME)},
            "annotations": content.pointer("/metadata/annotations"),
            "finalizers": [FINALIZER],
        },
        "spec": {
            "deletionPolicy": "Delete",
            "driver": text(content, "/spec/driver"),
            "source": {"snapshotHandle": handle},
            "volumeSnapshotRef": {
                "apiVersion": SNAPSHOTS.api_version(), "kind": SNAPSHOTS.kind,
                "namespace": format!("ns-{id}"), "name": format!("name-{id}"),
            },
        },
    });
    set_label(&mut made, labels::BACKUP_UID, metadata::uid(backup));
    made
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("csi-contents", take_away)]
    }

    fn take_away(bytes: &[u8]) {
        let Ok(content) = serde_json::from_slice::<Value>(bytes) else { return };
        let made = for_deletion(&content, "h", &Backup::new("velero", "b", Default::default()));
        assert_eq!(made["spec"]["source"], json!({"snapshotHandle": "h"}));
    }

    strike_all!(parsers);

    #[test]
    fn a_content_for_deletion_names_the_handle_and_belongs_to_no_snapshot() {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.metadata.uid = Some("now".to_owned());
        let content = json!({
            "metadata": {"name": "snapcontent-1", "annotations": {"secret": "x"},
                "labels": {labels::BACKUP_NAME: "b", labels::BACKUP_UID: "then"}},
            "spec": {"driver": "disk", "deletionPolicy": "Retain", "source": {"volumeHandle": "v"}},
        });
        let made = for_deletion(&content, "h", &backup);
        assert_eq!(made["spec"]["deletionPolicy"], "Delete");
        assert_eq!(made["spec"]["source"], json!({"snapshotHandle": "h"}));
        assert_eq!(made["metadata"]["annotations"], json!({"secret": "x"}));
        assert_eq!(made["metadata"]["labels"], json!({labels::BACKUP_NAME: "b", labels::BACKUP_UID: "now"}));
        assert!(made["spec"]["volumeSnapshotRef"].get("uid").is_none());
    }
}

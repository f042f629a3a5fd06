//! The objects of the CSI snapshot API, and how they are read and marked.

use std::sync::LazyLock;

use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use velero_api::records::ResourceIdentifier;
use velero_api::v1::{Backup, Stage};
pub(crate) use velero_cluster::types::{VOLUME_SNAPSHOT_CONTENTS as CONTENTS, VOLUME_SNAPSHOTS as SNAPSHOTS};
use velero_cluster::{Cluster, Discovery, ResourceType};
use velero_plugin::item::{annotation, filled, name, namespace};
use velero_plugin::{Error, Result};

pub(crate) const GROUP: &str = "snapshot.storage.k8s.io";
pub(crate) const GROUP_SNAPSHOTS: &str = "groupsnapshot.storage.k8s.io";

const PAGE_SIZE: u32 = 500;

/// VolumeSnapshotClasses.
pub(crate) static CLASSES: LazyLock<ResourceType> = LazyLock::new(|| {
    ResourceType::new("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "volumesnapshotclasses", false)
});

/// Backups.
pub(crate) static BACKUPS: LazyLock<ResourceType> =
    LazyLock::new(|| ResourceType::new("velero.io/v1", "Backup", "backups", true));

/// The types of the snapshots of groups, and of their contents.
pub(crate) struct GroupTypes {
    pub(crate) snapshots: ResourceType,
    pub(crate) contents: ResourceType,
}

impl GroupTypes {
    /// As the cluster serves them; none where it does not.
    pub(crate) fn served(discovery: &Discovery) -> Option<Self> {
        let served = |plural: &str| discovery.resolve(&format!("{plural}.{GROUP_SNAPSHOTS}")).cloned();
        Some(Self { snapshots: served("volumegroupsnapshots")?, contents: served("volumegroupsnapshotcontents")? })
    }
}

/// Where the snapshot of a group names its content.
pub(crate) const GROUP_CONTENT: &str = "/status/boundVolumeGroupSnapshotContentName";

/// The namespace and name of an item.
pub(crate) fn identity(item: &Value) -> (&str, &str) {
    (namespace(item), name(item))
}

/// A secret that two annotations of an item name.
pub(crate) fn secret(item: &Value, name: &str, namespace: &str) -> Option<ResourceIdentifier> {
    Some(ResourceIdentifier::new("", "secrets", annotation(item, namespace)?, annotation(item, name)?))
}

/// The content a snapshot is bound to.
pub(crate) fn bound_content(snapshot: &Value) -> Option<&str> {
    filled(snapshot, "/status/boundVolumeSnapshotContentName")
}

/// The name by which the driver knows the snapshot behind a content.
pub(crate) fn handle(content: &Value) -> Option<&str> {
    filled(content, "/status/snapshotHandle")
}

/// Whether a snapshot or content can be used.
pub(crate) fn is_ready(object: &Value) -> bool {
    object.pointer("/status/readyToUse") == Some(&json!(true))
}

/// What the driver says is wrong with a snapshot or content.
pub(crate) fn failure(object: &Value) -> Option<&str> {
    filled(object, "/status/error/message")
}

/// Whether a backup only has to be finished: what its operations changed is stored again.
pub(crate) fn is_finalizing(backup: &Backup) -> bool {
    backup.status.phase().stage() == Stage::Finalizing
}

/// All objects of a type that a selector finds. A type that the cluster does not serve is an error with a remedy.
pub(crate) async fn list(
    cluster: &Cluster,
    resource_type: &ResourceType,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    let mut pages = cluster.list_pages(resource_type, namespace, selector, PAGE_SIZE).boxed();
    while let Some(page) = pages.try_next().await.map_err(|error| unserved(resource_type, error))? {
        for item in &page.items {
            found.push(item.to_value()?);
        }
    }
    Ok(found)
}

fn unserved(resource_type: &ResourceType, error: velero_cluster::Error) -> Error {
    if !error.is_not_found() {
        return error.into();
    }
    let name = resource_type.group_resource();
    Error::Item(format!("the cluster does not serve {name}; install the CSI snapshot definitions and controller"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_or_missing_is_not_there() {
        for status in [json!(null), json!({}), json!({"snapshotHandle": "", "boundVolumeSnapshotContentName": ""})] {
            let item = json!({"status": status});
            assert_eq!((handle(&item), bound_content(&item), failure(&item)), (None, None, None));
            assert!(!is_ready(&item));
        }
        let item = json!({"status": {"readyToUse": true, "error": {"message": "no"}, "snapshotHandle": "s"}});
        assert!(is_ready(&item) && failure(&item) == Some("no") && handle(&item) == Some("s"));
    }
}

//! The objects of the CSI snapshot API, and how they are read and marked.

use std::sync::LazyLock;

use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use velero_api::records::ResourceIdentifier;
use velero_api::v1::{Backup, Stage};
use velero_cluster::{Cluster, ResourceType};
use velero_plugin::{Error, Result};

pub(crate) const GROUP: &str = "snapshot.storage.k8s.io";
pub(crate) const GROUP_SNAPSHOTS: &str = "groupsnapshot.storage.k8s.io";

const VERSION: &str = "snapshot.storage.k8s.io/v1";
const PAGE_SIZE: u32 = 500;

/// VolumeSnapshots.
pub(crate) static SNAPSHOTS: LazyLock<ResourceType> =
    LazyLock::new(|| ResourceType::new(VERSION, "VolumeSnapshot", "volumesnapshots", true));
/// VolumeSnapshotContents.
pub(crate) static CONTENTS: LazyLock<ResourceType> =
    LazyLock::new(|| ResourceType::new(VERSION, "VolumeSnapshotContent", "volumesnapshotcontents", false));
/// VolumeSnapshotClasses.
pub(crate) static CLASSES: LazyLock<ResourceType> =
    LazyLock::new(|| ResourceType::new(VERSION, "VolumeSnapshotClass", "volumesnapshotclasses", false));
/// PersistentVolumeClaims.
pub(crate) static CLAIMS: LazyLock<ResourceType> =
    LazyLock::new(|| ResourceType::new("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true));
/// PersistentVolumes.
pub(crate) static VOLUMES: LazyLock<ResourceType> =
    LazyLock::new(|| ResourceType::new("v1", "PersistentVolume", "persistentvolumes", false));

/// A text inside an item; empty when it is missing or no text.
pub(crate) fn text<'a>(item: &'a Value, pointer: &str) -> &'a str {
    item.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The namespace and name of an item.
pub(crate) fn identity(item: &Value) -> (&str, &str) {
    (text(item, "/metadata/namespace"), text(item, "/metadata/name"))
}

/// A label of an item.
pub(crate) fn label<'a>(item: &'a Value, key: &str) -> Option<&'a str> {
    item.pointer("/metadata/labels")?.get(key)?.as_str()
}

/// An annotation of an item.
pub(crate) fn annotation<'a>(item: &'a Value, key: &str) -> Option<&'a str> {
    item.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// Sets a label or an annotation.
pub(crate) fn mark(item: &mut Value, map: &str, key: &str, value: &str) {
    let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let entries = metadata.entry(map).or_insert_with(|| json!({}));
    if entries.is_null() {
        *entries = json!({});
    }
    if let Some(entries) = entries.as_object_mut() {
        entries.insert(key.to_owned(), value.into());
    }
}

/// An item as others refer to it.
pub(crate) fn identifier(resource_type: &ResourceType, namespace: &str, name: &str) -> ResourceIdentifier {
    ResourceIdentifier {
        group: resource_type.group.clone(),
        resource: resource_type.plural.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// A secret that two annotations of an item name.
pub(crate) fn secret(item: &Value, name: &str, namespace: &str) -> Option<ResourceIdentifier> {
    Some(ResourceIdentifier {
        group: String::new(),
        resource: "secrets".to_owned(),
        namespace: annotation(item, namespace)?.to_owned(),
        name: annotation(item, name)?.to_owned(),
    })
}

/// The content a snapshot is bound to.
pub(crate) fn bound_content(snapshot: &Value) -> Option<&str> {
    Some(text(snapshot, "/status/boundVolumeSnapshotContentName")).filter(|name| !name.is_empty())
}

/// The name by which the driver knows the snapshot behind a content.
pub(crate) fn handle(content: &Value) -> Option<&str> {
    Some(text(content, "/status/snapshotHandle")).filter(|handle| !handle.is_empty())
}

/// Whether a snapshot or content can be used.
pub(crate) fn is_ready(object: &Value) -> bool {
    object.pointer("/status/readyToUse") == Some(&json!(true))
}

/// What the driver says is wrong with a snapshot or content.
pub(crate) fn failure(object: &Value) -> Option<&str> {
    Some(text(object, "/status/error/message")).filter(|message| !message.is_empty())
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
    fn a_mark_is_set_whether_the_map_is_there_missing_or_null() {
        for metadata in [json!({"labels": {"a": "b"}}), json!({}), json!({"labels": null})] {
            let mut item = json!({"metadata": metadata});
            mark(&mut item, "labels", "c", "d");
            assert_eq!(label(&item, "c"), Some("d"), "{item}");
        }
    }

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

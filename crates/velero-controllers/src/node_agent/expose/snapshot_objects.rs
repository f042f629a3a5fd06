//! Handing a CSI snapshot over: from the VolumeSnapshot beside its claim to one in Velero's namespace, without a moment in
//! which nobody keeps the snapshot itself.

use serde_json::{Value, json};
use velero_api::{annotations, labels};
use velero_cluster::types::{VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS};

use crate::node_agent::agent::Agent;
use crate::node_agent::resources;
use crate::node_agent::transfer::Owner;
use crate::runtime::error::{Error, Result};

const VERSION: &str = "snapshot.storage.k8s.io/v1";

/// On what is made here: the UID of the DataUpload it is for.
const OWNER_LABEL: &str = "velero.io/data-upload-uid";
/// On the new content: the one before it.
const SOURCE_CONTENT: &str = "velero.io/source-volumesnapshotcontent";
/// On a content where snapshots are managed by the node that has them.
const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";
/// On a content that somebody is working on. A sidecar never deletes one that is said to be created still.
const UNDER_WAY: [&str; 2] = [
    "snapshot.storage.kubernetes.io/volumesnapshot-being-created",
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
];

/// The snapshot of a claim.
pub(super) struct Source<'a> {
    pub(super) namespace: &'a str,
    pub(super) snapshot: &'a str,
}

/// Hands the snapshot over as far as that goes now. Gives the size of a volume made from it once it can be used, empty
/// where the driver does not say.
pub(super) async fn hand_over(agent: &Agent, owner: &Owner, source: &Source<'_>) -> Result<Option<String>> {
    let cluster = agent.objects.cluster();
    let found = cluster.get(VOLUME_SNAPSHOTS.item(Some(source.namespace), source.snapshot)).await?;
    let content = cluster.get(VOLUME_SNAPSHOT_CONTENTS.item(None, &owner.name)).await?;
    let content = match (found, content) {
        (None, None) => {
            let problem = "it is gone before its data was moved";
            return Err(Error::unmet("VolumeSnapshot", &format!("{}/{}", source.namespace, source.snapshot), problem));
        }
        (Some(found), None) if found["status"]["readyToUse"] != true => return Ok(None),
        (Some(found), content) => {
            let content = match content {
                Some(content) => content,
                None => create_content(agent, owner, source, &found).await?,
            };
            check_owner(&content, owner)?;
            create_snapshot(agent, owner, &found).await?;
            release_source(agent, source, &content).await?;
            content
        }
        (None, Some(content)) => {
            check_owner(&content, owner)?;
            release_source(agent, source, &content).await?;
            content
        }
    };
    let own = cluster.get(VOLUME_SNAPSHOTS.item(Some(&owner.namespace), &owner.name)).await?;
    let is_ready = own.is_some_and(|own| own["status"]["readyToUse"] == true);
    let size = &content["metadata"]["annotations"][annotations::VOLUME_SNAPSHOT_RESTORE_SIZE];
    Ok(is_ready.then(|| size.as_str().unwrap_or_default().to_owned()))
}

/// The snapshot that is waited for, in words; nothing where it can be used, or where nobody can tell.
pub(super) async fn unready(agent: &Agent, owner: &Owner, source: &Source<'_>) -> Option<String> {
    let handed_over = VOLUME_SNAPSHOTS.item(Some(&owner.namespace), &owner.name);
    for item in [handed_over, VOLUME_SNAPSHOTS.item(Some(source.namespace), source.snapshot)] {
        if let Some(snapshot) = agent.objects.cluster().get(item).await.ok()? {
            return told_unready(&item.key(), &snapshot);
        }
    }
    None
}

fn told_unready(place: &str, snapshot: &Value) -> Option<String> {
    if snapshot["status"]["readyToUse"] == true {
        return None;
    }
    let said = snapshot["status"]["error"]["message"].as_str().map(|said| format!(": {said}")).unwrap_or_default();
    Some(format!("VolumeSnapshot {place} is not ready to use{said}"))
}

async fn create_content(agent: &Agent, owner: &Owner, source: &Source<'_>, snapshot: &Value) -> Result<Value> {
    let cluster = agent.objects.cluster();
    let bound = snapshot["status"]["boundVolumeSnapshotContentName"].as_str().unwrap_or_default();
    let before = cluster.get(VOLUME_SNAPSHOT_CONTENTS.item(None, bound)).await?;
    let before = before.filter(|before| before["status"]["snapshotHandle"].is_string());
    let before = before.ok_or_else(|| {
        let title = format!("{}/{}", source.namespace, source.snapshot);
        Error::unmet("VolumeSnapshot", &title, format!("its content {bound:?} is gone or has no handle"))
    })?;
    let size = snapshot["status"]["restoreSize"].as_str().filter(|size| *size != "0");
    resources::create(
        cluster,
        VOLUME_SNAPSHOT_CONTENTS.item(None, &owner.name),
        &handed_over_content(owner, (bound, &before), size),
    )
    .await
}

/// The content of the VolumeSnapshot in Velero's namespace. It has what its driver needs to delete the snapshot, and nothing
/// of what others note while they work on the content before it.
fn handed_over_content(owner: &Owner, (bound, before): (&str, &Value), size: Option<&str>) -> Value {
    let mut annotations = before["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.retain(|key, _| !UNDER_WAY.contains(&key.as_str()));
    annotations.insert(SOURCE_CONTENT.to_owned(), json!(bound));
    if let Some(size) = size {
        annotations.insert(annotations::VOLUME_SNAPSHOT_RESTORE_SIZE.to_owned(), json!(size));
    }
    let mut labels = own_labels(owner);
    if let Some(manager) = before["metadata"]["labels"].get(MANAGED_BY) {
        labels[MANAGED_BY] = manager.clone();
    }
    let mut spec = json!({
        "volumeSnapshotRef": { "namespace": owner.namespace, "name": owner.name },
        "source": { "snapshotHandle": before["status"]["snapshotHandle"] },
        "deletionPolicy": "Delete",
        "driver": before["spec"]["driver"],
    });
    copy_field(&mut spec, &before["spec"], "volumeSnapshotClassName");
    copy_field(&mut spec, &before["spec"], "sourceVolumeMode");
    json!({
        "apiVersion": VERSION, "kind": "VolumeSnapshotContent",
        "metadata": { "name": owner.name, "labels": labels, "annotations": annotations }, "spec": spec,
    })
}

async fn create_snapshot(agent: &Agent, owner: &Owner, source: &Value) -> Result<()> {
    let item = VOLUME_SNAPSHOTS.item(Some(&owner.namespace), &owner.name);
    check_owner(&resources::create(agent.objects.cluster(), item, &handed_over(owner, source)).await?, owner)
}

/// The VolumeSnapshot in Velero's namespace. It belongs to the DataUpload, and its content goes with it: should no agent be
/// left to clean up, Kubernetes does. A driver that keeps a snapshot while there is a volume made from it is asked again.
fn handed_over(owner: &Owner, source: &Value) -> Value {
    let mut spec = json!({ "source": { "volumeSnapshotContentName": owner.name } });
    copy_field(&mut spec, &source["spec"], "volumeSnapshotClassName");
    json!({
        "apiVersion": VERSION, "kind": "VolumeSnapshot",
        "metadata": {
            "name": owner.name, "namespace": owner.namespace, "labels": own_labels(owner),
            "annotations": source["metadata"]["annotations"], "ownerReferences": [owner.reference()],
        },
        "spec": spec,
    })
}

/// The labels of what is made here: whose it is, and that no backup takes it.
fn own_labels(owner: &Owner) -> Value {
    json!({ OWNER_LABEL: owner.uid, labels::EXCLUDE_FROM_BACKUP: "true" })
}

/// Lets go of the objects the snapshot had before. Its content is told to keep it first.
async fn release_source(agent: &Agent, source: &Source<'_>, content: &Value) -> Result<()> {
    let cluster = agent.objects.cluster();
    let before = content["metadata"]["annotations"][SOURCE_CONTENT].as_str().unwrap_or_default();
    let item = VOLUME_SNAPSHOT_CONTENTS.item(None, before);
    let before = if before.is_empty() { None } else { cluster.get(item).await? };
    // A content of that name with another snapshot is not the one.
    let before =
        before.filter(|before| before["status"]["snapshotHandle"] == content["spec"]["source"]["snapshotHandle"]);
    if let Some(before) = &before
        && before["spec"]["deletionPolicy"] != "Retain"
    {
        let patch = json!({ "metadata": { "uid": before["metadata"]["uid"] }, "spec": { "deletionPolicy": "Retain" } });
        cluster.merge_patch(item, &patch).await?;
    }
    let snapshot_item = VOLUME_SNAPSHOTS.item(Some(source.namespace), source.snapshot);
    if let Some(snapshot) = cluster.get(snapshot_item).await? {
        resources::delete(cluster, snapshot_item, &snapshot).await?;
    }
    if let Some(before) = before {
        resources::delete(cluster, item, &before).await?;
    }
    Ok(())
}

/// Removes the snapshot with all objects it has; whether all are gone.
pub(super) async fn remove(agent: &Agent, owner: &Owner, source: &Source<'_>) -> Result<bool> {
    let cluster = agent.objects.cluster();
    let content_item = VOLUME_SNAPSHOT_CONTENTS.item(None, &owner.name);
    let content = cluster.get(content_item).await?.filter(|content| is_own(content, owner));
    match &content {
        Some(content) => release_source(agent, source, content).await?,
        None => discard_source(agent, source).await?,
    }
    let item = VOLUME_SNAPSHOTS.item(Some(&owner.namespace), &owner.name);
    if let Some(snapshot) = cluster.get(item).await?.filter(|snapshot| is_own(snapshot, owner)) {
        resources::delete(cluster, item, &snapshot).await?;
        return Ok(false);
    }
    match content {
        // The content goes with its snapshot; one that never had any is removed here.
        Some(content) => Ok(resources::delete(cluster, content_item, &content).await?),
        None => Ok(true),
    }
}

/// Removes a snapshot that was never handed over, also at its driver: a class that keeps snapshots would leave its
/// content.
async fn discard_source(agent: &Agent, source: &Source<'_>) -> Result<()> {
    let cluster = agent.objects.cluster();
    let item = VOLUME_SNAPSHOTS.item(Some(source.namespace), source.snapshot);
    let Some(snapshot) = cluster.get(item).await? else { return Ok(()) };
    let content_name = content_of(&snapshot);
    let content_item = VOLUME_SNAPSHOT_CONTENTS.item(None, &content_name);
    if let Some(content) = cluster.get(content_item).await?.filter(|content| is_kept(content, &snapshot)) {
        let uid = &content["metadata"]["uid"];
        let patch = json!({ "metadata": { "uid": uid }, "spec": { "deletionPolicy": "Delete" } });
        cluster.merge_patch(content_item, &patch).await?;
    }
    resources::delete(cluster, item, &snapshot).await?;
    Ok(())
}

/// The content of a snapshot. Until it is bound, it is known by the name that the snapshot controller gives it.
fn content_of(snapshot: &Value) -> String {
    match snapshot["status"]["boundVolumeSnapshotContentName"].as_str().filter(|name| !name.is_empty()) {
        Some(bound) => bound.to_owned(),
        None => format!("snapcontent-{}", snapshot["metadata"]["uid"].as_str().unwrap_or_default()),
    }
}

/// Whether a content is that of the snapshot, and would stay without it.
fn is_kept(content: &Value, snapshot: &Value) -> bool {
    content["spec"]["volumeSnapshotRef"]["uid"] == snapshot["metadata"]["uid"]
        && content["spec"]["deletionPolicy"] != "Delete"
}

fn is_own(object: &Value, owner: &Owner) -> bool {
    object["metadata"]["labels"][OWNER_LABEL] == owner.uid.as_str()
}

fn check_owner(object: &Value, owner: &Owner) -> Result<()> {
    match is_own(object, owner) {
        true => Ok(()),
        false => {
            let kind = object["kind"].as_str().unwrap_or("VolumeSnapshot");
            let problem = "one of this name is there and belongs to something else; remove it and try again";
            Err(Error::unmet(kind, &owner.name, problem))
        }
    }
}

fn copy_field(to: &mut Value, from: &Value, field: &str) {
    if let Some(value) = from.get(field).filter(|value| !value.is_null()) {
        to[field] = value.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_is_waited_for_says_what_its_driver_says() {
        for (status, expected) in [
            (json!({ "readyToUse": true }), None),
            (json!({}), Some("VolumeSnapshot shop/s is not ready to use")),
            (
                json!({ "readyToUse": false, "error": { "message": "the array is full" } }),
                Some("VolumeSnapshot shop/s is not ready to use: the array is full"),
            ),
        ] {
            assert_eq!(told_unready("shop/s", &json!({ "status": status })).as_deref(), expected, "{status}");
        }
    }

    fn owner() -> Owner {
        Owner {
            api_version: "velero.io/v2alpha1".to_owned(),
            kind: "DataUpload",
            namespace: "velero".to_owned(),
            name: "du-1".to_owned(),
            uid: "u1".to_owned(),
        }
    }

    #[test]
    fn a_content_that_is_handed_over_has_what_its_driver_needs_and_not_what_others_are_about() {
        let secret = "snapshot.storage.kubernetes.io/deletion-secret-name";
        let before = json!({
            "metadata": { "annotations": { secret: "s", UNDER_WAY[0]: "yes", UNDER_WAY[1]: "yes" } },
            "spec": { "driver": "disk", "volumeSnapshotClassName": "fast", "deletionPolicy": "Retain" },
            "status": { "snapshotHandle": "h" },
        });
        let content = handed_over_content(&owner(), ("snapcontent-1", &before), Some("1Gi"));
        let noted = json!({ secret: "s", SOURCE_CONTENT: "snapcontent-1",
            annotations::VOLUME_SNAPSHOT_RESTORE_SIZE: "1Gi" });
        assert_eq!(content["metadata"]["annotations"], noted);
        assert_eq!(
            (&content["spec"]["driver"], &content["spec"]["deletionPolicy"]),
            (&json!("disk"), &json!("Delete"))
        );
        assert_eq!(content["spec"]["source"], json!({ "snapshotHandle": "h" }));
        assert!(is_own(&content, &owner()));
    }

    #[test]
    fn a_snapshot_that_is_handed_over_goes_with_its_upload_and_into_no_backup() {
        let owner = owner();
        let source = json!({ "spec": { "volumeSnapshotClassName": "kept" } });
        let snapshot = handed_over(&owner, &source);
        assert!(is_own(&snapshot, &owner) && resources::belongs_to(&snapshot, "u1"), "{snapshot}");
        assert_eq!(snapshot["metadata"]["namespace"], "velero", "an owner is in the namespace of what it owns");
        assert_eq!(snapshot["metadata"]["labels"]["velero.io/exclude-from-backup"], "true");
        let expected = json!({ "source": { "volumeSnapshotContentName": "du-1" }, "volumeSnapshotClassName": "kept" });
        assert_eq!(snapshot["spec"], expected);
    }

    #[test]
    fn only_the_content_of_the_snapshot_itself_is_told_to_go_with_it() {
        let snapshot = json!({ "metadata": { "uid": "u1" }, "status": { "boundVolumeSnapshotContentName": "c" } });
        let content = |uid: &str, policy: &str| json!({ "spec": { "volumeSnapshotRef": { "uid": uid }, "deletionPolicy": policy } });
        assert_eq!(content_of(&snapshot), "c");
        for unbound in [json!({ "metadata": { "uid": "u1" } }), json!({ "metadata": { "uid": "u1" }, "status": {} })] {
            assert_eq!(content_of(&unbound), "snapcontent-u1");
        }
        assert!(is_kept(&content("u1", "Retain"), &snapshot));
        assert!(!is_kept(&content("u1", "Delete"), &snapshot), "it goes anyway");
        assert!(!is_kept(&content("u2", "Retain"), &snapshot), "that of another one");
    }
}

//! Removes snapshots that nobody can use: their objects and what the driver holds.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use velero_api::labels;
use velero_api::metadata;
use velero_api::records::BackupVolumeInfo;
use velero_api::v1::Backup;
use velero_cluster::{Cluster, Error as ClusterError, ResourceType};
use velero_plugin::Result;
use velero_plugin::item::{annotation, filled, label, text};

use crate::movement::{Held, moves_data};
use crate::objects::{CONTENTS, GROUP_CONTENT, GroupTypes, SNAPSHOTS, bound_content, identity, is_ready, list};

/// How many snapshots are removed at the same time.
const AT_ONCE: usize = 64;
/// How long a driver is waited for that takes the snapshot to be removed.
const REMINDER: Duration = Duration::from_secs(8);
/// What the sidecar notes on a content whose snapshot the driver takes.
const BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
/// What allows the sidecar to let a content go.
const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";

/// Removes a snapshot with its content and what the driver holds. One that is gone is no error.
pub(crate) async fn discard(cluster: &Cluster, namespace: &str, name: &str) -> Result<()> {
    let Some(snapshot) = cluster.get(SNAPSHOTS.item(Some(namespace), name)).await? else {
        return Ok(());
    };
    // Until it is bound, its content is known by the name that the snapshot controller gives it.
    let unbound = format!("snapcontent-{}", text(&snapshot, "/metadata/uid"));
    let content = bound_content(&snapshot).unwrap_or(&unbound);
    set_policy(cluster, content, "Delete").await?;
    cluster.delete(SNAPSHOTS.item(Some(namespace), name), &DeleteParams::default()).await?;
    cluster.delete(CONTENTS.item(None, content), &DeleteParams::default()).await?;
    remind(cluster, content).await
}

/// Removes the snapshot of a group that cannot be used, with all it has made, also at the driver. May be called again.
pub(crate) async fn discard_group(cluster: &Cluster, types: &GroupTypes, group: &Value, backup: &Backup) -> Result<()> {
    let (namespace, name) = identity(group);
    // What was freed from it carries the labels of the backup; the rest goes with the group, which still owns it.
    for snapshot in of_backup(cluster, &SNAPSHOTS, backup).await? {
        if is_of_group(&snapshot, group) {
            discard(cluster, namespace, identity(&snapshot).1).await?;
        }
    }
    let item = types.snapshots.item(Some(namespace), name);
    let found = cluster.get(item).await?;
    if let Some(content) = found.as_ref().and_then(|group| filled(group, GROUP_CONTENT)) {
        let lose = json!({"spec": {"deletionPolicy": "Delete"}});
        match cluster.merge_patch(types.contents.item(None, content), &lose).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    cluster.delete(item, &DeleteParams::default()).await?;
    Ok(())
}

/// Whether a snapshot was made by that of a group.
fn is_of_group(snapshot: &Value, group: &Value) -> bool {
    let (namespace, name) = identity(group);
    identity(snapshot).0 == namespace && text(snapshot, "/status/volumeGroupSnapshotName") == name
}

/// Removes what is left of groups of a backup that was broken off while they were taken. One that is being deleted has given
/// away what is wanted of it.
async fn discard_left_groups(cluster: &Cluster, groups: Option<&GroupTypes>, backup: &Backup) -> Result<()> {
    let Some(types) = groups else { return Ok(()) };
    let left = match of_backup(cluster, &types.snapshots, backup).await {
        // Who may not look at any has taken none.
        Err(velero_plugin::Error::Cluster(ClusterError::Forbidden(_))) => return Ok(()),
        left => left?,
    };
    for group in left {
        if text(&group, "/metadata/deletionTimestamp").is_empty() {
            discard_group(cluster, types, &group, backup).await?;
        }
    }
    Ok(())
}

/// The sidecar of a driver may overlook a deletion that comes while the driver takes the snapshot. A change of the
/// content after that makes it look again.
async fn remind(cluster: &Cluster, content: &str) -> Result<()> {
    let is_idle = |content: Option<&Value>| content.is_none_or(|content| annotation(content, BEING_CREATED).is_none());
    match cluster.wait_until(CONTENTS.item(None, content), REMINDER, is_idle).await {
        Ok(None) | Err(ClusterError::TimedOut { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(Some(_)) => ask_again(cluster, content).await,
    }
}

/// Changes a content that is being deleted, so that the sidecar of its driver looks at it.
async fn ask_again(cluster: &Cluster, content: &str) -> Result<()> {
    let now = Timestamp::now().to_string();
    let patch = json!({"metadata": {"annotations": {"velero.io/deletion-asked-for": now}}});
    match cluster.merge_patch(CONTENTS.item(None, content), &patch).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Removes the objects of the snapshots of a backup that is stored. What the driver holds stays where it can be used;
/// a snapshot that never became usable is removed for good, and so is one whose data was moved or should have been. Those
/// that a data mover still has are its own to remove. One that the files do not tell of is removed for good too: the claim that it
/// was taken of has failed.
pub(crate) async fn release_of_backup(
    cluster: &Cluster,
    groups: Option<&GroupTypes>,
    backup: &Backup,
    volumes: &[BackupVolumeInfo],
) -> Result<()> {
    discard_left_groups(cluster, groups, backup).await?;
    let mut snapshots = of_backup(cluster, &SNAPSHOTS, backup).await?;
    if !moves_data(backup) {
        finish_releases(cluster, &snapshots, backup).await?;
    } else if !snapshots.is_empty() {
        let held = Held::of_backup(cluster, backup).await?;
        snapshots.retain(|snapshot| !held.has(snapshot));
    }
    let mut removals: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(snapshots.len());
    for snapshot in &snapshots {
        let (namespace, name) = identity(snapshot);
        removals.push(match is_ready(snapshot) && !moves_data(backup) && is_told(snapshot, volumes) {
            true => release(cluster, snapshot).boxed(),
            false => discard(cluster, namespace, name).boxed(),
        });
    }
    stream::iter(removals).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// Whether what files say of volumes tells of a snapshot: by its content, for the operation they name may be that of any action on
/// snapshots. Files that tell of none at all are of no use here.
fn is_told(snapshot: &Value, volumes: &[BackupVolumeInfo]) -> bool {
    let mut infos = volumes.iter().filter_map(|volume| volume.csi_snapshot_info.as_ref()).peekable();
    infos.peek().is_none() || infos.any(|info| Some(info.vsc_name.as_str()) == bound_content(snapshot))
}

/// Removes the contents that a release which was broken off has left behind: their snapshots are gone already. What the
/// driver holds stays.
async fn finish_releases(cluster: &Cluster, snapshots: &[Value], backup: &Backup) -> Result<()> {
    let contents = of_backup(cluster, &CONTENTS, backup).await?;
    for content in contents.iter().filter(|content| is_left_of_release(content, snapshots)) {
        cluster.delete(CONTENTS.item(None, identity(content).1), &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Whether a content was about to go with a snapshot that is gone, and what the driver holds is to stay.
fn is_left_of_release(content: &Value, snapshots: &[Value]) -> bool {
    let snapshot = |field: &str| text(content, &format!("/spec/volumeSnapshotRef/{field}")).to_owned();
    let (namespace, name) = (snapshot("namespace"), snapshot("name"));
    annotation(content, BEING_DELETED).is_some()
        && text(content, "/spec/deletionPolicy") == "Retain"
        && !snapshots.iter().any(|snapshot| identity(snapshot) == (namespace.as_str(), name.as_str()))
}

/// Removes the objects of a snapshot; what the driver holds stays.
async fn release(cluster: &Cluster, snapshot: &Value) -> Result<()> {
    let (namespace, name) = identity(snapshot);
    let content = bound_content(snapshot);
    if let Some(content) = content {
        set_policy(cluster, content, "Retain").await?;
    }
    // The content goes last: for a snapshot without one the snapshot controller would make another, with the policy of
    // the class, which may delete what the driver holds.
    cluster.delete(SNAPSHOTS.item(Some(namespace), name), &DeleteParams::default()).await?;
    if let Some(content) = content {
        cluster.delete(CONTENTS.item(None, content), &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Says what becomes of what the driver holds when a content is deleted, and that its snapshot goes: the snapshot
/// controller says so only of snapshots that it protects, which those of groups are not. A content that is gone is no
/// error.
async fn set_policy(cluster: &Cluster, content: &str, policy: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {BEING_DELETED: "yes"}}, "spec": {"deletionPolicy": policy}});
    match cluster.merge_patch(CONTENTS.item(None, content), &patch).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Removes the snapshots that a backup has taken and that are objects of the cluster still.
pub(crate) async fn discard_of_backup(cluster: &Cluster, groups: Option<&GroupTypes>, backup: &Backup) -> Result<()> {
    discard_left_groups(cluster, groups, backup).await?;
    let snapshots = of_backup(cluster, &SNAPSHOTS, backup).await?;
    let mut removals: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(snapshots.len());
    for snapshot in &snapshots {
        let (namespace, name) = identity(snapshot);
        tracing::info!(namespace, snapshot = name, "Removing a CSI snapshot of a backup");
        removals.push(discard(cluster, namespace, name).boxed());
    }
    stream::iter(removals).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    // A content whose snapshot is gone already would be left behind.
    for content in of_backup(cluster, &CONTENTS, backup).await? {
        let name = text(&content, "/metadata/name");
        set_policy(cluster, name, "Delete").await?;
        cluster.delete(CONTENTS.item(None, name), &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Removes the objects by which restores of a backup referred to snapshots of it that are about to go.
pub(crate) async fn forget_restored(cluster: &Cluster, backup: &Backup, handles: &BTreeSet<String>) -> Result<()> {
    let restored = with_label(cluster, &CONTENTS, backup).await?;
    let is_of = |content: &&Value| {
        label(content, labels::RESTORE_NAME).is_some() && handles.contains(text(content, "/spec/source/snapshotHandle"))
    };
    for content in restored.iter().filter(is_of) {
        let (namespace, name) =
            (text(content, "/spec/volumeSnapshotRef/namespace"), text(content, "/spec/volumeSnapshotRef/name"));
        cluster.delete(SNAPSHOTS.item(Some(namespace), name), &DeleteParams::default()).await?;
        cluster.delete(CONTENTS.item(None, text(content, "/metadata/name")), &DeleteParams::default()).await?;
    }
    Ok(())
}

/// The snapshots and contents of a backup that are still there, in words. Their drivers are reminded of those that are
/// being deleted.
pub(crate) async fn left_of_backup(cluster: &Cluster, backup: &Backup) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for resource_type in [&*SNAPSHOTS, &*CONTENTS] {
        for object in of_backup(cluster, resource_type, backup).await? {
            let (namespace, name) = identity(&object);
            if namespace.is_empty() && !text(&object, "/metadata/deletionTimestamp").is_empty() {
                ask_again(cluster, name).await?;
            }
            let problem = match crate::objects::failure(&object) {
                Some(message) => format!(": {message}"),
                None => String::new(),
            };
            left.push(format!("{} is still there{problem}", resource_type.item(Some(namespace), name)));
        }
    }
    Ok(left)
}

/// The objects of a type that a backup has made; those that were restored from it are not among them.
async fn of_backup(cluster: &Cluster, resource_type: &ResourceType, backup: &Backup) -> Result<Vec<Value>> {
    let mut found = with_label(cluster, resource_type, backup).await?;
    found.retain(|object| is_of(object, backup));
    Ok(found)
}

fn is_of(object: &Value, backup: &Backup) -> bool {
    let uid = backup.metadata.uid.as_deref();
    label(object, labels::RESTORE_NAME).is_none()
        && label(object, labels::BACKUP_UID).is_none_or(|found| Some(found) == uid)
}

async fn with_label(cluster: &Cluster, resource_type: &ResourceType, backup: &Backup) -> Result<Vec<Value>> {
    let name = metadata::name(backup);
    let selector = format!("{}={}", labels::BACKUP_NAME, labels::valid_value(name));
    match list(cluster, resource_type, None, Some(&selector)).await {
        // Without the definitions there are no snapshots either.
        Err(velero_plugin::Error::Item(_)) => Ok(Vec::new()),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use velero_api::records::CsiSnapshotInfo;

    use super::*;

    #[test]
    fn a_snapshot_names_the_group_that_has_made_it() {
        let group = json!({"metadata": {"namespace": "shop", "name": "g"}});
        for (namespace, named, expected) in
            [("shop", "g", true), ("shop", "other", false), ("other", "g", false), ("shop", "", false)]
        {
            let metadata = json!({"namespace": namespace, "name": "s"});
            let snapshot = json!({"metadata": metadata, "status": {"volumeGroupSnapshotName": named}});
            assert_eq!(is_of_group(&snapshot, &group), expected, "{namespace} {named}");
        }
    }

    #[test]
    fn only_a_snapshot_that_the_files_tell_of_is_kept() {
        let volume = |content: &str, operation: &str| BackupVolumeInfo {
            csi_snapshot_info: Some(CsiSnapshotInfo {
                vsc_name: content.to_owned(),
                operation_id: operation.to_owned(),
                ..CsiSnapshotInfo::default()
            }),
            ..BackupVolumeInfo::default()
        };
        let snapshot = json!({"metadata": {"namespace": "shop", "name": "velero-data-x"},
            "status": {"boundVolumeSnapshotContentName": "snapcontent-x"}});
        let (own, failed) = (volume("snapcontent-x", "shop/velero-data-x/2026-01-02T03:04:05Z"), volume("", ""));
        for (volumes, expected) in [
            (vec![failed.clone(), own], true),
            // Another action works on snapshots too, and its operation was begun last.
            (vec![volume("snapcontent-x", "replica-7")], true),
            (vec![volume("snapcontent-y", "shop/velero-data-y/2026-01-02T03:04:05Z")], false),
            (vec![failed], false),
            // Files without any snapshot are those of another time.
            (vec![BackupVolumeInfo::default()], true),
            (Vec::new(), true),
        ] {
            assert_eq!(is_told(&snapshot, &volumes), expected, "{volumes:?}");
        }
    }

    #[test]
    fn a_content_is_left_of_a_release_once_its_snapshot_is_gone() {
        let there = [json!({"metadata": {"namespace": "shop", "name": "there"}})];
        for (snapshot, policy, annotations, expected) in [
            ("gone", "Retain", json!({BEING_DELETED: "yes"}), true),
            ("there", "Retain", json!({BEING_DELETED: "yes"}), false),
            // Its removal takes along what the driver holds, and is somebody else's.
            ("gone", "Delete", json!({BEING_DELETED: "yes"}), false),
            ("gone", "Retain", json!({}), false),
        ] {
            let content = json!({"metadata": {"name": "c", "annotations": annotations},
                "spec": {"deletionPolicy": policy, "volumeSnapshotRef": {"namespace": "shop", "name": snapshot}}});
            assert_eq!(is_left_of_release(&content, &there), expected, "{content}");
        }
    }

    #[test]
    fn only_what_this_backup_made_is_its_own() {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.metadata.uid = Some("1".to_owned());
        for (labels, expected) in [
            (json!({labels::BACKUP_NAME: "b"}), true),
            (json!({labels::BACKUP_NAME: "b", labels::BACKUP_UID: "1"}), true),
            (json!({labels::BACKUP_NAME: "b", labels::BACKUP_UID: "2"}), false),
            (json!({labels::BACKUP_NAME: "b", labels::BACKUP_UID: "1", labels::RESTORE_NAME: "r"}), false),
        ] {
            assert_eq!(is_of(&json!({"metadata": {"labels": labels}}), &backup), expected, "{labels}");
        }
    }
}

//! Snapshots of several volumes at one moment: claims whose group label has the same value.
//!
//! The first claim of a group takes the group snapshot; the others find the snapshot that it made of their volume. The
//! objects of the group are of no use after that: each volume is restored from a snapshot of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use velero_api::v1::Backup;
use velero_cluster::{Cluster, Discovery, ResourceType, types};
use velero_plugin::item::{elements, label, text};
use velero_plugin::{Error, Result};

use super::claim::backup_labels;
use crate::classes::Classes;
use crate::objects::{GROUP_CONTENT, GROUP_SNAPSHOTS, GroupTypes, SNAPSHOTS, identity, is_ready, list};
use crate::removal::discard_group;

const VERSION: &str = "groupsnapshot.storage.k8s.io/v1beta2";
const POLL: Duration = Duration::from_millis(500);
/// Finalizers by which the snapshot controller ties a snapshot to its group.
const FINALIZERS: [&str; 2] = [
    "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection",
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection",
];

/// How long to wait until the removal of one that cannot be used is tried again.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];

/// The snapshots of a group, by the claim.
type Members = BTreeMap<String, String>;
/// What came of a group, or why nothing did; `None` until it was tried.
type Taken = Mutex<Option<Result<Members, String>>>;

/// The volume groups of a backup.
pub(super) struct Groups {
    cluster: Cluster,
    types: GroupTypes,
    classes: Classes,
    /// By namespace and value of the label.
    taken: Mutex<HashMap<(String, String), Arc<Taken>>>,
}

/// The label of the group that a claim belongs to: key and value.
fn group_of<'a>(claim: &'a Value, backup: &'a Backup) -> Option<(&'a str, &'a str)> {
    let key = backup.spec.volume_group_snapshot_label_key.as_str();
    let group = label(claim, key).filter(|group| !key.is_empty() && !group.is_empty())?;
    Some((key, group))
}

impl Groups {
    pub(super) fn new(cluster: &Cluster, discovery: &Discovery) -> Self {
        let served = |kind: &str, plural: &str, namespaced| {
            let found = discovery.resolve(&format!("{plural}.{GROUP_SNAPSHOTS}")).cloned();
            found.unwrap_or_else(|| ResourceType::new(VERSION, kind, plural, namespaced))
        };
        let classes = served("VolumeGroupSnapshotClass", "volumegroupsnapshotclasses", false);
        Self {
            cluster: cluster.clone(),
            types: GroupTypes {
                snapshots: served("VolumeGroupSnapshot", "volumegroupsnapshots", true),
                contents: served("VolumeGroupSnapshotContent", "volumegroupsnapshotcontents", false),
            },
            classes: Classes::new(cluster, classes),
            taken: Mutex::default(),
        }
    }

    /// An error where a claim belongs to a group and volume policies name a class for it: a group has one class, of another kind.
    pub(super) fn check_alone(&self, claim: &Value, class: &str, backup: &Backup) -> Result<()> {
        let Some((key, group)) = group_of(claim, backup) else { return Ok(()) };
        let (namespace, name) = identity(claim);
        Err(Error::Item(format!(
            "the volume policies name the VolumeSnapshotClass {class} for claim {namespace}/{name}, whose snapshot is taken with its \
             group {key}={group}; take the label off, or leave claims of groups out of that policy"
        )))
    }

    /// The snapshot of a claim that belongs to a group, taken with it; `None` when it belongs to none.
    pub(super) async fn snapshot(&self, claim: &Value, driver: &str, backup: &Backup) -> Result<Option<String>> {
        let (namespace, name) = identity(claim);
        let Some((key, group)) = group_of(claim, backup) else { return Ok(None) };
        let place = (namespace.to_owned(), group.to_owned());
        let taken = Arc::clone(self.taken.lock().await.entry(place).or_default());
        let outcome = once(&taken, self.take(claim, (key, group), driver, backup)).await;
        let members = outcome.map_err(|problem| {
            Error::Item(format!("there is no snapshot of group {key}={group} in namespace {namespace}: {problem}"))
        })?;
        members.get(name).cloned().map(Some).ok_or_else(|| {
            Error::Item(format!(
                "the snapshot of group {key}={group} in namespace {namespace} has none of claim {name}"
            ))
        })
    }

    /// Takes the snapshot of a group; gives the snapshots of its volumes by their claims.
    async fn take(&self, claim: &Value, (key, group): (&str, &str), driver: &str, backup: &Backup) -> Result<Members> {
        let namespace = identity(claim).0;
        let members =
            list(&self.cluster, &types::PERSISTENT_VOLUME_CLAIMS, Some(namespace), Some(&format!("{key}={group}")))
                .await?;
        self.check_drivers(&members, (key, group), driver).await?;
        let class = self.classes.for_group(driver, claim, backup).await?;
        let wanted = self.new_snapshot(namespace, (key, group), &class, backup);
        let made = self.cluster.create_once(&self.types.snapshots, Some(namespace), &wanted).await?;
        let patience = backup.spec.csi_snapshot_timeout.to_std();
        match self.settle(&made, members.len(), backup, patience).await {
            Ok(members) => Ok(members),
            Err(problem) => Err(self.give_up(&made, backup, problem).await),
        }
    }

    /// Removes the snapshot of a group that cannot be used; gives the reason in words.
    async fn give_up(&self, group: &Value, backup: &Backup, problem: Error) -> Error {
        let remove = || discard_group(&self.cluster, &self.types, group, backup);
        let mut removed = remove().await;
        for pause in PAUSES {
            if removed.is_ok() {
                break;
            }
            tokio::time::sleep(pause).await;
            removed = remove().await;
        }
        let (namespace, name) = identity(group);
        match removed {
            Ok(()) => problem,
            Err(error) => Error::Item(format!(
                "{problem}; VolumeGroupSnapshot {namespace}/{name} or what it made is left: {error}"
            )),
        }
    }

    /// One call of one driver takes the snapshot, so all volumes must be its own.
    async fn check_drivers(&self, members: &[Value], (key, group): (&str, &str), driver: &str) -> Result<()> {
        for member in members {
            let (namespace, name) = identity(member);
            let volume = self.cluster.get(types::PERSISTENT_VOLUMES.item(None, text(member, "/spec/volumeName"))).await;
            let volume = if text(member, "/spec/volumeName").is_empty() { None } else { volume? };
            let found = volume.as_ref().map_or("", |volume| text(volume, "/spec/csi/driver"));
            if found != driver {
                let has = if found.is_empty() { "no volume of a CSI driver" } else { found };
                return Err(Error::Item(format!(
                    "group {key}={group}: claim {namespace}/{name} has {has}, others have {driver}; \
                     a group needs one driver, so remove the label from claims that do not belong to it"
                )));
            }
        }
        Ok(())
    }

    fn new_snapshot(&self, namespace: &str, (key, group): (&str, &str), class: &str, backup: &Backup) -> Value {
        let mut labels: BTreeMap<&str, String> = backup_labels(backup).into();
        labels.insert(key, group.to_owned());
        json!({
            "apiVersion": self.types.snapshots.api_version(),
            "kind": self.types.snapshots.kind,
            "metadata": {"generateName": format!("velero-{group}-"), "namespace": namespace, "labels": labels},
            "spec": {"volumeGroupSnapshotClassName": class, "source": {"selector": {"matchLabels": {key: group}}}},
        })
    }

    /// Waits for the snapshots of a group, frees them from it, and removes its objects.
    async fn settle(&self, group: &Value, members: usize, backup: &Backup, patience: Duration) -> Result<Members> {
        let (namespace, name) = identity(group);
        let deadline = Instant::now() + patience;
        let has_content = |group: Option<&Value>| group.is_none_or(|group| !text(group, GROUP_CONTENT).is_empty());
        let settled =
            self.cluster.wait_until(self.types.snapshots.item(Some(namespace), name), patience, has_content).await?;
        let gone = || Error::Item(format!("VolumeGroupSnapshot {namespace}/{name} was deleted by somebody else"));
        let content = settled.map(|group| text(&group, GROUP_CONTENT).to_owned()).ok_or_else(gone)?;
        let snapshots = loop {
            let all = list(&self.cluster, &SNAPSHOTS, Some(namespace), None).await?;
            let own: Vec<Value> = all.into_iter().filter(|snapshot| is_owned(snapshot, group)).collect();
            if own.len() >= members {
                break own;
            }
            if Instant::now() >= deadline {
                return Err(Error::Item(format!(
                    "VolumeGroupSnapshot {namespace}/{name} has {} of {members} usable snapshots after {patience:?} (csiSnapshotTimeout)",
                    own.len()
                )));
            }
            tokio::time::sleep(POLL).await;
        };
        for snapshot in &snapshots {
            self.free(snapshot, group, backup).await?;
        }
        let keep = json!({"spec": {"deletionPolicy": "Retain"}});
        self.cluster.merge_patch(self.types.contents.item(None, &content), &keep).await?;
        self.cluster.delete(self.types.contents.item(None, &content), &DeleteParams::default()).await?;
        self.cluster.delete(self.types.snapshots.item(Some(namespace), name), &DeleteParams::default()).await?;
        let claim = |snapshot: &Value| text(snapshot, "/spec/source/persistentVolumeClaimName").to_owned();
        Ok(snapshots.iter().map(|snapshot| (claim(snapshot), identity(snapshot).1.to_owned())).collect())
    }

    /// Frees a snapshot from its group, so that it outlives it, and marks it as one of the backup.
    async fn free(&self, snapshot: &Value, group: &Value, backup: &Backup) -> Result<()> {
        let (namespace, name) = identity(snapshot);
        let keep = |pointer: &str, keeps: &dyn Fn(&Value) -> bool| -> Vec<Value> {
            elements(snapshot, pointer).filter(|value| keeps(value)).cloned().collect()
        };
        let owner = text(group, "/metadata/uid");
        let owners = keep("/metadata/ownerReferences", &|reference| text(reference, "/uid") != owner);
        let finalizers = keep("/metadata/finalizers", &|finalizer| {
            finalizer.as_str().is_none_or(|finalizer| !FINALIZERS.contains(&finalizer))
        });
        let labels: BTreeMap<&str, String> = backup_labels(backup).into();
        let patch = json!({"metadata": {"ownerReferences": owners, "finalizers": finalizers, "labels": labels}});
        self.cluster.merge_patch(SNAPSHOTS.item(Some(namespace), name), &patch).await?;
        Ok(())
    }
}

/// What comes of a group. It is tried once, also where that fails: each member would wait for the driver as long again.
async fn once(taken: &Taken, take: impl Future<Output = Result<Members>>) -> Result<Members, String> {
    let mut taken = taken.lock().await;
    if let Some(known) = taken.as_ref() {
        return known.clone();
    }
    let outcome = take.await.map_err(|error| error.to_string());
    *taken = Some(outcome.clone());
    outcome
}

/// Whether a snapshot was made by a group snapshot, and can be used: alone and without a class, the snapshot controller
/// would not look after it any more.
fn is_owned(snapshot: &Value, group: &Value) -> bool {
    let owner = text(group, "/metadata/uid");
    elements(snapshot, "/metadata/ownerReferences").any(|reference| text(reference, "/uid") == owner)
        && text(snapshot, "/status/volumeGroupSnapshotName") == identity(group).1
        && is_ready(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_group_is_tried_once_for_all_its_claims() {
        let refused = |problem: &str| Err(Error::Item(problem.to_owned()));
        let members: Members = [("data".to_owned(), "s-1".to_owned())].into();
        let failed = Taken::default();
        for problem in ["not within 10m", "tried again"] {
            let found = once(&failed, async { refused(problem) }).await;
            assert_eq!(found, Err("not within 10m".to_owned()));
        }
        let taken = Taken::default();
        assert_eq!(once(&taken, async { Ok(members.clone()) }).await, Ok(members.clone()));
        assert_eq!(once(&taken, async { refused("taken again") }).await, Ok(members));
    }

    #[test]
    fn a_snapshot_belongs_to_the_group_that_owns_it_and_that_it_names() {
        let group = json!({"metadata": {"name": "g", "uid": "1"}});
        for (owner, named, ready, expected) in
            [("1", "g", true, true), ("2", "g", true, false), ("1", "", true, false), ("1", "g", false, false)]
        {
            let metadata = json!({"ownerReferences": [{"uid": owner}]});
            let snapshot =
                json!({"metadata": metadata, "status": {"volumeGroupSnapshotName": named, "readyToUse": ready}});
            assert_eq!(is_owned(&snapshot, &group), expected, "{owner} {named}");
        }
        assert!(!is_owned(&json!({}), &group));
    }
}

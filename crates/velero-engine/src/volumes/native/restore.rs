//! Volumes that are made from native snapshots.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use velero_api::annotations::ORIGINAL_PV_NAME;
use velero_api::labels;
use velero_api::records::{RestoreVolumeInfo, Snapshot, VolumeMethod};
use velero_cluster::{Error, ItemRef, types};
use velero_plugin::VolumeInfo;
use velero_plugin::item::{annotation, set_annotation, text};

use super::super::VOLUMES;
use super::super::restore_context::RestoreContext;
use super::Native;
use crate::restore::object::reset_binding;
use crate::restore::{Item, Trouble};

const POLL: Duration = Duration::from_secs(1);
const PAGE: u32 = 100;

impl Native {
    /// Makes a volume from its snapshot and puts it behind the object, under another name if that is in use.
    ///
    /// A volume of that name which stays is left as it is: the object is only compared with it then.
    pub(super) async fn volume_from_snapshot(
        &self,
        restore: &RestoreContext<'_>,
        item: &Item,
        volume: &mut Value,
    ) -> Result<(), Trouble> {
        let failed = |error: Error| Trouble::error(format!("error restoring {}: {error}", item.id()));
        let live = look_up(restore, types::PERSISTENT_VOLUMES.item(None, &item.name)).await.map_err(failed)?;
        let mut is_renamed = live.is_some() && restore.volumes.moves_claim(volume);
        restore.volumes.map_claim(volume);
        if is_renamed && let Some(made) = made_earlier(restore, item, volume).await.map_err(failed)? {
            restore.volumes.rename(&item.name, text(&made, "/metadata/name"));
            *volume = made;
            return Ok(());
        }
        if !is_renamed && live.is_some() && stays(restore, item).await? {
            return Ok(());
        }
        reset_binding(volume);
        if !restore.is_preview {
            *volume = self.put_volume_behind(restore, item, volume).await?;
            is_renamed |= text(volume, "/metadata/name") != &*item.name;
        }
        if is_renamed {
            rename_volume(restore, item, volume);
        }
        if let Some(snapshot) = self.snapshots.get(&*item.name) {
            restore.volumes.note_restored(restored(volume, snapshot));
        }
        Ok(())
    }

    /// Makes the volume in the storage system; gives the object that stands for it.
    async fn put_volume_behind(
        &self,
        restore: &RestoreContext<'_>,
        item: &Item,
        volume: &Value,
    ) -> Result<Value, Trouble> {
        let snapshot = self.usable_snapshot(item)?;
        let (id, location) = (&snapshot.status.provider_snapshot_id, &snapshot.spec.location);
        let failed = |error: velero_plugin::Error| {
            let place = format!("snapshot {id} of volume snapshot location {location}");
            Trouble::error(format!("error restoring {} from {place}: {error}", item.id()))
        };
        let snapshotter = restore.actions.volume_snapshotter(location).await.map_err(failed)?;
        let info = VolumeInfo { volume_type: snapshot.spec.volume_type.clone(), iops: snapshot.spec.volume_iops };
        let made = snapshotter.create_volume_from_snapshot(id, &info, &snapshot.spec.volume_az).await;
        let volume_id = made.map_err(failed)?;
        let entry = restore.journal.info().item(ItemRef::new(VOLUMES, None, &item.name)).field("snapshot", id.clone());
        entry.field("volumeID", volume_id.clone()).message("Made a volume from its snapshot");
        snapshotter.set_volume_id(volume, &volume_id).await.map_err(failed)
    }

    fn usable_snapshot(&self, item: &Item) -> Result<&Snapshot, Trouble> {
        let remedy = "restore with --restore-volumes=false to take the volume as it was";
        let problem = match self.snapshots.get(&*item.name) {
            Some(snapshot) if snapshot.is_complete() => return Ok(snapshot),
            Some(_) => "its snapshot failed when the backup was made",
            None => "the backup does not name its snapshot",
        };
        Err(Trouble::error(format!("error restoring {}: {problem}; {remedy}", item.id())))
    }
}

/// What is told of a volume that was made from a snapshot.
fn restored(volume: &Value, snapshot: &Snapshot) -> RestoreVolumeInfo {
    let of = |pointer: &str| text(volume, pointer).to_owned();
    RestoreVolumeInfo {
        pvc_name: of("/spec/claimRef/name"),
        pvc_namespace: of("/spec/claimRef/namespace"),
        pv_name: of("/metadata/name"),
        restore_method: Some(VolumeMethod::NativeSnapshot),
        native_snapshot_info: Some(snapshot.info()),
        ..RestoreVolumeInfo::default()
    }
}

/// Gives a volume the name its snapshotter chose, or a new one.
fn rename_volume(restore: &RestoreContext<'_>, item: &Item, volume: &mut Value) {
    if text(volume, "/metadata/name") == &*item.name {
        volume["metadata"]["name"] = json!(format!("velero-clone-{}", uuid::Uuid::new_v4()));
    }
    set_annotation(volume, ORIGINAL_PV_NAME, &item.name);
    restore.volumes.rename(&item.name, text(volume, "/metadata/name"));
}

/// The volume that an earlier restore made from the same snapshot for the same claim, under a name of its own.
async fn made_earlier(restore: &RestoreContext<'_>, item: &Item, volume: &Value) -> Result<Option<Value>, Error> {
    if restore.earlier.family.is_empty() {
        return Ok(None);
    }
    let selector = format!("{} in ({})", labels::RESTORE_NAME, restore.earlier.labels().join(","));
    let mut pages = restore.cluster.list_pages(&types::PERSISTENT_VOLUMES, None, Some(&selector), PAGE).boxed();
    let claim = |volume: &Value| {
        ["/spec/claimRef/namespace", "/spec/claimRef/name"].map(|pointer| text(volume, pointer).to_owned())
    };
    while let Some(page) = pages.try_next().await? {
        for found in &page.items {
            let found = found.to_value()?;
            let is_same = annotation(&found, ORIGINAL_PV_NAME) == Some(&*item.name) && claim(&found) == claim(volume);
            if is_same && !is_terminating(&found) && text(&found, "/status/phase") != "Released" {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Whether a volume that is there stays. One that is going away, by itself or with its claim, is waited for.
async fn stays(restore: &RestoreContext<'_>, item: &Item) -> Result<bool, Trouble> {
    let failed = |error: Error| Trouble::error(format!("error waiting for the present {}: {error}", item.id()));
    let deadline = Instant::now() + restore.terminating_timeout;
    loop {
        let Some(live) = look_up(restore, types::PERSISTENT_VOLUMES.item(None, &item.name)).await.map_err(failed)?
        else {
            return Ok(false);
        };
        if !is_leaving(restore, &live).await.map_err(failed)? {
            return Ok(true);
        }
        if restore.is_preview {
            return Ok(false);
        }
        if Instant::now() >= deadline {
            return Err(Trouble::error(format!(
                "timed out waiting for the present {} to go away before restoring it from its snapshot; \
                 see what keeps it (its claim and its finalizers), or delete it, and restore again",
                item.id()
            )));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Whether a volume is going away, or is about to: with its claim, or with the namespace of that.
async fn is_leaving(restore: &RestoreContext<'_>, volume: &Value) -> Result<bool, Error> {
    if text(volume, "/status/phase") == "Released" || is_terminating(volume) {
        return Ok(true);
    }
    let (namespace, claim) = (text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"));
    if claim.is_empty() {
        return Ok(false);
    }
    let goes = |found: Option<Value>| found.as_ref().is_none_or(is_terminating);
    Ok(goes(look_up(restore, types::PERSISTENT_VOLUME_CLAIMS.item(Some(namespace), claim)).await?)
        || goes(look_up(restore, types::NAMESPACES.item(None, namespace)).await?))
}

async fn look_up(restore: &RestoreContext<'_>, item: ItemRef<'_>) -> Result<Option<Value>, Error> {
    restore.pace.send(restore.cluster, restore.cluster.get(item)).await
}

fn is_terminating(object: &Value) -> bool {
    text(object, "/status/phase") == "Terminating" || !text(object, "/metadata/deletionTimestamp").is_empty()
}

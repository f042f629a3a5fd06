//! Volumes that are made from native snapshots.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use velero_api::annotations::ORIGINAL_PV_NAME;
use velero_api::records::Snapshot;
use velero_cluster::{Error, ResourceType};
use velero_plugin::VolumeInfo;

use super::act::Item;
use super::object::{self, reset_binding, text};
use super::plan::NAMESPACES;
use super::run::{Mode, Run};
use super::trouble::Trouble;

const POLL: Duration = Duration::from_secs(1);
const VOLUMES: &str = "persistentvolumes";
const CLAIMS: &str = "persistentvolumeclaims";

impl Run {
    /// Makes a volume from its snapshot and puts it behind the object, under another name if that is in use.
    ///
    /// A volume of that name which stays is left as it is: the object is only compared with it then.
    pub(super) async fn volume_from_snapshot(&self, item: &Item, volume: &mut Value) -> Result<(), Trouble> {
        let failed = |error: Error| Trouble::error(format!("error restoring {}: {error}", item.id()));
        let live = self.look_up(VOLUMES, None, &item.name).await.map_err(failed)?;
        let mut is_renamed = live.is_some() && self.volumes.moves_claim(volume);
        self.volumes.map_claim(volume);
        if !is_renamed && live.is_some() && self.stays(item).await? {
            return Ok(());
        }
        reset_binding(volume);
        if self.mode == Mode::Write {
            *volume = self.put_volume_behind(item, volume).await?;
            is_renamed |= text(volume, "/metadata/name") != &*item.name;
        }
        if is_renamed {
            self.rename_volume(item, volume);
        }
        if let Some(snapshot) = self.volumes.snapshot(&item.name) {
            self.volumes.note_restored(volume, snapshot);
        }
        Ok(())
    }

    /// Makes the volume in the storage system; gives the object that stands for it.
    async fn put_volume_behind(&self, item: &Item, volume: &Value) -> Result<Value, Trouble> {
        let snapshot = self.usable_snapshot(item)?;
        let (id, location) = (&snapshot.status.provider_snapshot_id, &snapshot.spec.location);
        let failed = |error: velero_plugin::Error| {
            let place = format!("snapshot {id} of volume snapshot location {location}");
            Trouble::error(format!("error restoring {} from {place}: {error}", item.id()))
        };
        let snapshotter = self.request.actions.volume_snapshotter(location).await.map_err(failed)?;
        let info = VolumeInfo { volume_type: snapshot.spec.volume_type.clone(), iops: snapshot.spec.volume_iops };
        let made = snapshotter.create_volume_from_snapshot(id, &info, &snapshot.spec.volume_az).await;
        let volume_id = made.map_err(failed)?;
        let entry = self.journal.info().object(VOLUMES, None, &item.name).field("snapshot", id.clone());
        entry.field("volumeID", volume_id.clone()).message("Made a volume from its snapshot");
        snapshotter.set_volume_id(volume, &volume_id).await.map_err(failed)
    }

    fn usable_snapshot(&self, item: &Item) -> Result<&Snapshot, Trouble> {
        let remedy = "restore with --restore-volumes=false to take the volume as it was";
        let problem = match self.volumes.snapshot(&item.name) {
            Some(snapshot) if snapshot.is_complete() => return Ok(snapshot),
            Some(_) => "its snapshot failed when the backup was made",
            None => "the backup does not name its snapshot",
        };
        Err(Trouble::error(format!("error restoring {}: {problem}; {remedy}", item.id())))
    }

    /// Gives a volume the name its snapshotter chose, or a new one.
    fn rename_volume(&self, item: &Item, volume: &mut Value) {
        if text(volume, "/metadata/name") == &*item.name {
            volume["metadata"]["name"] = json!(format!("velero-clone-{}", uuid::Uuid::new_v4()));
        }
        object::annotate(volume, ORIGINAL_PV_NAME, &item.name);
        self.volumes.rename(&item.name, text(volume, "/metadata/name"));
    }

    /// Whether a volume that is there stays. One that is going away, by itself or with its claim, is waited for.
    async fn stays(&self, item: &Item) -> Result<bool, Trouble> {
        let failed = |error: Error| Trouble::error(format!("error waiting for the present {}: {error}", item.id()));
        let deadline = Instant::now() + self.request.terminating_timeout;
        loop {
            let Some(live) = self.look_up(VOLUMES, None, &item.name).await.map_err(failed)? else {
                return Ok(false);
            };
            if !self.is_leaving(&live).await.map_err(failed)? {
                return Ok(true);
            }
            if self.mode == Mode::Preview {
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
    async fn is_leaving(&self, volume: &Value) -> Result<bool, Error> {
        if text(volume, "/status/phase") == "Released" || is_terminating(volume) {
            return Ok(true);
        }
        let (namespace, claim) = (text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"));
        if claim.is_empty() {
            return Ok(false);
        }
        let goes = |found: Option<Value>| found.as_ref().is_none_or(is_terminating);
        Ok(goes(self.look_up(CLAIMS, Some(namespace), claim).await?)
            || goes(self.look_up(NAMESPACES, None, namespace).await?))
    }

    async fn look_up(&self, resource: &str, namespace: Option<&str>, name: &str) -> Result<Option<Value>, Error> {
        let kind = match resource {
            VOLUMES => ResourceType::new("v1", "PersistentVolume", VOLUMES, false),
            CLAIMS => ResourceType::new("v1", "PersistentVolumeClaim", CLAIMS, true),
            other => ResourceType::new("v1", "Namespace", other, false),
        };
        let cluster = &self.request.cluster;
        self.pace.send(cluster, cluster.get(&kind, namespace, name)).await
    }
}

fn is_terminating(object: &Value) -> bool {
    text(object, "/status/phase") == "Terminating" || !text(object, "/metadata/deletionTimestamp").is_empty()
}

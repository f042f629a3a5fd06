//! Copies of volumes through the file systems of pods, which node agents carry out.
//!
//! ```text
//! asked ── what is asked for the volumes of a pod
//! agents ── on which nodes somebody can do it
//! repositories ── whether there is a place for the data
//! create ── makes the objects that ask for it, once each; error ── why they are not asked
//! saving ── the volumes of a pod: asked for, or refused with the reason
//! copies ── those of a backup: begun with the pod, waited for before its hooks after it, or at the end
//! fillings ── those of a restore: begun when the pod is made, waited for at the end
//!   └─ filled_pod ── one pod; filler ── what all need
//! ```

mod agents;
mod asked;
mod copies;
mod create;
mod error;
mod filled_pod;
mod filler;
mod fillings;
mod repositories;
mod saving;

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::{BackupVolumeInfo, VolumeMethod, VolumeResult};
use velero_cluster::{ItemRef, RawItem};
use velero_plugin::item;
use velero_rules::pod_volumes::{CopyObstacle, copy_obstacle};
use velero_rules::resume::LeftPod;
use velero_rules::volume_decision::VolumeDecision;
use velero_rules::volume_decision::pods::{PodVolumeDecision, PodVolumes};

use super::backup_context::{BackupContext, claim_of};
use super::error::VolumeError;
use super::method::Method;
use super::restore_context::{RestoreContext, VolumeVerdict, Wishes};
use super::{CLAIMS, PODS, VOLUMES};
use crate::lock;
use crate::restore::Target;
use saving::{Dealt, running_pod};

pub(super) use saving::FileSystem;

/// What is said of the way that would have saved a volume.
const BY_POD: &str = "podvolume";

#[async_trait]
impl Method for FileSystem {
    fn name(&self) -> VolumeMethod {
        VolumeMethod::PodVolumeBackup
    }

    fn takes(&self, decision: VolumeDecision) -> bool {
        decision == VolumeDecision::FsBackup
    }

    async fn save_volume(&self, _: &BackupContext<'_>, volume: &Value) -> Result<(), VolumeError> {
        lock(&self.volumes).insert(item::name(volume).to_owned(), volume.clone());
        Ok(())
    }

    /// Asks for copies of the volumes of a pod.
    async fn save_pod(&self, backup: &BackupContext<'_>, item: &RawItem) {
        let (namespace, name) = (item.namespace().unwrap_or_default(), item.name());
        let pod = match PodVolumes::read(item.as_bytes()) {
            Ok(pod) => pod,
            Err(error) => {
                let entry = backup.journal.error().item(ItemRef::new(PODS, Some(namespace), name));
                return entry.error(&error).message("Error reading the volumes of the pod");
            }
        };
        for volume in &pod.unknown {
            let entry = backup.journal.error().item(ItemRef::new(PODS, Some(namespace), name));
            entry.message(&format!(
                "The annotation backup.velero.io/backup-volumes of pod {namespace}/{name} names volume {volume}, which the pod \
                 does not have: correct the name, or take it out"
            ));
        }
        let mut wanted = Vec::new();
        for volume in &pod.volumes {
            match asked::decide(backup, namespace, &pod, volume).await {
                Ok((PodVolumeDecision::NotAsked, _)) => {}
                Ok((PodVolumeDecision::Copy(asked_by), behind)) => wanted.push((volume, asked_by, behind)),
                Ok((PodVolumeDecision::CannotCopy(asked_by, obstacle), _)) => {
                    self.refuse(backup, (namespace, name), volume, asked_by, obstacle, &pod.phase);
                }
                Err(error) => {
                    let entry = backup.journal.error().item(ItemRef::new(PODS, Some(namespace), name)).error(&error);
                    entry.message(&format!("Error finding out what is asked for volume {}", volume.name));
                }
            }
        }
        if !wanted.is_empty() {
            self.copy(backup, &running_pod(item), wanted).await;
        }
    }

    fn is_saving(&self, pod: (&str, &str)) -> bool {
        self.copies.get().is_some_and(|copies| copies.has_begun(pod))
    }

    async fn wait_for_pod(&self, pod: (&str, &str)) {
        if let Some(copies) = self.copies.get() {
            copies.wait_for_pod(pod).await;
        }
    }

    /// Waits for all copies, and says which claims and persistent volumes should have been copied by a pod when no pod
    /// of the backup could do so.
    async fn close(&self, backup: &BackupContext<'_>) {
        if let Some(copies) = self.copies.get() {
            copies.close(backup).await;
        }
        self.tell_of_refused(backup);
        for (name, volume) in std::mem::take(&mut *lock(&self.volumes)) {
            let claim = claim_of(&volume).map(|(namespace, claim)| (namespace.to_owned(), claim.to_owned()));
            let dealt = claim.as_ref().and_then(|claim| lock(&self.claims).get(claim).cloned());
            let of_claim = claim.map(|(namespace, claim)| format!(" (claim {namespace}/{claim})")).unwrap_or_default();
            match dealt {
                Some(Dealt::Begun) => {}
                Some(Dealt::Told(reason) | Dealt::Refused { reason, .. }) => {
                    backup.volumes.note_skipped(&volume, BY_POD, &reason);
                }
                None => {
                    let reason = "no running pod of the backup mounts it";
                    backup.volumes.note_skipped(&volume, BY_POD, reason);
                    backup.journal.error().item(ItemRef::new(VOLUMES, None, &name)).message(&format!(
                        "The data of volume {name}{of_claim} is not backed up: a copy through the file system of a pod is asked \
                         for, and {reason}. Let a volume policy say snapshot or skip for it"
                    ));
                }
            }
        }
    }

    fn verdict(&self, wishes: &Wishes, info: Option<&BackupVolumeInfo>) -> VolumeVerdict {
        let copy = info.and_then(|info| info.pvb_info.as_ref());
        let has_failed = info.is_some_and(|info| info.result == Some(VolumeResult::Failed));
        match copy.map(copy_obstacle) {
            _ if !wishes.restore_copies => VolumeVerdict::Anew,
            _ if has_failed => VolumeVerdict::AnewWithData("no copy, for that of the backup failed"),
            Some(Some(CopyObstacle::Uploader)) => {
                VolumeVerdict::AnewWithData("a restic repository, which only Velero up to 1.18 can restore")
            }
            // A copy without a snapshot is that of an empty volume.
            Some(None | Some(CopyObstacle::Empty)) => VolumeVerdict::Anew,
            None => VolumeVerdict::AnewWithData("a copy of which the backup has no record"),
        }
    }

    fn claim_made(&self, restore: &RestoreContext<'_>, target: &Target<'_>, made: &RawItem) {
        if !restore.is_preview {
            self.fillings(restore).expect_claim(restore, target, made);
        }
    }

    fn pod_made(&self, restore: &RestoreContext<'_>, target: &Target<'_>, created: &RawItem) {
        self.fillings(restore).begin(restore, target, created);
    }

    fn pod_taken_over(&self, restore: &RestoreContext<'_>, target: &Target<'_>, found: &RawItem, left: &LeftPod) {
        self.fillings(restore).take_over(restore, target, found, left);
    }

    fn foresee(&self, restore: &RestoreContext<'_>, target: &Target<'_>, object: &Value) {
        match &*target.item.resource {
            CLAIMS => self.fillings(restore).expect(restore, target),
            PODS => self.fillings(restore).foresee_pod(restore, target, object),
            _ => {}
        }
    }

    fn close_restore(&self, restore: &RestoreContext<'_>) {
        if let Some(fillings) = self.fillings.get() {
            fillings.tell_of_unfilled(restore);
        }
    }
}

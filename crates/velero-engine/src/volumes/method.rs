//! The trait of a way to save the data of volumes.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::{BackupOperation, BackupVolumeInfo, VolumeMethod};
use velero_cluster::RawItem;
use velero_rules::resource_policies::SnapshotParameters;
use velero_rules::resume::LeftPod;
use velero_rules::volume_decision::VolumeDecision;

use super::backup_context::BackupContext;
use super::error::VolumeError;
use super::restore_context::{LeftData, RestoreContext, VolumeVerdict, Wishes};
use super::saved::{AfterRun, SavedVolumes};
use crate::restore::{Item, Target, Trouble};

/// A way to save the data of volumes, in one backup or restore. One file beside this one each.
///
/// Most ways care for some of the moments only; what they do not name does nothing.
#[async_trait]
pub(crate) trait Method: Send + Sync {
    /// What the file about volumes and the actions that save volumes call it.
    fn name(&self) -> VolumeMethod;

    /// Whether it saves a volume about which this was decided. The decision is made once, in `velero_rules`.
    fn takes(&self, decision: VolumeDecision) -> bool;

    /// Saves a PersistentVolume it takes, before the object is stored; an error keeps the object out.
    async fn save_volume(&self, backup: &BackupContext<'_>, volume: &Value) -> Result<(), VolumeError>;

    /// An action that saves in this way is about to be called for the claim of a volume.
    fn begin_claim(&self, backup: &BackupContext<'_>, volume: &Value, parameters: &SnapshotParameters) {
        let _ = (backup, volume, parameters);
    }

    /// An action has begun an operation on an item of any type, perhaps one that belongs to a volume.
    fn follow(&self, backup: &BackupContext<'_>, resource: &str, item: &Value, operation_id: &str) {
        let _ = (backup, resource, item, operation_id);
    }

    /// The action on the claim of a volume is done, and so are the items it asked for.
    fn end_claim(&self, backup: &BackupContext<'_>, volume: &Value) -> Result<(), VolumeError> {
        let _ = (backup, volume);
        Ok(())
    }

    /// A pod is stored, between its hooks.
    async fn save_pod(&self, backup: &BackupContext<'_>, pod: &RawItem) {
        let _ = (backup, pod);
    }

    /// Whether volumes of a pod are being saved, by its namespace and name.
    fn is_saving(&self, pod: (&str, &str)) -> bool {
        let _ = pod;
        false
    }

    /// Waits until volumes of a pod are saved, well or not, so that its hooks after it can run.
    async fn wait_for_pod(&self, pod: (&str, &str)) {
        let _ = pod;
    }

    /// All items of the backup have come by and are in the archive: waits for what is still being saved.
    async fn close(&self, backup: &BackupContext<'_>) {
        let _ = backup;
    }

    /// Takes over how the operations on what was saved ended; says whether that changed anything.
    fn settle(&self, saved: &mut SavedVolumes, operations: &[BackupOperation]) -> bool {
        let _ = (saved, operations);
        false
    }

    /// Frees the cluster of what is in the files of a backup now, which say this.
    async fn release(&self, after: &AfterRun<'_>, saved: &SavedVolumes) -> velero_plugin::Result<()> {
        let _ = (after, saved);
        Ok(())
    }

    /// Removes what a backup that failed has saved; gives what may be left, in words.
    async fn discard(&self, after: &AfterRun<'_>, saved: &mut SavedVolumes) -> Vec<String> {
        let _ = (after, saved);
        Vec::new()
    }

    /// Removes what a backup that is deleted has saved; gives what is left, in words.
    async fn delete(&self, after: &AfterRun<'_>, saved: &mut SavedVolumes) -> Vec<String> {
        let _ = (after, saved);
        Vec::new()
    }

    /// Whether a backup has saved a volume in this way.
    fn has_saved(&self, info: &BackupVolumeInfo) -> bool {
        info.backup_method == Some(self.name())
    }

    /// Whether a backup has saved a volume in this way of which its file about volumes says nothing: those of old.
    fn has_saved_unlisted(&self, volume: &Value) -> bool {
        let _ = volume;
        false
    }

    /// What a restore does with a volume that was saved in this way.
    fn verdict(&self, wishes: &Wishes, info: Option<&BackupVolumeInfo>) -> VolumeVerdict;

    /// Makes a volume of what was saved, and puts it behind the object: of volumes that are to be made of it.
    async fn restore_volume(
        &self,
        restore: &RestoreContext<'_>,
        item: &Item,
        volume: &mut Value,
    ) -> Result<(), Trouble> {
        let _ = (restore, item, volume);
        Ok(())
    }

    /// An object of past work of Velero comes by, such as a DataUpload: before the claims and pods it was about.
    fn meet_work(&self, resource: &str, work: &Value) {
        let _ = (resource, work);
    }

    /// An action has begun an operation on an item of any type, perhaps one that belongs to a volume.
    fn follow_restore(&self, restore: &RestoreContext<'_>, item: &Item, operation_id: &str) {
        let _ = (restore, item, operation_id);
    }

    /// A claim is about to be written, as its actions left it.
    fn restore_claim(&self, restore: &RestoreContext<'_>, item: &Item, claim: &Value) {
        let _ = (restore, item, claim);
    }

    /// A claim was made.
    fn claim_made(&self, restore: &RestoreContext<'_>, target: &Target<'_>, created: &RawItem) {
        let _ = (restore, target, created);
    }

    /// A pod was made.
    fn pod_made(&self, restore: &RestoreContext<'_>, target: &Target<'_>, created: &RawItem) {
        let _ = (restore, target, created);
    }

    /// A pod was there already, made by a restore that this one goes on with.
    fn pod_taken_over(&self, restore: &RestoreContext<'_>, target: &Target<'_>, found: &RawItem, left: &LeftPod) {
        let _ = (restore, target, found, left);
    }

    /// A dry run has found that an object would be made, where a restore would make it.
    fn foresee(&self, restore: &RestoreContext<'_>, target: &Target<'_>, object: &Value) {
        let _ = (restore, target, object);
    }

    /// All objects of the restore have been made, or a dry run has looked at all of them.
    fn close_restore(&self, restore: &RestoreContext<'_>) {
        let _ = restore;
    }

    /// Where the data of a claim of the backup comes from that is restored, and how much it is, in words.
    fn source_of_claim(&self, wishes: &Wishes, namespace: &str, claim: &str) -> Option<String> {
        let _ = (wishes, namespace, claim);
        None
    }

    /// Where the data of a claim is of which the backup says nothing else, if it does not come back: those of old.
    fn left_of_unlisted_claim(&self, wishes: &Wishes, claim: &Value) -> Option<&'static str> {
        let _ = (wishes, claim);
        None
    }

    /// The data of a claim that past work of this kind has put somewhere, as the object of that work tells.
    fn left_by_work<'o>(&self, wishes: &Wishes, work: &'o Value) -> Option<LeftData<'o>> {
        let _ = (wishes, work);
        None
    }
}

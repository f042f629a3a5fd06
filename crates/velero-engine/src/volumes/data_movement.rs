//! CSI snapshots whose data is moved into a repository. That is not done yet: a backup keeps the snapshot where it is and
//! says so, a restore says where the data is.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::{BackupVolumeInfo, VolumeMethod};
use velero_cluster::ItemRef;
use velero_plugin::item::{self, text};
use velero_rules::volume_decision::VolumeDecision;

use super::VOLUMES;
use super::backup_context::{BackupContext, claim_of};
use super::error::VolumeError;
use super::method::Method;
use super::restore_context::{LeftData, VolumeVerdict, Wishes};

/// Snapshots whose data is in a repository.
pub(super) struct DataMovement;

#[async_trait]
impl Method for DataMovement {
    fn name(&self) -> VolumeMethod {
        VolumeMethod::CsiSnapshot
    }

    fn takes(&self, _: VolumeDecision) -> bool {
        false
    }

    async fn save_volume(&self, _: &BackupContext<'_>, _: &Value) -> Result<(), VolumeError> {
        Ok(())
    }

    fn has_saved(&self, info: &BackupVolumeInfo) -> bool {
        info.backup_method == Some(VolumeMethod::CsiSnapshot) && info.snapshot_data_moved
    }

    fn verdict(&self, wishes: &Wishes, _: Option<&BackupVolumeInfo>) -> VolumeVerdict {
        match wishes.restore_data {
            true => VolumeVerdict::AnewWithData("a data mover's repository, which this version cannot restore"),
            false => VolumeVerdict::Anew,
        }
    }

    fn left_by_work<'o>(&self, work: &'o Value) -> Option<LeftData<'o>> {
        let claim = (text(work, "/spec/sourceNamespace"), text(work, "/spec/sourcePVC"));
        let place = format!("a data mover's repository (DataUpload {})", text(work, "/metadata/name"));
        (!claim.1.is_empty()).then_some(LeftData { claim, place })
    }
}

impl BackupContext<'_> {
    /// Says that the data of a volume is not moved, which the backup asks for.
    pub(super) fn tell_of_unmoved(&self, volume: &Value, where_it_is: &str) {
        let name = item::name(volume);
        let of_claim = claim_of(volume).map(|(namespace, claim)| format!(" (claim {namespace}/{claim})"));
        let message = format!(
            "The data of volume {name}{} is not moved, which snapshotMoveData of the backup asks for and this server cannot do \
             yet; {where_it_is}. Back it up without snapshotMoveData, or leave it out with a volume policy",
            of_claim.unwrap_or_default()
        );
        self.journal.error().item(ItemRef::new(VOLUMES, None, name)).message(&message);
    }
}

//! What a backup has saved of volumes, and what is at hand for it after the run.

use velero_api::FeatureFlags;
use velero_api::records::{BackupVolumeInfo, Snapshot, VolumeMethod};
use velero_api::v1::{Backup, PodVolumeBackup};
use velero_api::v2alpha1::DataUpload;
use velero_plugin::{Actions, VolumeKeeper};

/// What the files of a backup say of its volumes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SavedVolumes {
    /// What was done with each volume.
    pub infos: Vec<BackupVolumeInfo>,
    /// The native snapshots, those that failed included.
    pub snapshots: Vec<Snapshot>,
    /// The copies through pods, those that failed included.
    pub copies: Vec<PodVolumeBackup>,
    /// The DataUploads of the backup as they ended, where somebody has read them.
    pub uploads: Vec<DataUpload>,
}

impl SavedVolumes {
    /// How many native snapshots were tried, and how many of them are good.
    pub fn native_snapshots(&self) -> (i64, i64) {
        (number(self.snapshots.len()), number(self.snapshots.iter().filter(|snapshot| snapshot.is_complete()).count()))
    }

    /// How many CSI snapshots were tried; one whose data is moved is none that stays.
    pub fn csi_snapshots(&self) -> i64 {
        let is_csi = |volume: &&BackupVolumeInfo| {
            volume.backup_method == Some(VolumeMethod::CsiSnapshot) && !volume.snapshot_data_moved
        };
        number(self.infos.iter().filter(is_csi).count())
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What is at hand for the volumes of a backup after its run.
#[derive(Clone, Copy)]
pub struct AfterRun<'a> {
    /// The backup.
    pub backup: &'a Backup,
    /// The actions and snapshotters that have saved its volumes.
    pub actions: &'a Actions,
    /// What the server is told to do.
    pub features: &'a FeatureFlags,
}

impl<'a> AfterRun<'a> {
    /// Those who keep what actions have saved in one way, where the server is told to use them or `always`.
    pub(super) fn keepers(
        &self,
        method: &'a VolumeMethod,
        always: bool,
    ) -> impl Iterator<Item = &'a dyn VolumeKeeper> + Send + use<'a> {
        let features = self.features;
        let is_on = move |feature: Option<&str>| always || feature.is_none_or(|feature| features.is_enabled(feature));
        let actions = self.actions.backup_item().iter();
        let of_method = actions
            .filter(move |action| action.saves_volume().as_ref() == Some(method) && is_on(action.needs_feature()));
        of_method.filter_map(|action| action.volume_keeper())
    }
}

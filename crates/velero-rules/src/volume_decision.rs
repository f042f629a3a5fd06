//! What a backup does with the data of volumes: of a persistent one, and of one in a pod ([`pods`]).
//!
//! A volume policy that matches decides alone. Otherwise a volume that some pod wants to be copied through its file
//! system gets no snapshot, and any other gets one unless the backup wants none. With the CSI feature, the snapshots of
//! CSI volumes are the business of the actions on their claims, and their data can be moved into a repository.

pub mod pods;

use velero_api::FeatureFlags;
use velero_api::v1::BackupSpec;

use self::pods::PodVolume;
use crate::resource_policies::{ResourcePolicies, SnapshotParameters, VolumeActionType, VolumeData};

/// What is done with the data of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeDecision {
    /// A volume snapshotter takes a snapshot. Its data stays where that is, whatever the backup wants.
    Snapshot,
    /// The actions on its claim take a CSI snapshot.
    CsiSnapshot,
    /// The actions on its claim take a CSI snapshot, and its data is moved into a repository.
    MovedSnapshot,
    /// It is copied through the file system of a pod.
    FsBackup,
    /// It stays out of the backup.
    Skip(SkipReason),
}

/// Why the data of a volume stays out of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// A volume policy leaves it out.
    Policy,
    /// A volume policy leaves it to a plugin.
    Custom,
    /// The backup wants no snapshots.
    SnapshotsOff,
}

impl SkipReason {
    /// The reason in words, for the file about volumes and the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "the volume policies of the backup say skip",
            Self::Custom => "the volume policies of the backup leave it to a plugin",
            Self::SnapshotsOff => "snapshotVolumes of the backup is false",
        }
    }
}

/// What a backup says about volumes.
#[derive(Debug, Clone, Copy)]
pub struct VolumeRules<'a> {
    /// Its policies.
    pub policies: Option<&'a ResourcePolicies>,
    /// Whether it wants snapshots; unless it says no, it does.
    pub snapshot_volumes: Option<bool>,
    /// Whether it wants the data of snapshots to be moved.
    pub snapshot_move_data: bool,
    /// Whether volumes of pods are copied unless the pod says no, or only if it says so.
    pub fs_backup_by_default: bool,
    /// Whether the CSI feature is on.
    pub csi: bool,
    /// Whether claims are no part of the backup: then their data is not copied through pods.
    pub claims_are_left_out: bool,
}

impl<'a> VolumeRules<'a> {
    /// What a backup says about volumes.
    pub fn new(spec: &BackupSpec, policies: Option<&'a ResourcePolicies>, features: &FeatureFlags) -> Self {
        Self {
            policies,
            snapshot_volumes: spec.snapshot_volumes,
            snapshot_move_data: spec.snapshot_move_data == Some(true),
            fs_backup_by_default: spec.default_volumes_to_fs_backup == Some(true),
            csi: features.csi(),
            claims_are_left_out: false,
        }
    }

    /// Whether a claim can make a difference to the policies.
    pub fn ask_for_claims(&self) -> bool {
        self.policies.is_some_and(ResourcePolicies::has_volume_policies)
    }

    /// What the policies say about a volume, if they say anything. Then pods make no difference.
    pub fn policy_action(&self, volume: &VolumeData) -> Option<VolumeActionType> {
        self.policies?.volume_action(volume).map(|action| action.kind)
    }

    /// With what a snapshot of a volume is taken, as far as the policies say.
    pub fn snapshot_parameters(&self, volume: &VolumeData) -> SnapshotParameters {
        self.policies.map(|policies| policies.snapshot_parameters(volume)).unwrap_or_default()
    }

    /// Decides about a volume and the volumes of pods that are made of its claim.
    pub fn decide<'m>(&self, volume: &VolumeData, mounts: impl IntoIterator<Item = &'m PodVolume>) -> VolumeDecision {
        match self.policy_action(volume) {
            Some(VolumeActionType::Skip) => return VolumeDecision::Skip(SkipReason::Policy),
            Some(VolumeActionType::Custom) => return VolumeDecision::Skip(SkipReason::Custom),
            Some(VolumeActionType::FsBackup) => return VolumeDecision::FsBackup,
            Some(VolumeActionType::Snapshot) => {}
            None if mounts.into_iter().any(|mount| mount.is_copied(self.fs_backup_by_default)) => {
                return VolumeDecision::FsBackup;
            }
            None if self.snapshot_volumes == Some(false) => return VolumeDecision::Skip(SkipReason::SnapshotsOff),
            None => {}
        }
        match self.csi && volume.csi.is_some() {
            true if self.snapshot_move_data => VolumeDecision::MovedSnapshot,
            true => VolumeDecision::CsiSnapshot,
            false => VolumeDecision::Snapshot,
        }
    }
}

#[cfg(test)]
mod tests;

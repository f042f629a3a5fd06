//! Native volume snapshots taken during a backup.

use serde::{Deserialize, Serialize};

use super::{NativeSnapshotInfo, VolumeResult};
use crate::wire::UnknownFields;

/// A snapshot of a persistent volume, taken by a volume snapshotter plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// What was snapshotted.
    pub spec: SnapshotSpec,
    /// What became of it.
    pub status: SnapshotStatus,
}

impl Snapshot {
    /// Whether its upload goes on.
    pub fn is_unfinished(&self) -> bool {
        matches!(self.status.phase, None | Some(SnapshotPhase::New))
    }

    /// Whether a volume can be made from it.
    pub fn is_complete(&self) -> bool {
        self.status.phase == Some(SnapshotPhase::Completed)
    }

    /// The same, as the file about volumes has it.
    pub fn info(&self) -> NativeSnapshotInfo {
        NativeSnapshotInfo {
            snapshot_handle: self.status.provider_snapshot_id.clone(),
            volume_type: self.spec.volume_type.clone(),
            volume_az: self.spec.volume_az.clone(),
            iops: self.spec.volume_iops.unwrap_or_default().to_string(),
            phase: self.status.phase.as_ref().unwrap_or(&SnapshotPhase::New).to_string(),
            unknown: UnknownFields::default(),
        }
    }

    /// Whether the data of the volume was backed up; nothing while its upload goes on.
    pub fn result(&self) -> Option<VolumeResult> {
        match self.is_unfinished() {
            true => None,
            false if self.is_complete() => Some(VolumeResult::Succeeded),
            false => Some(VolumeResult::Failed),
        }
    }
}

/// The volume that was snapshotted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotSpec {
    /// The backup.
    pub backup_name: String,

    /// The UID of the backup.
    #[serde(rename = "backupUID")]
    pub backup_uid: String,

    /// The VolumeSnapshotLocation that holds the snapshot.
    pub location: String,

    /// The PersistentVolume.
    pub persistent_volume_name: String,

    /// The volume as the provider names it.
    #[serde(rename = "providerVolumeID")]
    pub provider_volume_id: String,

    /// The type of the volume at the provider.
    pub volume_type: String,

    /// The availability zone of the volume.
    #[serde(rename = "volumeAZ", skip_serializing_if = "String::is_empty")]
    pub volume_az: String,

    /// The provisioned operations per second, where the volume has them.
    #[serde(rename = "volumeIOPS", skip_serializing_if = "Option::is_none")]
    pub volume_iops: Option<i64>,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// What became of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotStatus {
    /// The snapshot as the provider names it.
    #[serde(rename = "providerSnapshotID", skip_serializing_if = "String::is_empty")]
    pub provider_snapshot_id: String,

    /// Where the snapshot is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SnapshotPhase>,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// The life of a native snapshot.
    SnapshotPhase {
        /// Taken, not safe yet.
        New = "New",
        /// Taken and safe.
        Completed = "Completed",
        /// Could not be taken, or its upload failed.
        Failed = "Failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_written_as_it_was_read() {
        let text = concat!(
            r#"{"spec":{"backupName":"b1","backupUID":"u1","location":"default","persistentVolumeName":"pv-1","#,
            r#""providerVolumeID":"vol-1","volumeType":"gp3","volumeAZ":"eu-1a","volumeIOPS":3000},"#,
            r#""status":{"providerSnapshotID":"snap-1","phase":"Completed"}}"#,
        );
        let snapshot: Snapshot = serde_json::from_str(text).unwrap();
        assert_eq!(snapshot.spec.volume_iops, Some(3000));
        assert_eq!(snapshot.status.phase, Some(SnapshotPhase::Completed));
        assert_eq!(serde_json::to_string(&snapshot).unwrap(), text);
    }

    #[test]
    fn the_file_about_volumes_says_what_became_of_a_snapshot() {
        let mut snapshot = Snapshot::default();
        for (phase, name, result) in [
            (None, "New", None),
            (Some(SnapshotPhase::New), "New", None),
            (Some(SnapshotPhase::Completed), "Completed", Some(VolumeResult::Succeeded)),
            (Some(SnapshotPhase::Failed), "Failed", Some(VolumeResult::Failed)),
        ] {
            snapshot.status.phase = phase;
            assert_eq!((snapshot.info().phase.as_str(), snapshot.result()), (name, result));
            assert_eq!(snapshot.info().iops, "0");
        }
    }

    #[test]
    fn a_failed_snapshot_has_no_identity_at_the_provider() {
        let text = r#"{"phase":"Failed"}"#;
        let status: SnapshotStatus = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&status).unwrap(), text);
    }
}

//! What a backup or restore did with each volume.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::wire::{UnknownFields, empty_as_null, is_zero, null_as_default};

/// Stands in a field whose value cannot be known, as in the handle of a snapshot whose data was moved.
pub const UNKNOWN_VALUE: &str = "unknown";

string_enum! {
    /// The way the data of a volume was backed up or restored.
    VolumeMethod {
        /// A snapshot by a volume snapshotter plugin.
        NativeSnapshot = "NativeSnapshot",
        /// Through the file system of a pod, out.
        PodVolumeBackup = "PodVolumeBackup",
        /// A CSI snapshot.
        CsiSnapshot = "CSISnapshot",
        /// Through the file system of a pod, back in.
        PodVolumeRestore = "PodVolumeRestore",
    }
}

string_enum! {
    /// Whether the data of a volume was backed up.
    VolumeResult {
        /// It was.
        Succeeded = "succeeded",
        /// It was not.
        Failed = "failed",
    }
}

/// What a backup did with one volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupVolumeInfo {
    /// The PersistentVolumeClaim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pvc_name: String,

    /// The namespace of the PersistentVolumeClaim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pvc_namespace: String,

    /// The PersistentVolume.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pv_name: String,

    /// How the data was backed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_method: Option<VolumeMethod>,

    /// Whether snapshot data was moved to the backup storage.
    pub snapshot_data_moved: bool,

    /// Whether a snapshot stays in the storage system.
    pub preserve_local_snapshot: bool,

    /// Whether the volume was left out.
    pub skipped: bool,

    /// Why it was left out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub skipped_reason: String,

    /// When work on the volume started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,

    /// When work on the volume ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,

    /// Whether the data was backed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<VolumeResult>,

    /// More on a CSI snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_snapshot_info: Option<CsiSnapshotInfo>,

    /// More on a data movement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_data_movement_info: Option<SnapshotDataMovementInfo>,

    /// More on a native snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_snapshot_info: Option<NativeSnapshotInfo>,

    /// More on a PodVolumeBackup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvb_info: Option<PodVolumeInfo>,

    /// More on the PersistentVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pv_info: Option<PvInfo>,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// What a restore did with one volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreVolumeInfo {
    /// The restored PersistentVolumeClaim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pvc_name: String,

    /// The namespace of the PersistentVolumeClaim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pvc_namespace: String,

    /// The restored PersistentVolume.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pv_name: String,

    /// How the data was restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_method: Option<VolumeMethod>,

    /// Whether data was moved from the backup storage.
    pub snapshot_data_moved: bool,

    /// More on a CSI snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_snapshot_info: Option<CsiSnapshotInfo>,

    /// More on a data movement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_data_movement_info: Option<SnapshotDataMovementInfo>,

    /// More on a native snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_snapshot_info: Option<NativeSnapshotInfo>,

    /// More on a PodVolumeRestore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvr_info: Option<PodVolumeInfo>,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A CSI snapshot of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSnapshotInfo {
    /// The snapshot as the storage system names it.
    pub snapshot_handle: String,

    /// The size of the volume in bytes.
    pub size: i64,

    /// The CSI driver.
    pub driver: String,

    /// The VolumeSnapshotContent.
    pub vsc_name: String,

    /// The asynchronous operation.
    #[serde(rename = "operationID", skip_serializing_if = "String::is_empty")]
    pub operation_id: String,

    /// Whether the snapshot was ready to use.
    #[serde(rename = "ReadyToUse")]
    pub ready_to_use: Option<bool>,

    /// The group snapshot as the storage system names it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_group_snapshot_handle: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A movement of snapshot data to or from the backup storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotDataMovementInfo {
    /// The data mover; empty and `velero` mean the built-in one.
    pub data_mover: String,

    /// The uploader.
    pub uploader_type: String,

    /// The snapshot that stays in the storage system.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub retained_snapshot: String,

    /// The snapshot in the repository.
    pub snapshot_handle: String,

    /// The asynchronous operation.
    #[serde(rename = "operationID")]
    pub operation_id: String,

    /// The size of the data in bytes.
    pub size: i64,

    /// Bytes that are new or changed since the backup before.
    #[serde(skip_serializing_if = "is_zero")]
    pub incremental_size: i64,

    /// The phase of the DataUpload or DataDownload.
    #[serde(rename = "Phase")]
    pub phase: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A snapshot by a volume snapshotter plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeSnapshotInfo {
    /// The snapshot as the provider names it.
    pub snapshot_handle: String,

    /// The type of the volume at the provider.
    pub volume_type: String,

    /// The availability zone of the volume.
    #[serde(rename = "volumeAZ")]
    pub volume_az: String,

    /// The provisioned operations per second, as a text.
    pub iops: String,

    /// The phase of the snapshot.
    #[serde(rename = "Phase")]
    pub phase: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A PodVolumeBackup or PodVolumeRestore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodVolumeInfo {
    /// The snapshot in the repository.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub snapshot_handle: String,

    /// The size of the data in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub size: i64,

    /// Bytes that are new or changed since the backup before.
    #[serde(skip_serializing_if = "is_zero")]
    pub incremental_size: i64,

    /// The uploader.
    pub uploader_type: String,

    /// The name of the volume in the pod.
    pub volume_name: String,

    /// The pod.
    pub pod_name: String,

    /// The namespace of the pod.
    pub pod_namespace: String,

    /// The node of a backup; empty for a restore.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,

    /// The phase of the PodVolumeBackup or PodVolumeRestore.
    #[serde(rename = "Phase")]
    pub phase: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// What a PersistentVolume must get back when it is made anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PvInfo {
    /// The reclaim policy, which may differ from the one of the StorageClass.
    pub reclaim_policy: String,

    /// The labels.
    #[serde(deserialize_with = "null_as_default", serialize_with = "empty_as_null")]
    pub labels: BTreeMap<String, String>,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

#[cfg(test)]
#[path = "volume_info_tests.rs"]
mod tests;

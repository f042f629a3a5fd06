//! DataUpload: moves the data of one volume snapshot into the backup storage.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    DataMoveOperationProgress, DataMovePhase, GoDuration,
    resource::PrinterColumn,
    wire::{UnknownFields, is_false, is_zero, null_as_default},
};

/// The one type of snapshot there is: a CSI VolumeSnapshot.
pub const SNAPSHOT_TYPE_CSI: &str = "CSI";

/// What the operation of a DataUpload begins with.
pub const UPLOAD_OPERATION: &str = "du-";

custom_resource! {
    /// DataUpload asks a data mover to move the data of one volume snapshot into the backup storage.
    DataUpload {
        version: "v2alpha1",
        plural: "datauploads",
        short_names: ["du"],
        spec: DataUploadSpec,
        status: DataUploadStatus,
        columns: [
            PrinterColumn::text("Status", ".status.phase"),
            PrinterColumn::date("Started", ".status.startTimestamp"),
            PrinterColumn::bytes("Bytes Done", ".status.progress.bytesDone"),
            PrinterColumn::bytes("Total Bytes", ".status.progress.totalBytes"),
            PrinterColumn::bytes("Incremental Bytes", ".status.incrementalBytes").with_priority(10),
            PrinterColumn::text("Storage Location", ".spec.backupStorageLocation"),
            PrinterColumn::AGE,
            PrinterColumn::text("Node", ".status.node"),
        ],
    }
}

/// The life of a DataUpload.
pub type DataUploadPhase = DataMovePhase;

/// Which snapshot to move, and where to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = [
    "backupStorageLocation", "operationTimeout", "snapshotType", "sourceNamespace", "sourcePVC",
]))]
pub struct DataUploadSpec {
    /// The type of the snapshot: CSI.
    pub snapshot_type: String,

    /// The CSI snapshot.
    #[schemars(extend("nullable" = true))]
    pub csi_snapshot: Option<CsiSnapshotSpec>,

    /// The PersistentVolumeClaim the snapshot was taken of.
    #[serde(rename = "sourcePVC")]
    pub source_pvc: String,

    /// The data mover; empty and `velero` mean the built-in one.
    #[serde(rename = "datamover", skip_serializing_if = "String::is_empty")]
    pub data_mover: String,

    /// The BackupStorageLocation that holds the repository.
    pub backup_storage_location: String,

    /// The namespace of the PersistentVolumeClaim.
    pub source_namespace: String,

    /// Settings for the data mover.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub data_mover_config: BTreeMap<String, String>,

    /// Asks for the transfer to be cancelled.
    #[serde(skip_serializing_if = "is_false")]
    pub cancel: bool,

    /// How long steps of the data mover may take.
    #[serde(deserialize_with = "null_as_default")]
    pub operation_timeout: GoDuration,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// A CSI snapshot and the classes it is made with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["storageClass", "volumeSnapshot"]))]
pub struct CsiSnapshotSpec {
    /// The VolumeSnapshot.
    pub volume_snapshot: String,

    /// The StorageClass of the volume.
    pub storage_class: String,

    /// The VolumeSnapshotClass of the snapshot.
    pub snapshot_class: String,

    /// The CSI driver.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub driver: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// The operating system of a node.
    NodeOs {
        /// Decided by the data mover.
        Auto = "auto",
        /// Linux.
        Linux = "linux",
        /// Windows.
        Windows = "windows",
    }
}

/// What has been observed of a DataUpload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataUploadStatus {
    /// Where the transfer is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DataMovePhase>,

    /// The path of the volume on the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,

    /// The snapshot in the repository.
    #[serde(rename = "snapshotID", skip_serializing_if = "String::is_empty")]
    pub snapshot_id: String,

    /// What the data mover needs to know at a restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub data_mover_result: Option<BTreeMap<String, String>>,

    /// Why the transfer failed, or what it is doing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// When the transfer started, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub start_timestamp: Option<Time>,

    /// When the transfer ended, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub completion_timestamp: Option<Time>,

    /// How far the transfer has come.
    #[serde(deserialize_with = "null_as_default")]
    pub progress: DataMoveOperationProgress,

    /// Bytes that are new or changed since the backup before.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(extend("exact-format" = "int64"))]
    pub incremental_bytes: i64,

    /// The node that moves the data.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,

    /// The operating system of that node.
    #[serde(rename = "nodeOS", skip_serializing_if = "Option::is_none")]
    pub node_os: Option<NodeOs>,

    /// The node that makes the data reachable.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub accepted_by_node: String,

    /// When a node took the transfer, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub accepted_timestamp: Option<Time>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl DataUploadStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &DataMovePhase {
        self.phase.as_ref().unwrap_or(&DataMovePhase::New)
    }
}

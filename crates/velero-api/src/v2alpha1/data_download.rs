//! DataDownload: moves the data of one volume back out of the backup storage.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NodeOs;
use crate::{
    DataMoveOperationProgress, DataMovePhase, GoDuration,
    resource::PrinterColumn,
    wire::{UnknownFields, is_false, is_zero, null_as_default},
};

/// What the operation of a DataDownload begins with.
pub const DOWNLOAD_OPERATION: &str = "dd-";

custom_resource! {
    /// DataDownload asks a data mover to fill one volume with data from the backup storage.
    DataDownload {
        version: "v2alpha1",
        plural: "datadownloads",
        short_names: ["dd"],
        spec: DataDownloadSpec,
        status: DataDownloadStatus,
        columns: [
            PrinterColumn::text("Status", ".status.phase"),
            PrinterColumn::date("Started", ".status.startTimestamp"),
            PrinterColumn::bytes("Bytes Done", ".status.progress.bytesDone"),
            PrinterColumn::bytes("Total Bytes", ".status.progress.totalBytes"),
            PrinterColumn::text("Storage Location", ".spec.backupStorageLocation"),
            PrinterColumn::AGE,
            PrinterColumn::text("Node", ".status.node"),
        ],
    }
}

/// The life of a DataDownload.
pub type DataDownloadPhase = DataMovePhase;

/// Which volume to fill, and from where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = [
    "backupStorageLocation", "operationTimeout", "snapshotID", "sourceNamespace", "targetVolume",
]))]
pub struct DataDownloadSpec {
    /// The volume to fill.
    #[serde(deserialize_with = "null_as_default")]
    pub target_volume: TargetVolumeSpec,

    /// The BackupStorageLocation that holds the repository.
    pub backup_storage_location: String,

    /// The data mover; empty and `velero` mean the built-in one.
    #[serde(rename = "datamover", skip_serializing_if = "String::is_empty")]
    pub data_mover: String,

    /// The snapshot in the repository.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,

    /// The namespace the volume was backed up from.
    pub source_namespace: String,

    /// Settings for the data mover.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub data_mover_config: BTreeMap<String, String>,

    /// Asks for the transfer to be cancelled.
    #[serde(skip_serializing_if = "is_false")]
    pub cancel: bool,

    /// How long steps of the data mover may take.
    #[serde(deserialize_with = "null_as_default")]
    pub operation_timeout: GoDuration,

    /// The operating system the data was backed up on.
    #[serde(rename = "nodeOS", skip_serializing_if = "Option::is_none")]
    pub node_os: Option<NodeOs>,

    /// The size of the snapshot in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(extend("exact-format" = "int64"))]
    pub snapshot_size: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// The volume that is filled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["namespace", "pv", "pvc"]))]
pub struct TargetVolumeSpec {
    /// The PersistentVolumeClaim.
    pub pvc: String,

    /// The PersistentVolume.
    pub pv: String,

    /// The namespace of the PersistentVolumeClaim.
    pub namespace: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// What has been observed of a DataDownload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataDownloadStatus {
    /// Where the transfer is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DataMovePhase>,

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

    /// The node that moves the data.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,

    /// The node that makes the volume reachable.
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

impl DataDownloadStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &DataMovePhase {
        self.phase.as_ref().unwrap_or(&DataMovePhase::New)
    }
}

//! PodVolumeRestore: moves the data of one pod volume back out of a repository.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    DataMoveOperationProgress, DataMovePhase,
    resource::PrinterColumn,
    wire::{UnknownFields, is_false, is_zero, null_as_default},
};

custom_resource! {
    /// PodVolumeRestore asks the node agent to fill one volume of one restored pod.
    PodVolumeRestore {
        version: "v1",
        plural: "podvolumerestores",
        short_names: ["pvr"],
        spec: PodVolumeRestoreSpec,
        status: PodVolumeRestoreStatus,
        columns: [
            PrinterColumn::text("Status", ".status.phase"),
            PrinterColumn::date("Started", ".status.startTimestamp"),
            PrinterColumn::bytes("Bytes Done", ".status.progress.bytesDone"),
            PrinterColumn::bytes("Total Bytes", ".status.progress.totalBytes"),
            PrinterColumn::text("Storage Location", ".spec.backupStorageLocation"),
            PrinterColumn::AGE,
            PrinterColumn::text("Node", ".status.node"),
            PrinterColumn::text("Uploader Type", ".spec.uploaderType"),
        ],
    }
}

/// The life of a PodVolumeRestore.
pub type PodVolumeRestorePhase = DataMovePhase;

/// Which volume to fill, and from where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = [
    "backupStorageLocation", "pod", "repoIdentifier", "snapshotID", "sourceNamespace", "volume",
]))]
pub struct PodVolumeRestoreSpec {
    /// The pod that has the volume.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(schema_with = "crate::schema::object_reference")]
    pub pod: ObjectReference,

    /// The name of the volume in the pod.
    pub volume: String,

    /// The BackupStorageLocation that holds the repository.
    pub backup_storage_location: String,

    /// The address of the repository; unused by the kopia format.
    pub repo_identifier: String,

    /// The uploader that moves the data.
    #[schemars(extend("enum" = ["kopia", "restic", ""]))]
    pub uploader_type: String,

    /// The snapshot in the repository.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,

    /// The namespace the volume was backed up from.
    pub source_namespace: String,

    /// Settings for the uploader.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub uploader_settings: BTreeMap<String, String>,

    /// Asks for the transfer to be cancelled.
    #[serde(skip_serializing_if = "is_false")]
    pub cancel: bool,

    /// The size of the snapshot in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(extend("exact-format" = "int64"))]
    pub snapshot_size: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// What has been observed of a PodVolumeRestore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodVolumeRestoreStatus {
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

    /// When a node took the transfer, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub accepted_timestamp: Option<Time>,

    /// The node that moves the data.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl PodVolumeRestoreStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &DataMovePhase {
        self.phase.as_ref().unwrap_or(&DataMovePhase::New)
    }
}

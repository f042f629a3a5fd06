//! DataUploadResult: the part of a finished DataUpload a restore needs, kept as JSON in a ConfigMap.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::NodeOs;
use crate::wire::{UnknownFields, is_zero};

/// What a DataDownload must know about the DataUpload before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataUploadResult {
    /// The BackupStorageLocation that holds the repository.
    pub backup_storage_location: String,

    /// The data mover; empty and `velero` mean the built-in one.
    #[serde(rename = "datamover", skip_serializing_if = "String::is_empty")]
    pub data_mover: String,

    /// The snapshot in the repository.
    #[serde(rename = "snapshotID", skip_serializing_if = "String::is_empty")]
    pub snapshot_id: String,

    /// The namespace the volume was backed up from.
    pub source_namespace: String,

    /// What the data mover wants to know at a restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_mover_result: Option<BTreeMap<String, String>>,

    /// The operating system of the node that moved the data.
    #[serde(rename = "nodeOS", skip_serializing_if = "Option::is_none")]
    pub node_os: Option<NodeOs>,

    /// The size of the snapshot in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub snapshot_size: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

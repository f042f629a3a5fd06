//! What the four data moving kinds (PodVolumeBackup, PodVolumeRestore, DataUpload, DataDownload) share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::{UnknownFields, is_zero};

string_enum! {
    /// The life of an object that moves volume data.
    DataMovePhase {
        /// Not looked at yet.
        New = "New",
        /// A node has taken it and is making the data reachable.
        Accepted = "Accepted",
        /// The data is reachable, the transfer may begin.
        Prepared = "Prepared",
        /// Data is being moved.
        InProgress = "InProgress",
        /// A cancel was asked for and is being carried out.
        Canceling = "Canceling",
        /// Ended by a cancel.
        Canceled = "Canceled",
        /// All data was moved.
        Completed = "Completed",
        /// Ended by an error.
        Failed = "Failed",
    }
}

impl DataMovePhase {
    /// Whether nothing happens any more.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Canceled | Self::Completed | Self::Failed)
    }
}

/// How far a data movement has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataMoveOperationProgress {
    /// Bytes to move, as far as known.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(extend("exact-format" = "int64"))]
    pub total_bytes: i64,

    /// Bytes moved so far.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(extend("exact-format" = "int64"))]
    pub bytes_done: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

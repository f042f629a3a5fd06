//! DownloadRequest: asks the server for a URL to a file beside a backup or restore.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resource::PrinterColumn;
use crate::wire::{UnknownFields, null_as_default};

custom_resource! {
    /// DownloadRequest asks for a URL from which a file of a backup or restore can be downloaded.
    DownloadRequest {
        version: "v1",
        plural: "downloadrequests",
        short_names: ["dreq"],
        spec: DownloadRequestSpec,
        status: DownloadRequestStatus,
        columns: [
            PrinterColumn::text("Target Kind", ".spec.target.kind"),
            PrinterColumn::text("Target Name", ".spec.target.name"),
            PrinterColumn::text("Status", ".status.phase"),
            PrinterColumn::AGE,
        ],
    }
}

/// What to download.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["target"]))]
pub struct DownloadRequestSpec {
    /// The file.
    #[serde(deserialize_with = "null_as_default")]
    pub target: DownloadTarget,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// The files that can be downloaded.
    DownloadTargetKind {
        /// The log of a backup.
        BackupLog = "BackupLog",
        /// The archive of a backup.
        BackupContents = "BackupContents",
        /// The native volume snapshots of a backup.
        BackupVolumeSnapshots = "BackupVolumeSnapshots",
        /// The asynchronous operations of a backup.
        BackupItemOperations = "BackupItemOperations",
        /// The names of the objects in a backup.
        BackupResourceList = "BackupResourceList",
        /// The errors and warnings of a backup.
        BackupResults = "BackupResults",
        /// The log of a restore.
        RestoreLog = "RestoreLog",
        /// The errors and warnings of a restore.
        RestoreResults = "RestoreResults",
        /// The names of the objects a restore dealt with.
        RestoreResourceList = "RestoreResourceList",
        /// The asynchronous operations of a restore.
        RestoreItemOperations = "RestoreItemOperations",
        /// The CSI VolumeSnapshots of a backup.
        CsiBackupVolumeSnapshots = "CSIBackupVolumeSnapshots",
        /// The CSI VolumeSnapshotContents of a backup.
        CsiBackupVolumeSnapshotContents = "CSIBackupVolumeSnapshotContents",
        /// What was done with each volume of a backup.
        BackupVolumeInfos = "BackupVolumeInfos",
        /// What was done with each volume of a restore.
        RestoreVolumeInfo = "RestoreVolumeInfo",
    }
}

impl DownloadTargetKind {
    /// Whether the file belongs to a restore rather than a backup.
    pub fn is_of_restore(&self) -> bool {
        self.as_str().starts_with("Restore")
    }
}

impl Default for DownloadTargetKind {
    /// The empty kind of a request that named none.
    fn default() -> Self {
        Self::Unknown(String::new())
    }
}

/// A kind of file and the backup or restore it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind", "name"]))]
pub struct DownloadTarget {
    /// The kind of file.
    pub kind: DownloadTargetKind,

    /// The name of the backup or restore.
    pub name: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// The life of a request.
    DownloadRequestPhase {
        /// Not looked at yet.
        New = "New",
        /// The URL is there.
        Processed = "Processed",
        /// There will be no URL; the message says why.
        Failed = "Failed",
    }
}

/// What has been observed of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DownloadRequestStatus {
    /// Where the request is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DownloadRequestPhase>,

    /// The signed URL of the file.
    #[serde(rename = "downloadURL", skip_serializing_if = "String::is_empty")]
    pub download_url: String,

    /// When the request is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub expiration: Option<Time>,

    /// Why the request failed; empty in every other phase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl DownloadRequestStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &DownloadRequestPhase {
        self.phase.as_ref().unwrap_or(&DownloadRequestPhase::New)
    }
}

//! DeleteBackupRequest: the order to delete a backup and all its data.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    labels, metadata,
    resource::PrinterColumn,
    v1::Backup,
    wire::{UnknownFields, null_as_default},
};

custom_resource! {
    /// DeleteBackupRequest asks the server to delete a backup with its data, snapshots and restores.
    DeleteBackupRequest {
        version: "v1",
        plural: "deletebackuprequests",
        short_names: ["dbr"],
        spec: DeleteBackupRequestSpec,
        status: DeleteBackupRequestStatus,
        columns: [
            PrinterColumn::text("BackupName", ".spec.backupName"),
            PrinterColumn::text("Status", ".status.phase"),
        ],
    }
}

impl DeleteBackupRequest {
    /// Asks for the deletion of a backup, and of no other that may have its name by then.
    pub fn of(backup: &Backup) -> Self {
        let name = metadata::name(backup);
        let spec = DeleteBackupRequestSpec { backup_name: name.to_owned(), ..DeleteBackupRequestSpec::default() };
        let mut request = Self { spec, ..Self::default() };
        request.metadata.namespace.clone_from(&backup.metadata.namespace);
        request.metadata.generate_name = Some(format!("{name}-"));
        request.metadata.labels = Some(BTreeMap::from([
            (labels::BACKUP_NAME.to_owned(), labels::valid_value(name)),
            (labels::BACKUP_UID.to_owned(), metadata::uid(backup).to_owned()),
        ]));
        request
    }
}

/// Which backup to delete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["backupName"]))]
pub struct DeleteBackupRequestSpec {
    /// The backup.
    pub backup_name: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// The life of a request.
    DeleteBackupRequestPhase {
        /// Not looked at yet.
        New = "New",
        /// The deletion runs.
        InProgress = "InProgress",
        /// The deletion has ended; errors, if any, are listed.
        Processed = "Processed",
    }
}

/// What has been observed of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteBackupRequestStatus {
    /// Where the request is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DeleteBackupRequestPhase>,

    /// What went wrong during the deletion.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub errors: Vec<String>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl DeleteBackupRequestStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &DeleteBackupRequestPhase {
        self.phase.as_ref().unwrap_or(&DeleteBackupRequestPhase::New)
    }
}

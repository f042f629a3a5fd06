//! BackupRepository: the repository that holds the volume data of one namespace.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    GoDuration,
    resource::PrinterColumn,
    wire::{UnknownFields, null_as_default},
};

custom_resource! {
    /// BackupRepository stands for the repository with the volume data of one namespace in one location.
    BackupRepository {
        version: "v1",
        plural: "backuprepositories",
        short_names: ["repo"],
        spec: BackupRepositorySpec,
        status: BackupRepositoryStatus,
        columns: [PrinterColumn::AGE, PrinterColumn::text("Repository Type", ".spec.repositoryType")],
    }
}

/// Which repository is meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["backupStorageLocation", "maintenanceFrequency", "volumeNamespace"]))]
pub struct BackupRepositorySpec {
    /// The namespace whose volumes are stored.
    pub volume_namespace: String,

    /// The BackupStorageLocation that holds the repository.
    pub backup_storage_location: String,

    /// The format of the repository.
    #[schemars(extend("enum" = ["kopia", "restic", ""]))]
    pub repository_type: String,

    /// Deprecated: the address of a restic repository.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub restic_identifier: String,

    /// How often maintenance runs.
    #[serde(deserialize_with = "null_as_default")]
    pub maintenance_frequency: GoDuration,

    /// Settings for the repository.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub repository_config: BTreeMap<String, String>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// The life of a repository.
    BackupRepositoryPhase {
        /// Not connected yet.
        New = "New",
        /// Connected and usable.
        Ready = "Ready",
        /// Not usable; the message says why.
        NotReady = "NotReady",
    }
}

/// What has been observed of a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupRepositoryStatus {
    /// Where the repository is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupRepositoryPhase>,

    /// Why it is not ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// When maintenance last succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub last_maintenance_time: Option<Time>,

    /// The latest maintenance runs, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub recent_maintenance: Vec<BackupRepositoryMaintenanceStatus>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl BackupRepositoryStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &BackupRepositoryPhase {
        self.phase.as_ref().unwrap_or(&BackupRepositoryPhase::New)
    }
}

string_enum! {
    /// How a maintenance run ended.
    BackupRepositoryMaintenanceResult {
        /// Without errors.
        Succeeded = "Succeeded",
        /// With an error; the message says which.
        Failed = "Failed",
    }
}

/// One maintenance run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupRepositoryMaintenanceStatus {
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<BackupRepositoryMaintenanceResult>,

    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub start_timestamp: Option<Time>,

    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub complete_timestamp: Option<Time>,

    /// Why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

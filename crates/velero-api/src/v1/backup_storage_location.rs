//! BackupStorageLocation: where backups are stored.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::SecretKeySelector,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    GoDuration,
    resource::PrinterColumn,
    wire::{UnknownFields, is_false, null_as_default},
};

custom_resource! {
    /// BackupStorageLocation is an object store, or a part of it, that holds backups.
    BackupStorageLocation {
        version: "v1",
        plural: "backupstoragelocations",
        short_names: ["bsl"],
        spec: BackupStorageLocationSpec,
        status: BackupStorageLocationStatus,
        columns: [
            PrinterColumn::text("Phase", ".status.phase"),
            PrinterColumn::date("Last Validated", ".status.lastValidationTime"),
            PrinterColumn::AGE,
            PrinterColumn::flag("Default", ".spec.default"),
        ],
    }
}

/// How to reach the object store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["objectStorage", "provider"]))]
pub struct BackupStorageLocationSpec {
    /// The provider of the object store, as in `aws`.
    pub provider: String,

    /// Settings for the provider.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub config: BTreeMap<String, String>,

    /// The Secret with the credentials; nothing means the server's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::secret_key_selector")]
    pub credential: Option<SecretKeySelector>,

    /// The bucket and the place inside it.
    #[serde(deserialize_with = "null_as_default")]
    pub object_storage: ObjectStorageLocation,

    /// Whether backups that name no location go here.
    #[serde(skip_serializing_if = "is_false")]
    pub default: bool,

    /// Whether backups may be written; nothing means ReadWrite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<BackupStorageLocationAccessMode>,

    /// How often backups found in the store are brought into the cluster; zero means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub backup_sync_period: Option<GoDuration>,

    /// How often the location is checked; zero means only once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub validation_frequency: Option<GoDuration>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// A bucket and the place inside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["bucket"]))]
pub struct ObjectStorageLocation {
    /// The bucket.
    pub bucket: String,

    /// The path inside the bucket; empty means its root.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,

    /// Deprecated: the CA bundle itself. Use caCertRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "byte"))]
    pub ca_cert: Option<ByteString>,

    /// The Secret with the CA bundle for TLS connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::secret_key_selector")]
    pub ca_cert_ref: Option<SecretKeySelector>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// Whether a location can be used.
    BackupStorageLocationPhase {
        /// It can be read and written.
        Available = "Available",
        /// It cannot be reached or used; the message says why.
        Unavailable = "Unavailable",
    }
}

string_enum! {
    /// What may be done with a location.
    BackupStorageLocationAccessMode {
        /// Backups may be restored from it, none are written or deleted.
        ReadOnly = "ReadOnly",
        /// Everything.
        ReadWrite = "ReadWrite",
    }
}

/// What has been observed of a location.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupStorageLocationStatus {
    /// Whether the location can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupStorageLocationPhase>,

    /// When its backups were last brought into the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub last_synced_time: Option<Time>,

    /// When it was last checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub last_validation_time: Option<Time>,

    /// Why it is unavailable.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// Deprecated and unused.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_synced_revision: String,

    /// Deprecated and unused; the access mode is in the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<BackupStorageLocationAccessMode>,

    /// What the phase says, as conditions that can be waited for.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl BackupStorageLocation {
    /// Whether backups may not be written or deleted here.
    pub fn is_read_only(&self) -> bool {
        self.spec.access_mode == Some(BackupStorageLocationAccessMode::ReadOnly)
    }

    /// Whether the last check found the location usable.
    pub fn is_available(&self) -> bool {
        self.status.phase == Some(BackupStorageLocationPhase::Available)
    }
}

//! Backup: what to capture from the cluster, and what became of it.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::TypedLocalObjectReference, apimachinery::pkg::apis::meta::v1::LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BackupHooks, BackupStatus};
use crate::{
    GoDuration,
    resource::PrinterColumn,
    wire::{UnknownFields, is_zero, null_as_default},
};

custom_resource! {
    /// Backup captures cluster state at one point in time: API objects and the data of their volumes.
    Backup {
        version: "v1",
        plural: "backups",
        short_names: ["bak"],
        spec: BackupSpec,
        status: BackupStatus,
        columns: [
            PrinterColumn::text("Status", ".status.phase"),
            PrinterColumn::number("Errors", ".status.errors"),
            PrinterColumn::number("Warnings", ".status.warnings"),
            PrinterColumn::date("Started", ".status.startTimestamp"),
            PrinterColumn::AGE,
        ],
    }
}

/// What a backup takes and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupSpec {
    /// Labels and annotations for the backups a schedule makes.
    #[serde(deserialize_with = "null_as_default")]
    pub metadata: Metadata,

    /// Namespaces to take objects from, as names or patterns; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub included_namespaces: Vec<String>,

    /// Namespaces to leave out, as names or patterns.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub excluded_namespaces: Vec<String>,

    /// Resource types to take; empty means all. Not together with the scoped lists.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub included_resources: Vec<String>,

    /// Resource types to leave out. Not together with the scoped lists.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub excluded_resources: Vec<String>,

    /// Cluster-scoped resource types to take; `*` takes all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub included_cluster_scoped_resources: Vec<String>,

    /// Cluster-scoped resource types to leave out; `*` leaves out all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub excluded_cluster_scoped_resources: Vec<String>,

    /// Namespace-scoped resource types to take; `*` or nothing takes all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub included_namespace_scoped_resources: Vec<String>,

    /// Namespace-scoped resource types to leave out; `*` leaves out all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub excluded_namespace_scoped_resources: Vec<String>,

    /// Takes only objects with matching labels. Not together with orLabelSelectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector", extend("nullable" = true))]
    pub label_selector: Option<LabelSelector>,

    /// Takes objects that match at least one of these. Not together with labelSelector.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "crate::schema::label_selectors", extend("nullable" = true))]
    pub or_label_selectors: Vec<LabelSelector>,

    /// Whether to snapshot the persistent volumes that belong to what is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub snapshot_volumes: Option<bool>,

    /// How long the backup is kept; zero means the server's default.
    #[serde(deserialize_with = "null_as_default")]
    pub ttl: GoDuration,

    /// The label whose value groups volumes that are snapshotted together.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_group_snapshot_label_key: String,

    /// Whether cluster-scoped objects are considered at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub include_cluster_resources: Option<bool>,

    /// Commands to run in pods around their backup.
    #[serde(deserialize_with = "null_as_default")]
    pub hooks: BackupHooks,

    /// The BackupStorageLocation to write to; empty means the default one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_location: String,

    /// The VolumeSnapshotLocations to use, at most one for each provider.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub volume_snapshot_locations: Vec<String>,

    /// Deprecated spelling of defaultVolumesToFsBackup.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub default_volumes_to_restic: Option<bool>,

    /// Whether pod volumes are backed up through the file system unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub default_volumes_to_fs_backup: Option<bool>,

    /// For a resource type, objects to take first, as a comma separated list of `namespace/name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub ordered_resources: BTreeMap<String, String>,

    /// How long to wait for a CSI snapshot to become ready; zero means ten minutes.
    #[serde(deserialize_with = "null_as_default")]
    pub csi_snapshot_timeout: GoDuration,

    /// How long asynchronous operations may take; zero means the server's default.
    #[serde(deserialize_with = "null_as_default")]
    pub item_operation_timeout: GoDuration,

    /// The ConfigMap with volume and resource policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::typed_local_object_reference")]
    pub resource_policy: Option<TypedLocalObjectReference>,

    /// Whether snapshot data is moved to the backup storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub snapshot_move_data: Option<bool>,

    /// The data mover; empty and `velero` mean the built-in one.
    #[serde(rename = "datamover", skip_serializing_if = "String::is_empty")]
    pub data_mover: String,

    /// Settings of the uploader.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub uploader_config: Option<UploaderConfigForBackup>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// The metadata a backup template may carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Labels for the backups made from the template.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,

    /// Annotations for the backups made from the template.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub annotations: BTreeMap<String, String>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// How the uploader works during a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UploaderConfigForBackup {
    /// How many files are uploaded at the same time.
    #[serde(skip_serializing_if = "is_zero")]
    pub parallel_files_upload: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

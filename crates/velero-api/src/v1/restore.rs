//! Restore: what to bring back from a backup, and what became of it.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::TypedLocalObjectReference, apimachinery::pkg::apis::meta::v1::LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RestoreHooks, RestoreStatus};
use crate::{
    GoDuration,
    resource::PrinterColumn,
    wire::{UnknownFields, is_zero, null_as_default},
};

custom_resource! {
    /// Restore brings objects and volume data of a backup back into the cluster.
    Restore {
        version: "v1",
        plural: "restores",
        short_names: ["rst"],
        spec: RestoreSpec,
        status: RestoreStatus,
        columns: [
            PrinterColumn::text("Backup", ".spec.backupName"),
            PrinterColumn::text("Status", ".status.phase"),
            PrinterColumn::number("Errors", ".status.errors"),
            PrinterColumn::number("Warnings", ".status.warnings"),
            PrinterColumn::AGE,
        ],
    }
}

/// What a restore brings back and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreSpec {
    /// The backup to restore from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub backup_name: String,

    /// The schedule whose latest successful backup is restored, when no backup is named.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub schedule_name: String,

    /// Namespaces to restore from, as names or patterns; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub included_namespaces: Vec<String>,

    /// Namespaces to leave out, as names or patterns.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub excluded_namespaces: Vec<String>,

    /// Resource types to restore; empty means all of the backup.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub included_resources: Vec<String>,

    /// Resource types to leave out.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub excluded_resources: Vec<String>,

    /// Other names for namespaces: from the name in the backup to the name in the cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub namespace_mapping: BTreeMap<String, String>,

    /// Restores only objects with matching labels. Not together with orLabelSelectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector", extend("nullable" = true))]
    pub label_selector: Option<LabelSelector>,

    /// Restores objects that match at least one of these. Not together with labelSelector.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "crate::schema::label_selectors", extend("nullable" = true))]
    pub or_label_selectors: Vec<LabelSelector>,

    /// Whether persistent volumes are restored from snapshots.
    #[serde(rename = "restorePVs", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub restore_pvs: Option<bool>,

    /// The resource types whose status is restored too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub restore_status: Option<RestoreStatusSpec>,

    /// Whether services keep their node ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub preserve_node_ports: Option<bool>,

    /// Whether cluster-scoped objects are restored at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub include_cluster_resources: Option<bool>,

    /// What to run in restored pods.
    #[serde(deserialize_with = "null_as_default")]
    pub hooks: RestoreHooks,

    /// What to do with an object that exists already: none or update.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("nullable" = true))]
    pub existing_resource_policy: Option<ExistingResourcePolicy>,

    /// How long asynchronous operations may take; zero means the server's default.
    #[serde(deserialize_with = "null_as_default")]
    pub item_operation_timeout: GoDuration,

    /// The ConfigMap with changes to make to objects on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::typed_local_object_reference", extend("nullable" = true))]
    pub resource_modifier: Option<TypedLocalObjectReference>,

    /// Whether the changes that the server makes in every restore are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub skip_default_resource_modifier: Option<bool>,

    /// The ConfigMap with resource policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::typed_local_object_reference", extend("nullable" = true))]
    pub resource_policy: Option<TypedLocalObjectReference>,

    /// Settings of the uploader.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub uploader_config: Option<UploaderConfigForRestore>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// What happens to an object that exists in the cluster already.
    ExistingResourcePolicy {
        /// It stays as it is.
        None = "none",
        /// It is changed to what the backup says, where possible.
        Update = "update",
    }
}

/// The resource types whose status is restored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreStatusSpec {
    /// Resource types whose status is restored.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub included_resources: Vec<String>,

    /// Resource types whose status is not restored.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub excluded_resources: Vec<String>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// How the uploader works during a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UploaderConfigForRestore {
    /// Whether blocks of zeros become holes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub write_sparse_files: Option<bool>,

    /// How many files are downloaded at the same time.
    #[serde(skip_serializing_if = "is_zero")]
    pub parallel_files_download: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

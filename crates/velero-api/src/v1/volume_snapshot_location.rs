//! VolumeSnapshotLocation: where native volume snapshots are taken.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretKeySelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resource::PrinterColumn;
use crate::wire::{UnknownFields, null_as_default};

custom_resource! {
    /// VolumeSnapshotLocation tells a provider where to take and keep native volume snapshots.
    VolumeSnapshotLocation {
        version: "v1",
        plural: "volumesnapshotlocations",
        short_names: ["vsl"],
        spec: VolumeSnapshotLocationSpec,
        status: VolumeSnapshotLocationStatus,
        columns: [
            PrinterColumn::text("Provider", ".spec.provider"),
            PrinterColumn::text("Phase", ".status.phase"),
            PrinterColumn::AGE,
        ],
    }
}

/// The provider and its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["provider"]))]
pub struct VolumeSnapshotLocationSpec {
    /// The provider of the volumes.
    pub provider: String,

    /// Settings for the provider.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub config: BTreeMap<String, String>,

    /// The Secret with the credentials; nothing means the server's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::secret_key_selector")]
    pub credential: Option<SecretKeySelector>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// Whether a location can be used.
    VolumeSnapshotLocationPhase {
        /// It can be used.
        Available = "Available",
        /// It cannot be used.
        Unavailable = "Unavailable",
    }
}

/// What has been observed of a location.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSnapshotLocationStatus {
    /// Whether the location can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<VolumeSnapshotLocationPhase>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

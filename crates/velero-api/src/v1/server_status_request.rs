//! ServerStatusRequest: asks the server who it is and whether it is ready.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resource::PrinterColumn;
use crate::wire::{UnknownFields, null_as_default};

/// The one request that is kept: it always shows the current status of the server.
pub const SERVER_STATUS_NAME: &str = "velero-server-status";

custom_resource! {
    /// ServerStatusRequest asks for the version, the plugins and the readiness of the server.
    ServerStatusRequest {
        version: "v1",
        plural: "serverstatusrequests",
        short_names: ["ssr"],
        spec: ServerStatusRequestSpec,
        status: ServerStatusRequestStatus,
        columns: [
            PrinterColumn::text("Status", ".status.phase"),
            PrinterColumn::text("Server Version", ".status.serverVersion"),
            PrinterColumn::date("Processed", ".status.processedTimestamp"),
            PrinterColumn::AGE,
        ],
    }
}

/// Nothing to choose yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerStatusRequestSpec {
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// The life of a request.
    ServerStatusRequestPhase {
        /// Not looked at yet.
        New = "New",
        /// The answer is there.
        Processed = "Processed",
    }
}

string_enum! {
    /// Whether the server can back up and restore, judged by its BackupStorageLocations.
    ServerStatus {
        /// All locations are available.
        Ready = "Ready",
        /// Some locations are available, others are not.
        PartiallyReady = "Partially Ready",
        /// No location is available.
        Waiting = "Waiting",
    }
}

/// A plugin the server has loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind", "name"]))]
pub struct PluginInfo {
    /// The name, as in `velero.io/pod`.
    pub name: String,

    /// What it does, as in `BackupItemAction`.
    pub kind: String,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// The answer of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerStatusRequestStatus {
    /// Where the request is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ServerStatusRequestPhase>,

    /// When the answer was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub processed_timestamp: Option<Time>,

    /// The version of the server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_version: String,

    /// Whether the server can back up and restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_status: Option<ServerStatus>,

    /// The plugins the server has loaded.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub plugins: Vec<PluginInfo>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl ServerStatusRequestStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &ServerStatusRequestPhase {
        self.phase.as_ref().unwrap_or(&ServerStatusRequestPhase::New)
    }
}

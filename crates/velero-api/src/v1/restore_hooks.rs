//! Commands and init containers that run in restored pods.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HookErrorMode;
use crate::{
    GoDuration,
    wire::{UnknownFields, null_as_default},
};

/// The hooks of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreHooks {
    /// Hooks that run when objects they select are restored.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<RestoreResourceHookSpec>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// A named group of hooks and the objects it is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct RestoreResourceHookSpec {
    /// The name of the group, for messages.
    pub name: String,

    /// Namespaces the hooks are for; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub included_namespaces: Vec<String>,

    /// Namespaces the hooks are not for.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub excluded_namespaces: Vec<String>,

    /// Resource types the hooks are for; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub included_resources: Vec<String>,

    /// Resource types the hooks are not for.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub excluded_resources: Vec<String>,

    /// The labels an object must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector", extend("nullable" = true))]
    pub label_selector: Option<LabelSelector>,

    /// Hooks to run once the object is restored.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub post_hooks: Vec<RestoreResourceHook>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// One hook: a command or init containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreResourceHook {
    /// The command to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecRestoreHook>,

    /// The init containers to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<InitRestoreHook>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// A command to run in a container of the restored pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["command"]))]
pub struct ExecRestoreHook {
    /// The container; empty means the first one of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container: String,

    /// The command and its arguments.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("minItems" = 1))]
    pub command: Vec<String>,

    /// What a failure means for the restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<HookErrorMode>,

    /// How long the command may run.
    #[serde(deserialize_with = "null_as_default")]
    pub exec_timeout: GoDuration,

    /// How long to wait for the container to be ready.
    #[serde(deserialize_with = "null_as_default")]
    pub wait_timeout: GoDuration,

    /// Whether to wait until the container is ready, not only running.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub wait_for_ready: Option<bool>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Init containers that are added to the restored pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InitRestoreHook {
    /// The containers, kept as they were given.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(schema_with = "crate::schema::raw_objects")]
    pub init_containers: Vec<serde_json::Value>,

    /// How long the init containers may take.
    #[serde(deserialize_with = "null_as_default")]
    pub timeout: GoDuration,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

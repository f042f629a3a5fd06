//! Commands that run inside pods before and after their backup.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    GoDuration,
    wire::{UnknownFields, null_as_default},
};

/// The hooks of a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupHooks {
    /// Hooks that run when objects they select are backed up.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub resources: Vec<BackupResourceHookSpec>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// A named group of hooks and the objects it is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct BackupResourceHookSpec {
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

    /// Hooks to run before the object is stored.
    #[serde(rename = "pre", skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub pre_hooks: Vec<BackupResourceHook>,

    /// Hooks to run after the object and its additional items are stored.
    #[serde(rename = "post", skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub post_hooks: Vec<BackupResourceHook>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// One hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["exec"]))]
pub struct BackupResourceHook {
    /// The command to run.
    #[serde(deserialize_with = "null_as_default")]
    pub exec: ExecHook,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// A command to run in a container of the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["command"]))]
pub struct ExecHook {
    /// The container; empty means the first one of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container: String,

    /// The command and its arguments.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("minItems" = 1))]
    pub command: Vec<String>,

    /// What a failure means for the backup; nothing means Continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<HookErrorMode>,

    /// How long the command may run; zero means 30 seconds.
    #[serde(deserialize_with = "null_as_default")]
    pub timeout: GoDuration,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// What a failing hook means.
    HookErrorMode {
        /// The error is recorded and the work goes on.
        Continue = "Continue",
        /// The error is recorded and the object is given up.
        Fail = "Fail",
    }
}

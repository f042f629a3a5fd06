//! What became of a restore.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Ending, HookStatus, Stage};
use crate::wire::{UnknownFields, is_zero, null_as_default};

string_enum! {
    /// The life of a restore.
    RestorePhase {
        /// Not looked at yet.
        New = "New",
        /// Refused: the spec cannot be carried out.
        FailedValidation = "FailedValidation",
        /// Running.
        InProgress = "InProgress",
        /// Objects are restored, asynchronous operations still run.
        WaitingForPluginOperations = "WaitingForPluginOperations",
        /// As before, with errors so far.
        WaitingForPluginOperationsPartiallyFailed = "WaitingForPluginOperationsPartiallyFailed",
        /// Done without errors.
        Completed = "Completed",
        /// Done, with errors on single items.
        PartiallyFailed = "PartiallyFailed",
        /// Ended by an error.
        Failed = "Failed",
        /// Operations are done, the last changes are made.
        Finalizing = "Finalizing",
        /// As before, with errors so far.
        FinalizingPartiallyFailed = "FinalizingPartiallyFailed",
    }
}

impl RestorePhase {
    /// Whether the restore has ended, with or without success.
    pub fn is_terminal(&self) -> bool {
        self.ending().is_some()
    }

    /// How the restore has ended; nothing while it has not.
    pub fn ending(&self) -> Option<Ending> {
        self.stage().ending()
    }

    /// How far the restore has come.
    pub fn stage(&self) -> Stage {
        match self {
            Self::New => Stage::Pending,
            Self::InProgress => Stage::InProgress,
            Self::WaitingForPluginOperations | Self::WaitingForPluginOperationsPartiallyFailed => {
                Stage::WaitingForOperations
            }
            Self::Finalizing | Self::FinalizingPartiallyFailed => Stage::Finalizing,
            Self::FailedValidation => Stage::Ended(Ending::FailedValidation),
            Self::Completed => Stage::Ended(Ending::Completed),
            Self::PartiallyFailed => Stage::Ended(Ending::PartiallyFailed),
            Self::Failed => Stage::Ended(Ending::Failed),
            Self::Unknown(_) => Stage::Unknown,
        }
    }
}

/// What has been observed of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreStatus {
    /// Where the restore is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,

    /// Why the restore was refused.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub validation_errors: Vec<String>,

    /// How many warnings there are; the texts are in the results file.
    #[serde(skip_serializing_if = "is_zero")]
    pub warnings: i64,

    /// How many errors there are; the texts are in the results file.
    #[serde(skip_serializing_if = "is_zero")]
    pub errors: i64,

    /// The error that ended the whole restore.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_reason: String,

    /// When the restore started, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub start_timestamp: Option<Time>,

    /// When the restore ended, by the server's clock, failed ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub completion_timestamp: Option<Time>,

    /// How far the restore has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub progress: Option<RestoreProgress>,

    /// Asynchronous operations that were started.
    #[serde(skip_serializing_if = "is_zero")]
    pub restore_item_operations_attempted: i64,

    /// Asynchronous operations that succeeded.
    #[serde(skip_serializing_if = "is_zero")]
    pub restore_item_operations_completed: i64,

    /// Asynchronous operations that failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub restore_item_operations_failed: i64,

    /// How the hooks went.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub hook_status: Option<HookStatus>,

    /// What the phase says, as conditions that can be waited for.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl RestoreStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &RestorePhase {
        self.phase.as_ref().unwrap_or(&RestorePhase::New)
    }
}

/// How far a restore has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreProgress {
    /// Items to restore, as far as known; additional items make it grow.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_items: i64,

    /// Items dealt with so far.
    #[serde(skip_serializing_if = "is_zero")]
    pub items_restored: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_answer_as_agreed() {
        let those = |is: fn(Stage) -> bool| -> Vec<&str> {
            RestorePhase::ALL.iter().filter(|phase| is(phase.stage())).map(RestorePhase::as_str).collect()
        };
        let operations = "WaitingForPluginOperations WaitingForPluginOperationsPartiallyFailed";
        let finalizing = "Finalizing FinalizingPartiallyFailed";
        let ends = "Completed PartiallyFailed Failed";
        let ended = |stage: Stage| stage.ending().is_some();
        for (found, expected) in [
            (those(Stage::has_items_to_come), "New InProgress".to_owned()),
            (those(Stage::is_under_way), format!("InProgress {operations} {finalizing}")),
            (those(Stage::has_log), format!("{operations} {ends} {finalizing}")),
            (those(Stage::has_begun), format!("InProgress {operations} {ends} {finalizing}")),
            (those(ended), format!("FailedValidation {ends}")),
        ] {
            assert_eq!(found.join(" "), expected);
        }
    }
}

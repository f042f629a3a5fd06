//! What became of a backup.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Ending, Stage};
use crate::wire::{UnknownFields, is_zero, null_as_default};

string_enum! {
    /// The life of a backup.
    BackupPhase {
        /// Not looked at yet.
        New = "New",
        /// Waiting for its turn.
        Queued = "Queued",
        /// Its turn has come.
        ReadyToStart = "ReadyToStart",
        /// Refused: the spec cannot be carried out.
        FailedValidation = "FailedValidation",
        /// Running.
        InProgress = "InProgress",
        /// Objects are stored, asynchronous operations still run.
        WaitingForPluginOperations = "WaitingForPluginOperations",
        /// As before, with errors so far.
        WaitingForPluginOperationsPartiallyFailed = "WaitingForPluginOperationsPartiallyFailed",
        /// Operations are done, objects they changed are stored again.
        Finalizing = "Finalizing",
        /// As before, with errors so far.
        FinalizingPartiallyFailed = "FinalizingPartiallyFailed",
        /// Done without errors.
        Completed = "Completed",
        /// Done, with errors on single items.
        PartiallyFailed = "PartiallyFailed",
        /// Ended by an error; cannot be restored.
        Failed = "Failed",
        /// The backup and its data are being deleted.
        Deleting = "Deleting",
    }
}

impl BackupPhase {
    /// Whether the backup has ended, with or without success.
    pub fn is_terminal(&self) -> bool {
        self.ending().is_some()
    }

    /// How the backup has ended; nothing while it has not.
    pub fn ending(&self) -> Option<Ending> {
        self.stage().ending()
    }

    /// How far the backup has come.
    pub fn stage(&self) -> Stage {
        match self {
            Self::New | Self::Queued | Self::ReadyToStart => Stage::Pending,
            Self::InProgress => Stage::InProgress,
            Self::WaitingForPluginOperations | Self::WaitingForPluginOperationsPartiallyFailed => {
                Stage::WaitingForOperations
            }
            Self::Finalizing | Self::FinalizingPartiallyFailed => Stage::Finalizing,
            Self::FailedValidation => Stage::Ended(Ending::FailedValidation),
            Self::Completed => Stage::Ended(Ending::Completed),
            Self::PartiallyFailed => Stage::Ended(Ending::PartiallyFailed),
            Self::Failed => Stage::Ended(Ending::Failed),
            Self::Deleting => Stage::Deleting,
            Self::Unknown(_) => Stage::Unknown,
        }
    }

    /// Whether the backup can be restored.
    pub fn is_restorable(&self) -> bool {
        match self.ending() {
            Some(Ending::Completed | Ending::PartiallyFailed) => true,
            Some(Ending::FailedValidation | Ending::Failed) | None => false,
        }
    }
}

/// What has been observed of a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupStatus {
    /// Deprecated: the major number of formatVersion.
    #[serde(skip_serializing_if = "is_zero")]
    pub version: i64,

    /// The version of the backup format, as in `1.1.0`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub format_version: String,

    /// When the backup may be garbage collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub expiration: Option<Time>,

    /// Where the backup is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupPhase>,

    /// The place in the queue while the phase is Queued.
    #[serde(skip_serializing_if = "is_zero")]
    pub queue_position: i64,

    /// Why the backup was refused.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("nullable" = true))]
    pub validation_errors: Vec<String>,

    /// When the backup started, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub start_timestamp: Option<Time>,

    /// When the backup ended, by the server's clock, failed ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub completion_timestamp: Option<Time>,

    /// Native volume snapshots that were tried.
    #[serde(skip_serializing_if = "is_zero")]
    pub volume_snapshots_attempted: i64,

    /// Native volume snapshots that succeeded.
    #[serde(skip_serializing_if = "is_zero")]
    pub volume_snapshots_completed: i64,

    /// The error that ended the whole backup.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_reason: String,

    /// How many warnings there are; the texts are in the results file.
    #[serde(skip_serializing_if = "is_zero")]
    pub warnings: i64,

    /// How many errors there are; the texts are in the results file.
    #[serde(skip_serializing_if = "is_zero")]
    pub errors: i64,

    /// How far the backup has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub progress: Option<BackupProgress>,

    /// CSI snapshots that were tried.
    #[serde(skip_serializing_if = "is_zero")]
    pub csi_volume_snapshots_attempted: i64,

    /// CSI snapshots that succeeded.
    #[serde(skip_serializing_if = "is_zero")]
    pub csi_volume_snapshots_completed: i64,

    /// Asynchronous operations that were started.
    #[serde(skip_serializing_if = "is_zero")]
    pub backup_item_operations_attempted: i64,

    /// Asynchronous operations that succeeded.
    #[serde(skip_serializing_if = "is_zero")]
    pub backup_item_operations_completed: i64,

    /// Asynchronous operations that failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub backup_item_operations_failed: i64,

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

impl BackupStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &BackupPhase {
        self.phase.as_ref().unwrap_or(&BackupPhase::New)
    }
}

/// How far a backup has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupProgress {
    /// Items to back up, as far as known; additional items make it grow.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_items: i64,

    /// Items written to the archive so far.
    #[serde(skip_serializing_if = "is_zero")]
    pub items_backed_up: i64,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// How the hooks of a backup or restore went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HookStatus {
    /// Hooks that ran, whether they failed or not.
    #[serde(skip_serializing_if = "is_zero")]
    pub hooks_attempted: i64,

    /// Hooks that failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub hooks_failed: i64,

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
            BackupPhase::ALL.iter().filter(|phase| is(phase.stage())).map(BackupPhase::as_str).collect()
        };
        let operations = "WaitingForPluginOperations WaitingForPluginOperationsPartiallyFailed";
        let finalizing = "Finalizing FinalizingPartiallyFailed";
        let ends = "Completed PartiallyFailed Failed";
        let ended = |stage: Stage| stage.ending().is_some();
        for (found, expected) in [
            (those(Stage::has_items_to_come), "New Queued ReadyToStart InProgress".to_owned()),
            (those(Stage::is_under_way), format!("InProgress {operations} {finalizing}")),
            (those(Stage::has_log), format!("{operations} {finalizing} {ends}")),
            (those(Stage::has_begun), format!("InProgress {operations} {finalizing} {ends} Deleting")),
            (those(ended), format!("FailedValidation {ends}")),
        ] {
            assert_eq!(found.join(" "), expected);
        }
        let restorable: Vec<_> = BackupPhase::ALL.iter().filter(|phase| phase.is_restorable()).collect();
        assert_eq!(restorable, [&BackupPhase::Completed, &BackupPhase::PartiallyFailed]);
    }

    #[test]
    fn an_unknown_phase_has_begun_and_promises_nothing() {
        let stage = BackupPhase::Unknown("Uploading".to_owned()).stage();
        assert!(stage.has_begun() && !stage.has_log() && !stage.is_under_way() && stage.ending().is_none());
    }
}

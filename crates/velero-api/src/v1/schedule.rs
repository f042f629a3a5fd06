//! Schedule: backups made again and again by a cron expression.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BackupSpec;
use crate::{
    resource::PrinterColumn,
    wire::{UnknownFields, is_false, null_as_default},
};

custom_resource! {
    /// Schedule makes a backup from a template whenever its cron expression says so.
    Schedule {
        version: "v1",
        plural: "schedules",
        short_names: ["sched"],
        spec: ScheduleSpec,
        status: ScheduleStatus,
        columns: [
            PrinterColumn::text("Status", ".status.phase"),
            PrinterColumn::text("Schedule", ".spec.schedule"),
            PrinterColumn::date("LastBackup", ".status.lastBackup"),
            PrinterColumn::AGE,
            PrinterColumn::flag("Paused", ".spec.paused"),
        ],
    }
}

/// When to back up and what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["schedule", "template"]))]
pub struct ScheduleSpec {
    /// The spec of the backups.
    #[serde(deserialize_with = "null_as_default")]
    pub template: BackupSpec,

    /// The cron expression.
    pub schedule: String,

    /// Whether the backups are owned by the schedule, and so deleted with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub use_owner_references_in_backup: Option<bool>,

    /// Whether no backups are made for now.
    #[serde(skip_serializing_if = "is_false")]
    pub paused: bool,

    /// Whether a backup that is due at once is left out when the schedule starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_immediately: Option<bool>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// The life of a schedule.
    SchedulePhase {
        /// Not looked at yet.
        New = "New",
        /// Valid: backups are made when due.
        Enabled = "Enabled",
        /// Refused: no backups are made.
        FailedValidation = "FailedValidation",
    }
}

/// What has been observed of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScheduleStatus {
    /// Where the schedule is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SchedulePhase>,

    /// When the last backup was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub last_backup: Option<Time>,

    /// When a due backup was last left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub last_skipped: Option<Time>,

    /// Why the schedule was refused.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub validation_errors: Vec<String>,

    /// What the phase says, as conditions that can be waited for.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,

    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl ScheduleStatus {
    /// The phase, New when none was written yet.
    pub fn phase(&self) -> &SchedulePhase {
        self.phase.as_ref().unwrap_or(&SchedulePhase::New)
    }
}

//! `velero schedule …`

use clap::{Args, Subcommand};

use super::backup::BackupContent;
use super::shared::{DeleteArguments, GetArguments, ListArguments, OutputArguments, SelectArguments};
use super::values::OptionalBool;

/// The commands on schedules.
#[derive(Subcommand, Debug)]
pub(crate) enum ScheduleCommand {
    /// Create a schedule
    Create(Box<ScheduleCreateArguments>),
    /// Get schedules
    Get(GetArguments),
    /// Describe schedules
    Describe(ListArguments),
    /// Delete schedules
    Delete(DeleteArguments),
    /// Pause schedules
    Pause(SchedulePauseArguments),
    /// Unpause schedules
    Unpause(SchedulePauseArguments),
}

/// `velero schedule create`
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The schedule is a cron expression in UTC, with the fields minute (0-59), hour (0-23), day of month
(1-31), month (1-12) and day of week (0-6), or '@every <duration>', as in '@every 2h30m'.

Examples:
  velero schedule create six-hourly --schedule=\"0 */6 * * *\"
  velero schedule create daily --schedule=\"@every 24h\" --include-namespaces web
  velero schedule create weekly --schedule=\"@every 168h\" --ttl 2160h0m0s"
)]
pub(crate) struct ScheduleCreateArguments {
    /// Name of the schedule
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) content: BackupContent,

    /// A cron expression specifying a recurring schedule for this backup to run
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) schedule: String,

    /// Let the schedule own its backups: when it is deleted, they are deleted too
    #[arg(long)]
    pub(crate) use_owner_references_in_backup: bool,

    /// Create the schedule paused
    #[arg(long)]
    pub(crate) paused: bool,

    /// Skip the next scheduled backup immediately
    #[arg(long, value_name = "BOOL")]
    pub(crate) skip_immediately: Option<OptionalBool>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// `velero schedule pause` and `unpause`
#[derive(Args, Clone, Debug)]
pub(crate) struct SchedulePauseArguments {
    #[command(flatten)]
    pub(crate) select: SelectArguments,

    /// Skip the next scheduled backup immediately
    #[arg(long, value_name = "BOOL")]
    pub(crate) skip_immediately: Option<OptionalBool>,
}

//! `velero report`

use clap::{Args, ValueEnum};
use velero_report::Period;

/// `velero report`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  velero report
  velero report --since 30d -o html > backups-of-march.html
  velero report -o json | jq '.summary'")]
pub(crate) struct ReportArguments {
    /// How far back the report looks: 7d, 2w or 36h
    #[arg(long, default_value = "7d")]
    pub(crate) since: Period,

    /// The form of the report
    #[arg(short, long, value_enum, default_value_t = ReportForm::Table)]
    pub(crate) output: ReportForm,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportForm {
    /// For people at a terminal
    Table,
    /// For scripts
    Json,
    /// A page that stands alone
    Html,
}

//! Flags that several commands have in common.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use velero_api::GoDuration;

use super::values::{StringList, parse_selector};

/// How objects are shown.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OutputArguments {
    /// Output display format: table, json or yaml. Create commands show the object and do not send it
    #[arg(short, long)]
    pub(crate) output: Option<String>,

    /// Comma separated list of labels to show as columns
    #[arg(short = 'L', long)]
    pub(crate) label_columns: Option<StringList>,

    /// Show labels in the last column
    #[arg(long)]
    pub(crate) show_labels: bool,
}

/// Which objects a `get` or `describe` shows.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListArguments {
    /// Names of the objects; none means all
    pub(crate) names: Vec<String>,

    /// Only show items matching this label selector
    #[arg(short = 'l', long, default_value = "", hide_default_value = true)]
    pub(crate) selector: String,
}

/// A `get` command.
#[derive(Args, Clone, Debug)]
pub(crate) struct GetArguments {
    #[command(flatten)]
    pub(crate) list: ListArguments,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Which objects a command works on: exactly one of names, `--all` and `--selector`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SelectArguments {
    /// Names of the objects
    pub(crate) names: Vec<String>,

    /// Take all of them
    #[arg(long)]
    pub(crate) all: bool,

    /// Take all that match this label selector
    #[arg(short = 'l', long, value_parser = parse_selector)]
    pub(crate) selector: Option<LabelSelector>,
}

/// A `delete` command.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArguments {
    #[command(flatten)]
    pub(crate) select: SelectArguments,

    /// Confirm deletion
    #[arg(long)]
    pub(crate) confirm: bool,
}

/// A `cancel` command.
#[derive(Args, Clone, Debug)]
pub(crate) struct CancelArguments {
    #[command(flatten)]
    pub(crate) select: SelectArguments,

    /// Do not ask before all, or all that match a selector, are cancelled; named ones are not asked about
    #[arg(long)]
    pub(crate) confirm: bool,

    /// Wait until they have ended
    #[arg(short, long)]
    pub(crate) wait: bool,

    /// With --wait, how long to wait for each
    #[arg(long, default_value = "10m0s")]
    pub(crate) timeout: GoDuration,
}

/// How files are fetched from the object store.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct DownloadArguments {
    /// Do not check the object store's TLS certificate. Insecure, not recommended for production
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,

    /// Path to a certificate bundle to use when verifying TLS connections; by default the one of the location
    #[arg(long)]
    pub(crate) cacert: Option<PathBuf>,
}

/// Whether a command waits for what it has begun.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WaitArguments {
    /// Wait for the operation to complete
    #[arg(short, long)]
    pub(crate) wait: bool,

    /// With --wait, end with 0 only if it is Completed: 2 means PartiallyFailed, 3 Failed, 4 FailedValidation, 5 another end, 1
    /// that it could not be begun or waited for
    #[arg(long)]
    pub(crate) exit_status: bool,
}

impl WaitArguments {
    /// Refuses what cannot be done.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            self.wait || !self.exit_status,
            "--exit-status tells how the work ended, for which --wait must be given too"
        );
        Ok(())
    }
}

/// A `logs` command.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogsArguments {
    /// Name of the backup or restore
    pub(crate) name: String,

    /// How long to wait to receive logs
    #[arg(long, default_value = "1m0s")]
    pub(crate) timeout: GoDuration,

    #[command(flatten)]
    pub(crate) download: DownloadArguments,
}

/// A `describe` command that reads files of the object store.
#[derive(Args, Clone, Debug)]
pub(crate) struct DescribeArguments {
    #[command(flatten)]
    pub(crate) list: ListArguments,

    /// Display additional detail in the command output
    #[arg(long)]
    pub(crate) details: bool,

    #[command(flatten)]
    pub(crate) download: DownloadArguments,
}

/// How long to wait for the server's answer.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArguments {
    /// Maximum time to wait for the server to answer
    #[arg(long, default_value = "5s")]
    pub(crate) timeout: GoDuration,
}

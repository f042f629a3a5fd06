//! `velero repo-maintenance`

use clap::Args;
use velero_controllers::server::LogFormat;

/// `velero repo-maintenance`
#[derive(Args, Clone, Debug)]
pub(crate) struct RepoMaintenanceArguments {
    /// The namespace whose volumes the repository holds
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) repo_name: String,

    /// The backup storage location the repository is in
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) backup_storage_location: String,

    /// The type of the repository
    #[arg(long, default_value = "kopia")]
    pub(crate) repo_type: String,

    /// The level at which to log: trace, debug, info, warning, error, fatal or panic
    #[arg(long, default_value = "info")]
    pub(crate) log_level: String,

    /// The format for log output: text or json
    #[arg(long, default_value = "text")]
    pub(crate) log_format: LogFormat,
}

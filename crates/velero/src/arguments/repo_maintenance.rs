//! `velero repo-maintenance`

use clap::Args;
use velero_controllers::server::LogSettings;

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

    #[command(flatten)]
    pub(crate) log: LogSettings,
}

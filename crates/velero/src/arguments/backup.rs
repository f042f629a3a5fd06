//! `velero backup …`

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use velero_api::GoDuration;

use super::shared::{
    CancelArguments, DeleteArguments, DescribeArguments, DownloadArguments, GetArguments, LogsArguments,
    OutputArguments, WaitArguments,
};
use super::values::{KeyValues, OptionalBool, OrSelectors, StringList, parse_selector};

/// The commands on backups.
#[derive(Subcommand, Debug)]
pub(crate) enum BackupCommand {
    /// Create a backup
    Create(Box<BackupCreateArguments>),
    /// Get backups
    Get(GetArguments),
    /// Get backup logs
    Logs(LogsArguments),
    /// Describe backups
    Describe(BackupDescribeArguments),
    /// Download all Kubernetes manifests for a backup
    ///
    /// Contents of persistent volume snapshots are not included.
    Download(BackupDownloadArguments),
    /// Cancel backups that are not done: they end as Failed, and nothing of them stays but their log
    Cancel(CancelArguments),
    /// Delete backups
    Delete(DeleteArguments),
}

/// `velero backup create`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  velero backup create everything
  velero backup create web --include-namespaces web,database --ttl 168h
  velero backup create --from-schedule daily
  velero backup create looked-at --snapshot-volumes=false -o yaml
  velero backup create awaited --wait")]
pub(crate) struct BackupCreateArguments {
    /// Name of the backup; optional with --from-schedule
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) content: BackupContent,

    #[command(flatten)]
    pub(crate) waiting: WaitArguments,

    /// Take the backup again, at most twice, should the server be interrupted while it runs; backups of schedules are
    /// in any case
    #[arg(long)]
    pub(crate) retry_interrupted: bool,

    /// Create a backup from the template of an existing schedule; all other filters are ignored
    #[arg(long)]
    pub(crate) from_schedule: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// What a backup takes and how, for a backup and for the template of a schedule.
#[derive(Args, Clone, Debug)]
pub(crate) struct BackupContent {
    /// How long before the backup can be garbage collected
    #[arg(long, default_value = "0s", hide_default_value = true, allow_negative_numbers = true)]
    pub(crate) ttl: GoDuration,

    /// Namespaces to include in the backup (use '*' for all namespaces)
    #[arg(long, default_value = "*")]
    pub(crate) include_namespaces: StringList,

    /// Namespaces to exclude from the backup
    #[arg(long)]
    pub(crate) exclude_namespaces: Option<StringList>,

    /// Resources to include, as resource.group (use '*' for all). Not together with the scoped flags
    #[arg(long)]
    pub(crate) include_resources: Option<StringList>,

    /// Resources to exclude, as resource.group. Not together with the scoped flags
    #[arg(long)]
    pub(crate) exclude_resources: Option<StringList>,

    /// Cluster-scoped resources to include, as resource.group (use '*' for all)
    #[arg(long)]
    pub(crate) include_cluster_scoped_resources: Option<StringList>,

    /// Cluster-scoped resources to exclude, as resource.group (use '*' for all)
    #[arg(long)]
    pub(crate) exclude_cluster_scoped_resources: Option<StringList>,

    /// Namespaced resources to include, as resource.group (use '*' for all)
    #[arg(long)]
    pub(crate) include_namespace_scoped_resources: Option<StringList>,

    /// Namespaced resources to exclude, as resource.group (use '*' for all)
    #[arg(long)]
    pub(crate) exclude_namespace_scoped_resources: Option<StringList>,

    /// Labels to apply to the backup
    #[arg(long, action = ArgAction::Append)]
    pub(crate) labels: Vec<KeyValues>,

    /// Annotations to apply to the backup
    #[arg(long, action = ArgAction::Append)]
    pub(crate) annotations: Vec<KeyValues>,

    /// Location in which to store the backup
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) storage_location: String,

    /// List of locations (at most one per provider) where volume snapshots should be stored
    #[arg(long, action = ArgAction::Append, value_delimiter = ',')]
    pub(crate) volume_snapshot_locations: Vec<String>,

    /// Only back up resources matching this label selector
    #[arg(short = 'l', long, value_parser = parse_selector)]
    pub(crate) selector: Option<LabelSelector>,

    /// Back up resources matching at least one of the label selectors, separated by ' or '
    #[arg(long)]
    pub(crate) or_selector: Option<OrSelectors>,

    /// Resources to back up first, as 'pods=ns1/pod1,ns1/pod2;persistentvolumes=pv4,pv8'
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) ordered_resources: String,

    /// How long to wait for CSI snapshot creation before timeout
    #[arg(long, default_value = "0s", hide_default_value = true)]
    pub(crate) csi_snapshot_timeout: GoDuration,

    /// How long to wait for async plugin operations before timeout
    #[arg(long, default_value = "0s", hide_default_value = true)]
    pub(crate) item_operation_timeout: GoDuration,

    /// Take snapshots of PersistentVolumes as part of the backup; not set means yes
    #[arg(long, default_value = "")]
    pub(crate) snapshot_volumes: OptionalBool,

    /// Whether snapshot data should be moved
    #[arg(long, default_value = "")]
    pub(crate) snapshot_move_data: OptionalBool,

    /// Include cluster-scoped resources in the backup. Not together with the scoped flags
    #[arg(long, default_value = "")]
    pub(crate) include_cluster_resources: OptionalBool,

    /// Use pod volume file system backup by default for volumes
    #[arg(long, default_value = "")]
    pub(crate) default_volumes_to_fs_backup: OptionalBool,

    /// ConfigMap with the resource policies of the backup
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) resource_policies_configmap: String,

    /// The data mover of the backup; not set or 'velero' means the built-in one
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) data_mover: String,

    /// Number of files uploaded at the same time
    #[arg(long, default_value = "0", hide_default_value = true, allow_negative_numbers = true)]
    pub(crate) parallel_files_upload: i64,
}

/// `velero backup describe`
#[derive(Args, Clone, Debug)]
pub(crate) struct BackupDescribeArguments {
    #[command(flatten)]
    pub(crate) describe: DescribeArguments,

    /// Output display format: plaintext, or json for a single backup
    #[arg(short, long, default_value = "plaintext")]
    pub(crate) output: String,
}

/// `velero backup download`
#[derive(Args, Clone, Debug)]
pub(crate) struct BackupDownloadArguments {
    /// Name of the backup
    pub(crate) name: String,

    /// Path to output file; by default <NAME>-data.tar.gz in the current directory
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the file if it exists already
    #[arg(long)]
    pub(crate) force: bool,

    /// Maximum time to wait to process download request
    #[arg(long, default_value = "1m0s")]
    pub(crate) timeout: GoDuration,

    #[command(flatten)]
    pub(crate) download: DownloadArguments,
}

//! `velero restore …`

use clap::{ArgAction, Args, Subcommand};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use velero_api::GoDuration;

use super::shared::{
    CancelArguments, DeleteArguments, DescribeArguments, GetArguments, LogsArguments, OutputArguments, WaitArguments,
};
use super::values::{KeyValues, Mappings, OptionalBool, OrSelectors, StringList, parse_selector};

/// The commands on restores.
#[derive(Subcommand, Debug)]
pub(crate) enum RestoreCommand {
    /// Create a restore
    Create(Box<RestoreCreateArguments>),
    /// Get restores
    Get(GetArguments),
    /// Get restore logs
    Logs(LogsArguments),
    /// Describe restores
    Describe(DescribeArguments),
    /// Cancel restores that are not done: what was restored stays, and the results say what was not
    Cancel(CancelArguments),
    /// Delete restores
    Delete(DeleteArguments),
}

/// The flags that say what is restored and how: a restore that goes on with another asks for what that one did.
const RESUMED: [&str; 23] = [
    "from_backup",
    "from_schedule",
    "include_namespaces",
    "exclude_namespaces",
    "namespace_mappings",
    "include_resources",
    "exclude_resources",
    "existing_resource_policy",
    "status_include_resources",
    "status_exclude_resources",
    "selector",
    "or_selector",
    "item_operation_timeout",
    "restore_volumes",
    "preserve_nodeports",
    "include_cluster_resources",
    "allow_partially_failed",
    "dry_run",
    "resource_modifier_configmap",
    "skip_default_resource_modifier",
    "resource_policies_configmap",
    "write_sparse_files",
    "parallel_files_download",
];

/// `velero restore create`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  velero restore create restore-1 --from-backup backup-1
  velero restore create --from-backup backup-1 --namespace-mappings web:web-copy
  velero restore create --from-backup backup-1 --existing-resource-policy update --dry-run
  velero restore create --from-schedule daily --allow-partially-failed
  velero restore create --resume restore-1 --wait
  velero restore create --from-backup backup-2 --include-resources persistentvolumeclaims,persistentvolumes")]
pub(crate) struct RestoreCreateArguments {
    /// Name of the restore; by default the backup or schedule and the time
    pub(crate) name: Option<String>,

    /// Backup to restore from
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) from_backup: String,

    /// Schedule to restore from: its latest backup
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) from_schedule: String,

    /// Restore to go on with that was interrupted, cancelled, or ended with errors: it is asked for once more, what it made and
    /// is equal is passed over, and data that never came is brought
    #[arg(long, value_name = "RESTORE", conflicts_with_all = RESUMED)]
    pub(crate) resume: Option<String>,

    /// Namespaces to include in the restore (use '*' for all namespaces)
    #[arg(long, default_value = "*")]
    pub(crate) include_namespaces: StringList,

    /// Namespaces to exclude from the restore
    #[arg(long)]
    pub(crate) exclude_namespaces: Option<StringList>,

    /// Other names for namespaces, from the name in the backup to the restored name: src1:dst1,src2:dst2
    #[arg(long, action = ArgAction::Append)]
    pub(crate) namespace_mappings: Vec<Mappings>,

    /// Labels to apply to the restore
    #[arg(long, action = ArgAction::Append)]
    pub(crate) labels: Vec<KeyValues>,

    /// Annotations to apply to the restore
    #[arg(long, action = ArgAction::Append)]
    pub(crate) annotations: Vec<KeyValues>,

    /// Resources to include, as resource.group (use '*' for all)
    #[arg(long)]
    pub(crate) include_resources: Option<StringList>,

    /// Resources to exclude, as resource.group
    #[arg(long)]
    pub(crate) exclude_resources: Option<StringList>,

    /// What to do with objects that exist already: none or update
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) existing_resource_policy: String,

    /// Resources whose status is restored, as resource.group
    #[arg(long)]
    pub(crate) status_include_resources: Option<StringList>,

    /// Resources whose status is not restored, as resource.group
    #[arg(long)]
    pub(crate) status_exclude_resources: Option<StringList>,

    /// Only restore resources matching this label selector
    #[arg(short = 'l', long, value_parser = parse_selector)]
    pub(crate) selector: Option<LabelSelector>,

    /// Restore resources matching at least one of the label selectors, separated by ' or '
    #[arg(long)]
    pub(crate) or_selector: Option<OrSelectors>,

    /// How long to wait for async plugin operations before timeout
    #[arg(long, default_value = "0s", hide_default_value = true)]
    pub(crate) item_operation_timeout: GoDuration,

    /// Whether to restore volumes from snapshots
    #[arg(long, default_value = "")]
    pub(crate) restore_volumes: OptionalBool,

    /// Whether to preserve nodeports of Services when restoring
    #[arg(long, default_value = "")]
    pub(crate) preserve_nodeports: OptionalBool,

    /// Include cluster-scoped resources in the restore
    #[arg(long, default_value = "")]
    pub(crate) include_cluster_resources: OptionalBool,

    /// With --from-schedule, consider PartiallyFailed backups too
    #[arg(long, default_value = "")]
    pub(crate) allow_partially_failed: OptionalBool,

    #[command(flatten)]
    pub(crate) waiting: WaitArguments,

    /// Show what the restore would do to each object of the cluster, and do nothing
    #[arg(long, conflicts_with = "wait")]
    pub(crate) dry_run: bool,

    /// ConfigMap with the changes to make to objects
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) resource_modifier_configmap: String,

    /// Leave out the changes to objects that the server makes in every restore that names none of its own
    #[arg(long)]
    pub(crate) skip_default_resource_modifier: bool,

    /// ConfigMap with the resource policies of the restore
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) resource_policies_configmap: String,

    /// Whether to write sparse files during restoring volumes
    #[arg(long, default_value = "")]
    pub(crate) write_sparse_files: OptionalBool,

    /// Number of files downloaded at the same time; 0 means one for each CPU of the node
    #[arg(long, default_value = "0", allow_negative_numbers = true)]
    pub(crate) parallel_files_download: i64,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

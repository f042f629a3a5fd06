//! `velero server`

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};
use velero_api::GoDuration;

use super::shared::StatusArguments;
use super::values::Mappings;

/// `velero server`
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArguments {
    /// What to do instead of running the server
    #[command(subcommand)]
    pub(crate) command: Option<ServerCommand>,

    /// The level at which to log: trace, debug, info, warning, error, fatal or panic
    #[arg(long, default_value = "info")]
    pub(crate) log_level: String,

    /// The format for log output: text or json
    #[arg(long, default_value = "text")]
    pub(crate) log_format: String,

    /// Directory containing Velero plugins
    #[arg(long, default_value = "/plugins")]
    pub(crate) plugin_dir: PathBuf,

    /// Whether to add the actions for OpenShift: auto (where the cluster is OpenShift), on or off
    #[arg(long, default_value = "auto")]
    pub(crate) openshift: String,

    /// The address to expose prometheus metrics
    #[arg(long, default_value = ":8085")]
    pub(crate) metrics_address: String,

    /// How often backups in object storage are brought into the cluster, unless the location says
    #[arg(long, default_value = "1m0s")]
    pub(crate) backup_sync_period: GoDuration,

    /// Deprecated: only restores are allowed. Use read-only backup storage locations
    #[arg(long)]
    pub(crate) restore_only: bool,

    /// Controllers to disable on startup
    #[arg(long, action = ArgAction::Append, value_delimiter = ',')]
    pub(crate) disable_controllers: Vec<String>,

    /// Order of resource restores: high priorities, '-', low priorities; empty means the built-in order
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) restore_resource_priorities: String,

    /// Deprecated: name of the default backup storage location
    #[arg(long, default_value = "default")]
    pub(crate) default_backup_storage_location: String,

    /// How often to verify if the storage is valid; 0s disables it
    #[arg(long, default_value = "1m0s")]
    pub(crate) store_validation_frequency: GoDuration,

    /// Requests a second to the Kubernetes API once the burst is used up; not set means no fixed rate
    #[arg(long)]
    pub(crate) client_qps: Option<f32>,

    /// Requests to the Kubernetes API that may go out at once
    #[arg(long)]
    pub(crate) client_burst: Option<u32>,

    /// Page size when listing objects during a backup; 0 disables paging
    #[arg(long, default_value = "500")]
    pub(crate) client_page_size: u32,

    /// How long a restore waits for volumes and namespaces to terminate
    #[arg(long, default_value = "10m0s")]
    pub(crate) terminating_resource_timeout: GoDuration,

    /// The most entries the archive of a backup may have, two for each object: more are neither backed up nor restored
    #[arg(long, default_value = "4000000")]
    pub(crate) max_archive_entries: u64,

    /// How long backups are kept by default
    #[arg(long, default_value = "720h0m0s")]
    pub(crate) default_backup_ttl: GoDuration,

    /// Label key for grouping PVCs into VolumeGroupSnapshot
    #[arg(long, default_value = "velero.io/volume-group")]
    pub(crate) volume_group_snapshot_label_key: String,

    /// How often garbage collection is run for expired backups
    #[arg(long, default_value = "0s")]
    pub(crate) garbage_collection_frequency: GoDuration,

    /// How often to check on asynchronous operations
    #[arg(long, default_value = "0s")]
    pub(crate) item_operation_sync_frequency: GoDuration,

    /// Backup all volumes with pod volume file system backup by default
    #[arg(long)]
    pub(crate) default_volumes_to_fs_backup: bool,

    /// Type of uploader to handle the transfer of data of pod volumes
    #[arg(long, default_value = "kopia")]
    pub(crate) uploader_type: String,

    /// How long asynchronous operations may take
    #[arg(long, default_value = "4h0m0s")]
    pub(crate) default_item_operation_timeout: GoDuration,

    /// How long to wait for single resources where no other timeout applies
    #[arg(long, default_value = "10m0s")]
    pub(crate) resource_timeout: GoDuration,

    /// Move data by default for all snapshots supporting data movement
    #[arg(long)]
    pub(crate) default_snapshot_move_data: bool,

    /// Skip the first scheduled backup immediately after creating a schedule
    #[arg(long)]
    pub(crate) schedule_skip_immediately: bool,

    /// Default volume snapshot location of each provider: provider1:location-01,provider2:location-02
    #[arg(long, action = ArgAction::Append)]
    pub(crate) default_volume_snapshot_locations: Vec<Mappings>,

    /// Number of workers to process ItemBlocks
    #[arg(long, default_value = "1")]
    pub(crate) item_block_worker_count: u32,

    /// Number of backups to process concurrently
    #[arg(long, default_value = "1")]
    pub(crate) concurrent_backups: u32,

    /// ConfigMap with volume policies that are merged into every backup
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) global_backup_volume_policies_configmap: String,

    #[command(flatten)]
    pub(crate) without_effect: FlagsWithoutEffect,
}

/// Flags of Velero that are accepted, so that its Deployments start, and do nothing here.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FlagsWithoutEffect {
    /// How long pod volume file system backups and restores may run; without effect
    #[arg(long)]
    pub(crate) fs_backup_timeout: Option<GoDuration>,

    /// How often backup repositories are maintained by default; without effect
    #[arg(long)]
    pub(crate) default_repo_maintain_frequency: Option<GoDuration>,

    /// ConfigMap with backup repository configurations; without effect
    #[arg(long)]
    pub(crate) backup_repository_configmap: Option<String>,

    /// ConfigMap with repository maintenance Job configurations; without effect
    #[arg(long)]
    pub(crate) repo_maintenance_job_configmap: Option<String>,

    /// The address to expose profiles; without effect
    #[arg(long)]
    pub(crate) profiler_address: Option<String>,

    /// Max concurrent connections to the Kubernetes API; without effect, the server finds out how many it takes
    #[arg(long = "max-concurrent-k8s-connections")]
    pub(crate) max_concurrent_k8s_connections: Option<u32>,

    /// Disable informer cache for Get calls on restore; without effect, nothing is cached
    #[arg(long)]
    pub(crate) disable_informer_cache: bool,
}

impl FlagsWithoutEffect {
    /// Those that were given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("fs-backup-timeout", self.fs_backup_timeout.is_some()),
            ("default-repo-maintain-frequency", self.default_repo_maintain_frequency.is_some()),
            ("backup-repository-configmap", is_set(self.backup_repository_configmap.as_deref())),
            ("repo-maintenance-job-configmap", is_set(self.repo_maintenance_job_configmap.as_deref())),
            ("profiler-address", is_set(self.profiler_address.as_deref())),
            ("max-concurrent-k8s-connections", self.max_concurrent_k8s_connections.is_some()),
            ("disable-informer-cache", self.disable_informer_cache),
        ];
        flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }
}

fn is_set(value: Option<&str>) -> bool {
    value.is_some_and(|value| !value.is_empty())
}

/// `velero server …`
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum ServerCommand {
    /// Show the version of the server and whether it is ready
    Status(ServerStatusArguments),
}

/// `velero server status`
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerStatusArguments {
    /// Also show locations, plugins, node agents, work that waits or runs, and the last errors
    #[arg(long)]
    pub(crate) details: bool,

    /// Output display format: json or yaml; text by default
    #[arg(short, long)]
    pub(crate) output: Option<String>,

    #[command(flatten)]
    pub(crate) status: StatusArguments,
}

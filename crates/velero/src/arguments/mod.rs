//! The command line: every command and flag, and nothing of what they do.

mod backup;
mod debug;
mod global;
mod go_flags;
mod install;
mod locations;
mod migrate;
#[cfg(target_os = "linux")]
mod mover;
mod node_agent;
mod repo_maintenance;
mod report;
mod repository;
mod restore;
mod schedule;
mod server;
mod server_flags;
mod shared;
mod uninstall;
pub(crate) mod values;
mod web;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use backup::{
    BackupCommand, BackupContent, BackupCreateArguments, BackupDescribeArguments, BackupDownloadArguments,
};
pub(crate) use debug::DebugArguments;
pub(crate) use global::{GlobalArguments, LoggingArguments};
pub(crate) use go_flags::with_go_flags;
pub(crate) use install::{InstallArguments, PageArguments, StorageArguments};
pub(crate) use locations::{
    BackupLocationCheckArguments, BackupLocationCommand, BackupLocationCreateArguments, BackupLocationGetArguments,
    BackupLocationSetArguments, SnapshotLocationCommand, SnapshotLocationCreateArguments, SnapshotLocationSetArguments,
};
pub(crate) use migrate::{MigrateBackArguments, MigrateCheckArguments, MigrateCommand, MigrateRunArguments};
#[cfg(target_os = "linux")]
pub(crate) use mover::{DataMoverCommand, MoverArguments, PodVolumeCommand};
pub(crate) use node_agent::{NodeAgentCommand, NodeAgentServerArguments};
pub(crate) use repo_maintenance::RepoMaintenanceArguments;
pub(crate) use report::{ReportArguments, ReportForm};
pub(crate) use repository::{
    PlaceArguments, RepositoryCatArguments, RepositoryCommand, RepositoryListArguments, RepositoryMaintainArguments,
    RepositoryRestoreArguments, RepositoryStatsArguments, RepositoryVerifyArguments,
};
pub(crate) use restore::{RestoreCommand, RestoreCreateArguments};
pub(crate) use schedule::{ScheduleCommand, ScheduleCreateArguments, SchedulePauseArguments};
pub(crate) use server::{ServerArguments, ServerCommand, ServerStatusArguments};
pub(crate) use server_flags::FlagValue;
pub(crate) use shared::{
    CancelArguments, DeleteArguments, DescribeArguments, DownloadArguments, GetArguments, ListArguments, LogsArguments,
    OutputArguments, SelectArguments, StatusArguments, WaitArguments,
};
pub(crate) use uninstall::UninstallArguments;
pub(crate) use web::WebArguments;

/// Back up and restore Kubernetes cluster resources.
///
/// Velero saves the state of applications in a cluster, objects and volumes, and brings it back. As with kubectl, the
/// verb may come first: 'velero get backups' and 'velero backup get' are the same.
#[derive(Parser, Debug)]
#[command(name = "velero", disable_version_flag = true, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArguments,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands, by noun and by verb.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Work with backups
    #[command(subcommand)]
    Backup(BackupCommand),
    /// Work with restores
    #[command(subcommand)]
    Restore(RestoreCommand),
    /// Work with schedules
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Work with backup storage locations
    #[command(subcommand)]
    BackupLocation(BackupLocationCommand),
    /// Work with snapshot locations
    #[command(subcommand)]
    SnapshotLocation(SnapshotLocationCommand),
    /// Work with plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Work with repositories
    #[command(subcommand)]
    Repo(RepositoryCommand),
    /// Get velero resources
    #[command(subcommand)]
    Get(GetCommand),
    /// Create velero resources
    #[command(subcommand)]
    Create(CreateCommand),
    /// Describe velero resources
    #[command(subcommand)]
    Describe(DescribeCommand),
    /// Delete velero resources
    #[command(subcommand)]
    Delete(DeleteCommand),
    /// Velero client related commands
    #[command(subcommand)]
    Client(ClientCommand),
    /// Install Velero
    Install(Box<InstallArguments>),
    /// Uninstall Velero
    Uninstall(UninstallArguments),
    /// Come over from an installed Velero, and go back
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Open the page of the server, through the API server
    Web(WebArguments),
    /// Print the velero version and associated image
    Version(VersionArguments),
    /// Tell what was protected, what failed and what no schedule covers
    Report(ReportArguments),
    /// Collect logs and objects into a bundle for those who help
    Debug(DebugArguments),
    /// Report a bug
    Bug,
    /// Generate completion script
    Completion(CompletionArguments),
    /// Run the velero server
    #[command(hide = true)]
    Server(Box<ServerArguments>),
    /// Run what moves the data of a pod's volume
    #[cfg(target_os = "linux")]
    #[command(subcommand, hide = true)]
    PodVolume(PodVolumeCommand),
    /// Run what moves the data of a volume or its snapshot
    #[cfg(target_os = "linux")]
    #[command(subcommand, hide = true)]
    DataMover(DataMoverCommand),
    /// Work with node agents
    #[command(subcommand, hide = true)]
    NodeAgent(NodeAgentCommand),
    /// Maintain a repository of volume data; what the Jobs of the server run
    #[command(hide = true)]
    RepoMaintenance(RepoMaintenanceArguments),
    /// Print all commands and flags as Markdown; what the reference of the book is made from
    #[command(hide = true)]
    Reference,
}

/// `velero get …`
#[derive(Subcommand, Debug)]
pub(crate) enum GetCommand {
    /// Get backups
    #[command(alias = "backup")]
    Backups(GetArguments),
    /// Get schedules
    #[command(alias = "schedule")]
    Schedules(GetArguments),
    /// Get restores
    #[command(alias = "restore")]
    Restores(GetArguments),
    /// Get backup storage locations
    #[command(alias = "backup-location")]
    BackupLocations(BackupLocationGetArguments),
    /// Get snapshot locations
    #[command(alias = "snapshot-location")]
    SnapshotLocations(GetArguments),
    /// Get information for all plugins on the velero server
    #[command(alias = "plugin")]
    Plugins(PluginGetArguments),
}

/// `velero create …`
#[derive(Subcommand, Debug)]
pub(crate) enum CreateCommand {
    /// Create a backup
    Backup(Box<BackupCreateArguments>),
    /// Create a schedule
    Schedule(Box<ScheduleCreateArguments>),
    /// Create a restore
    Restore(Box<RestoreCreateArguments>),
    /// Create a backup storage location
    BackupLocation(Box<BackupLocationCreateArguments>),
    /// Create a volume snapshot location
    SnapshotLocation(SnapshotLocationCreateArguments),
}

/// `velero describe …`
#[derive(Subcommand, Debug)]
pub(crate) enum DescribeCommand {
    /// Describe backups
    #[command(alias = "backup")]
    Backups(BackupDescribeArguments),
    /// Describe schedules
    #[command(alias = "schedule")]
    Schedules(ListArguments),
    /// Describe restores
    #[command(alias = "restore")]
    Restores(DescribeArguments),
}

/// `velero delete …`
#[derive(Subcommand, Debug)]
pub(crate) enum DeleteCommand {
    /// Delete backups
    #[command(alias = "backups")]
    Backup(DeleteArguments),
    /// Delete backup storage locations
    #[command(alias = "backup-locations")]
    BackupLocation(DeleteArguments),
    /// Delete restores
    #[command(alias = "restores")]
    Restore(DeleteArguments),
    /// Delete schedules
    #[command(alias = "schedules")]
    Schedule(DeleteArguments),
}

/// `velero plugin …`
#[derive(Subcommand, Debug)]
pub(crate) enum PluginCommand {
    /// Get information for all plugins on the velero server
    Get(PluginGetArguments),
    /// Add a plugin
    Add(PluginAddArguments),
    /// Remove a plugin
    Remove(PluginRemoveArguments),
}

/// `velero plugin add`
#[derive(Args, Clone, Debug)]
pub(crate) struct PluginAddArguments {
    /// The image of the plugin
    pub(crate) image: String,

    /// The imagePullPolicy for the plugin container
    #[arg(long, default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub(crate) image_pull_policy: String,

    /// Confirm add: the server may restart, which fails all ongoing jobs
    #[arg(long)]
    pub(crate) confirm: bool,
}

/// `velero plugin remove`
#[derive(Args, Clone, Debug)]
pub(crate) struct PluginRemoveArguments {
    /// The name of the plugin's init container, or its image
    #[arg(value_name = "NAME | IMAGE")]
    pub(crate) plugin: String,
}

/// `velero plugin get`
#[derive(Args, Clone, Debug)]
pub(crate) struct PluginGetArguments {
    #[command(flatten)]
    pub(crate) status: StatusArguments,

    /// Output display format: table, json or yaml
    #[arg(short, long, default_value = "table")]
    pub(crate) output: String,
}

/// `velero client …`
#[derive(Subcommand, Debug)]
pub(crate) enum ClientCommand {
    /// Get and set client configuration file values
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// `velero client config …`
#[derive(Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    /// Get client configuration file values
    Get {
        /// Keys to show; none means all
        keys: Vec<String>,
    },
    /// Set client configuration file values
    Set {
        /// Values to set, KEY=VALUE; an empty value removes the key
        #[arg(required = true)]
        pairs: Vec<String>,
    },
}

/// `velero version`
#[derive(Args, Clone, Debug)]
pub(crate) struct VersionArguments {
    /// Only get velero client version, not server version
    #[arg(long)]
    pub(crate) client_only: bool,

    /// Output display format: json or yaml; text by default
    #[arg(short, long)]
    pub(crate) output: Option<String>,

    #[command(flatten)]
    pub(crate) status: StatusArguments,
}

/// `velero completion`
#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionArguments {
    /// The shell to write a script for
    pub(crate) shell: Shell,
}

/// The shells that scripts can be written for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    /// Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

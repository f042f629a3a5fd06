//! `velero backup-location …` and `velero snapshot-location …`

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};
use velero_api::GoDuration;
use velero_api::v1::BackupStorageLocationAccessMode;

use super::shared::{DeleteArguments, GetArguments, OutputArguments};
use super::values::{KeyValues, OptionalBool};

/// The commands on backup storage locations.
#[derive(Subcommand, Debug)]
pub(crate) enum BackupLocationCommand {
    /// Create a backup storage location
    Create(Box<BackupLocationCreateArguments>),
    /// Get backup storage locations
    Get(BackupLocationGetArguments),
    /// Try a backup storage location out, and say what is wrong with it and what to do
    Check(BackupLocationCheckArguments),
    /// Set specific features for a backup storage location
    Set(BackupLocationSetArguments),
    /// Delete backup storage locations
    Delete(DeleteArguments),
}

/// `velero backup-location create`
#[derive(Args, Clone, Debug)]
pub(crate) struct BackupLocationCreateArguments {
    /// Name of the location
    pub(crate) name: String,

    /// Name of the backup storage provider (e.g. aws, azure, gcp)
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) provider: String,

    /// Name of the object storage bucket where backups should be stored
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) bucket: String,

    /// The credential of this location: the name of a Secret and the key in it, as name=key
    #[arg(long, action = ArgAction::Append)]
    pub(crate) credential: Vec<KeyValues>,

    /// Make this the default backup storage location
    #[arg(long)]
    pub(crate) default: bool,

    /// Prefix under which all Velero data should be stored within the bucket
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,

    /// Use the bucket and prefix though another cluster has written backups there in the last 30 days: one that is gone, or that
    /// is meant to share them
    #[arg(long)]
    pub(crate) share_bucket: bool,

    /// How often backups in object storage are brought into the cluster; 0s disables it, default 1 minute
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) backup_sync_period: Option<GoDuration>,

    /// How often to verify if the location is valid; 0s disables it, default 1 minute
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) validation_frequency: Option<GoDuration>,

    /// Configuration key-value pairs
    #[arg(long, action = ArgAction::Append)]
    pub(crate) config: Vec<KeyValues>,

    /// Labels to apply to the backup storage location
    #[arg(long, action = ArgAction::Append)]
    pub(crate) labels: Vec<KeyValues>,

    /// File with the certificate bundle for TLS connections to the object store
    #[arg(long)]
    pub(crate) cacert: Option<PathBuf>,

    /// Access mode for the backup storage location: ReadWrite or ReadOnly
    #[arg(long, default_value = "ReadWrite", value_parser = parse_access_mode)]
    pub(crate) access_mode: BackupStorageLocationAccessMode,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

fn parse_access_mode(text: &str) -> Result<BackupStorageLocationAccessMode, String> {
    text.parse().map_err(|_| format!("invalid value: {text:?}"))
}

/// `velero backup-location get`
#[derive(Args, Clone, Debug)]
pub(crate) struct BackupLocationGetArguments {
    #[command(flatten)]
    pub(crate) get: GetArguments,

    /// Show the current default backup storage location only
    #[arg(long)]
    pub(crate) default: bool,
}

/// `velero backup-location check`
#[derive(Args, Clone, Debug)]
pub(crate) struct BackupLocationCheckArguments {
    /// Name of the location
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub(crate) name: Option<String>,

    /// File with a BackupStorageLocation, in YAML or JSON, that need not exist in the cluster; - reads standard input
    #[arg(short, long)]
    pub(crate) file: Option<PathBuf>,

    /// File with the credentials to use; by default those the location has in the cluster
    #[arg(long)]
    pub(crate) credentials_file: Option<PathBuf>,

    /// File with the certificate bundle for TLS connections to the object store; by default that of the location
    #[arg(long)]
    pub(crate) cacert: Option<PathBuf>,

    /// Output display format: table, json or yaml
    #[arg(short, long, default_value = "table")]
    pub(crate) output: String,
}

/// `velero backup-location set`
#[derive(Args, Clone, Debug)]
pub(crate) struct BackupLocationSetArguments {
    /// Name of the location
    pub(crate) name: String,

    /// File with the certificate bundle for TLS connections to the object store; an empty path removes the bundle
    #[arg(long)]
    pub(crate) cacert: Option<PathBuf>,

    /// The credential of this location: the name of a Secret and the key in it, as name=key
    #[arg(long, action = ArgAction::Append)]
    pub(crate) credential: Vec<KeyValues>,

    /// Make this the default backup storage location, or no longer
    #[arg(long, default_value = "")]
    pub(crate) default: OptionalBool,
}

/// The commands on volume snapshot locations.
#[derive(Subcommand, Debug)]
pub(crate) enum SnapshotLocationCommand {
    /// Create a volume snapshot location
    Create(SnapshotLocationCreateArguments),
    /// Get snapshot locations
    Get(GetArguments),
    /// Set specific features for a snapshot location
    Set(SnapshotLocationSetArguments),
}

/// `velero snapshot-location create`
#[derive(Args, Clone, Debug)]
pub(crate) struct SnapshotLocationCreateArguments {
    /// Name of the location
    pub(crate) name: String,

    /// Name of the volume snapshot provider (e.g. aws, azure, gcp)
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) provider: String,

    /// Configuration key-value pairs
    #[arg(long, action = ArgAction::Append)]
    pub(crate) config: Vec<KeyValues>,

    /// Labels to apply to the volume snapshot location
    #[arg(long, action = ArgAction::Append)]
    pub(crate) labels: Vec<KeyValues>,

    /// The credential of this location: the name of a Secret and the key in it, as name=key
    #[arg(long, action = ArgAction::Append)]
    pub(crate) credential: Vec<KeyValues>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// `velero snapshot-location set`
#[derive(Args, Clone, Debug)]
pub(crate) struct SnapshotLocationSetArguments {
    /// Name of the location
    pub(crate) name: String,

    /// The credential of this location: the name of a Secret and the key in it, as name=key
    #[arg(long, action = ArgAction::Append)]
    pub(crate) credential: Vec<KeyValues>,
}

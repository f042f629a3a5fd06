//! `velero repo …`

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};

use super::shared::GetArguments;
use super::values::KeyValues;

/// The commands on repositories of volume data.
#[derive(Subcommand, Debug)]
pub(crate) enum RepositoryCommand {
    /// Get repositories
    Get(GetArguments),
    /// List the snapshots of a repository, or the files of one
    Ls(RepositoryListArguments),
    /// Write a file of a snapshot to stdout
    Cat(RepositoryCatArguments),
    /// Restore a snapshot, or a folder of one, to this machine
    Restore(RepositoryRestoreArguments),
    /// Check every blob, content and file of a repository, or those of one snapshot
    Verify(RepositoryVerifyArguments),
    /// Show what is in a repository
    Stats(RepositoryStatsArguments),
    /// Remove what no snapshot needs, and keep indexes few
    Maintain(RepositoryMaintainArguments),
}

/// Where a repository is: exactly one of `--repository`, `--path` and `--bucket`.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct PlaceArguments {
    /// Name of a BackupRepository; its location and password are looked up in the cluster
    #[arg(long, value_name = "NAME", help_heading = "Repository", conflicts_with_all = ["path", "provider", "bucket", "prefix"])]
    pub(crate) repository: Option<String>,

    /// Folder of this machine that holds the repository
    #[arg(long, value_name = "DIR", help_heading = "Repository", conflicts_with_all = ["provider", "bucket", "prefix", "config", "credentials_file", "cacert"])]
    pub(crate) path: Option<PathBuf>,

    /// Provider of the object store (aws, azure, gcp or fs)
    #[arg(long, default_value = "aws", help_heading = "Repository")]
    pub(crate) provider: String,

    /// Bucket that holds the repository; for fs a directory
    #[arg(long, help_heading = "Repository")]
    pub(crate) bucket: Option<String>,

    /// Folder of the repository in the bucket: kopia/NAMESPACE below the prefix of its storage location
    #[arg(long, help_heading = "Repository", requires = "bucket")]
    pub(crate) prefix: Option<String>,

    /// Configuration of the object store, as in a backup storage location; added to the one of --repository
    #[arg(long, action = ArgAction::Append, value_name = "KEY=VALUE", help_heading = "Repository")]
    pub(crate) config: Vec<KeyValues>,

    /// File with the credentials of the object store
    #[arg(long, value_name = "FILE", help_heading = "Repository")]
    pub(crate) credentials_file: Option<PathBuf>,

    /// File with the certificate bundle for TLS connections to the object store
    #[arg(long, value_name = "FILE", help_heading = "Repository")]
    pub(crate) cacert: Option<PathBuf>,

    /// File with the password of the repository; else VELERO_REPO_PASSWORD, else the Secret of --repository, else the
    /// password Velero takes where nobody chose one
    #[arg(long, value_name = "FILE", help_heading = "Repository")]
    pub(crate) password_file: Option<PathBuf>,
}

/// `velero repo ls`
#[derive(Args, Clone, Debug)]
pub(crate) struct RepositoryListArguments {
    /// A snapshot by its id or the beginning of it, and a path in it; none lists the snapshots
    #[arg(value_name = "SNAPSHOT[/PATH]")]
    pub(crate) target: Option<String>,

    /// List what is in folders as well
    #[arg(short = 'R', long, requires = "target")]
    pub(crate) recursive: bool,

    /// Output display format: table, json or yaml
    #[arg(short, long, default_value = "table")]
    pub(crate) output: String,

    #[command(flatten)]
    pub(crate) place: PlaceArguments,
}

/// `velero repo cat`
#[derive(Args, Clone, Debug)]
pub(crate) struct RepositoryCatArguments {
    /// A snapshot by its id or the beginning of it, and the path of a file in it
    #[arg(value_name = "SNAPSHOT/PATH")]
    pub(crate) target: String,

    #[command(flatten)]
    pub(crate) place: PlaceArguments,
}

/// `velero repo restore`
#[derive(Args, Clone, Debug)]
pub(crate) struct RepositoryRestoreArguments {
    /// A snapshot by its id or the beginning of it, and the path of a folder in it
    #[arg(value_name = "SNAPSHOT[/PATH]")]
    pub(crate) target: String,

    /// Folder to restore into, made if it is missing; with --device the device or file
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,

    /// Restore into a folder that is not empty: files of the snapshot replace those there, others stay
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// The snapshot is of a block volume; write it onto a device, or into a file, which is made if it is missing
    #[arg(long)]
    pub(crate) device: bool,

    /// Leave out blocks of zeros, so that files take no more room than they need
    #[arg(long)]
    pub(crate) sparse: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArguments,
}

/// `velero repo verify`
#[derive(Args, Clone, Debug)]
pub(crate) struct RepositoryVerifyArguments {
    /// A snapshot by its id or the beginning of it; none checks the whole repository
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshot: Option<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArguments,
}

/// `velero repo stats`
#[derive(Args, Clone, Debug)]
pub(crate) struct RepositoryStatsArguments {
    /// Output display format: table, json or yaml
    #[arg(short, long, default_value = "table")]
    pub(crate) output: String,

    #[command(flatten)]
    pub(crate) place: PlaceArguments,
}

/// `velero repo maintain`
#[derive(Args, Clone, Debug)]
pub(crate) struct RepositoryMaintainArguments {
    /// Only say what would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Keep indexes few, whether it is due or not
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,

    /// Also remove what no snapshot needs, whether it is due or not
    #[arg(long)]
    pub(crate) full: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArguments,
}

//! `velero pod-volume …` and `velero data-mover …`: what runs in the pods that node agents start, ours and Velero's.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use velero_api::GoDuration;
use velero_controllers::mover::VolumeMode;
use velero_controllers::server::LogSettings;

/// `velero pod-volume …`
#[derive(Subcommand, Debug)]
pub(crate) enum PodVolumeCommand {
    /// Save the volume of a pod, as a PodVolumeBackup asks
    #[command(hide = true)]
    Backup(PodVolumeBackupArguments),
    /// Fill the volume of a pod, as a PodVolumeRestore asks
    #[command(hide = true)]
    Restore(PodVolumeRestoreArguments),
}

/// `velero data-mover …`
#[derive(Subcommand, Debug)]
pub(crate) enum DataMoverCommand {
    /// Save the snapshot of a volume, as a DataUpload asks
    #[command(hide = true)]
    Backup(DataUploadArguments),
    /// Fill a volume, as a DataDownload asks
    #[command(hide = true)]
    Restore(DataDownloadArguments),
}

/// What all of them take.
#[derive(Args, Clone, Debug)]
pub(crate) struct MoverArguments {
    /// The full path of the volume
    #[arg(long)]
    pub(crate) volume_path: PathBuf,

    /// How long to wait for what others have to do first
    #[arg(long)]
    pub(crate) resource_timeout: GoDuration,

    #[command(flatten)]
    pub(crate) log: LogSettings,
}

/// `velero pod-volume backup`
#[derive(Args, Clone, Debug)]
pub(crate) struct PodVolumeBackupArguments {
    /// The name of the PodVolumeBackup
    #[arg(long)]
    pub(crate) pod_volume_backup: String,

    #[command(flatten)]
    pub(crate) mover: MoverArguments,
}

/// `velero pod-volume restore`
#[derive(Args, Clone, Debug)]
pub(crate) struct PodVolumeRestoreArguments {
    /// The name of the PodVolumeRestore
    #[arg(long)]
    pub(crate) pod_volume_restore: String,

    /// The full path of the volume for temporary files; empty means none
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) cache_volume_path: String,

    #[command(flatten)]
    pub(crate) mover: MoverArguments,
}

/// `velero data-mover backup`
#[derive(Args, Clone, Debug)]
pub(crate) struct DataUploadArguments {
    /// The name of the DataUpload
    #[arg(long)]
    pub(crate) data_upload: String,

    /// Whether the volume is a folder (Filesystem) or a device (Block)
    #[arg(long)]
    pub(crate) volume_mode: VolumeMode,

    #[command(flatten)]
    pub(crate) mover: MoverArguments,
}

/// `velero data-mover restore`
#[derive(Args, Clone, Debug)]
pub(crate) struct DataDownloadArguments {
    /// The name of the DataDownload
    #[arg(long)]
    pub(crate) data_download: String,

    /// Whether the volume is a folder (Filesystem) or a device (Block)
    #[arg(long)]
    pub(crate) volume_mode: VolumeMode,

    /// The full path of the volume for temporary files; empty means none
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) cache_volume_path: String,

    #[command(flatten)]
    pub(crate) mover: MoverArguments,
}

//! `velero pod-volume …` and `velero data-mover …`

use std::env;
use std::path::PathBuf;

use anyhow::Result;
use velero_controllers::mover::{self, MovedKind, Settings as MoverSettings, VolumeMode};

use crate::arguments::{DataMoverCommand, MoverArguments, PodVolumeCommand};
use crate::settings::Settings;

/// The variable with the name of the node, as the DaemonSet of the node agents has it.
const NODE: &str = "NODE_NAME";
/// The variable with the folder for temporary files, as that DaemonSet has it.
const SCRATCH: &str = "VELERO_SCRATCH_DIR";

/// Saves or fills the volume of a pod, and ends the process.
pub(super) async fn pod_volume(command: PodVolumeCommand, settings: Settings) -> Result<()> {
    match command {
        PodVolumeCommand::Backup(arguments) => {
            let (kind, name) = (MovedKind::PodVolumeBackup, arguments.pod_volume_backup);
            run(kind, name, VolumeMode::Filesystem, String::new(), arguments.mover, settings).await
        }
        PodVolumeCommand::Restore(arguments) => {
            let (kind, name) = (MovedKind::PodVolumeRestore, arguments.pod_volume_restore);
            run(kind, name, VolumeMode::Filesystem, arguments.cache_volume_path, arguments.mover, settings).await
        }
    }
}

/// Saves a snapshot or fills the volume of a claim, and ends the process.
pub(super) async fn data_mover(command: DataMoverCommand, settings: Settings) -> Result<()> {
    match command {
        DataMoverCommand::Backup(arguments) => {
            let (kind, name) = (MovedKind::DataUpload, arguments.data_upload);
            run(kind, name, arguments.volume_mode, String::new(), arguments.mover, settings).await
        }
        DataMoverCommand::Restore(arguments) => {
            let (kind, name) = (MovedKind::DataDownload, arguments.data_download);
            run(kind, name, arguments.volume_mode, arguments.cache_volume_path, arguments.mover, settings).await
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "threads that wait for a dead file system must not keep the pod alive")]
async fn run(
    kind: MovedKind,
    name: String,
    volume_mode: VolumeMode,
    cache: String,
    arguments: MoverArguments,
    settings: Settings,
) -> Result<()> {
    let scratch = env::var_os(SCRATCH).map(PathBuf::from);
    let folder = [Some(PathBuf::from(cache)), scratch].into_iter().flatten().find(|folder| folder.is_dir());
    if let Some(folder) = folder {
        // The only failure is that somebody has chosen a folder already.
        let _ = tempfile::env::override_temp_dir(&folder);
    }
    let moved = mover::run(mover_settings(kind, name, volume_mode, arguments, settings)).await;
    std::process::exit(i32::from(!moved))
}

/// What the flags of a mover and those of every command say together.
fn mover_settings(
    kind: MovedKind,
    name: String,
    volume_mode: VolumeMode,
    arguments: MoverArguments,
    settings: Settings,
) -> MoverSettings {
    MoverSettings {
        namespace: settings.namespace,
        kubeconfig: settings.kubeconfig,
        context: settings.context,
        version: crate::version::VERSION.to_owned(),
        volume_mode,
        resource_timeout: arguments.resource_timeout.to_std(),
        node: env::var(NODE).unwrap_or_default(),
        log: arguments.log,
        ..MoverSettings::new(kind, name, arguments.volume_path)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::arguments::{Cli, Command, with_go_flags};
    use crate::client_config::ClientConfig;

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        let words = std::iter::once("velero").chain(line.split_whitespace());
        Cli::from_arg_matches(&with_go_flags(Cli::command()).try_get_matches_from(words)?)
    }

    #[test]
    fn the_command_lines_of_velero_s_node_agents_are_understood() {
        for line in [
            "pod-volume backup --volume-path=/u1 --resource-timeout=10m0s --pod-volume-backup=b-1 --log-format=text --log-level=info",
            "pod-volume restore --volume-path=/u1 --resource-timeout=10m0s --pod-volume-restore=r-1 --cache-volume-path= --log-level=debug",
            "data-mover backup --volume-path=/u1 --volume-mode=Filesystem --data-upload=du-1 --resource-timeout=10m0s --log-format=json",
            "data-mover restore --volume-path=/dev/u1 --volume-mode=Block --data-download=dd-1 --resource-timeout=10m0s --cache-volume-path=/cache --features=EnableCSI",
        ] {
            let cli = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(matches!(cli.command, Command::PodVolume(_) | Command::DataMover(_)), "{line}");
        }
        assert!(parsed("data-mover backup --volume-path=/u1 --data-upload=du-1 --resource-timeout=1m").is_err());
        assert!(
            parsed("data-mover backup --volume-path=/u1 --volume-mode=Tape --data-upload=d --resource-timeout=1m")
                .is_err()
        );
    }

    #[test]
    fn flags_reach_the_settings() {
        let line = "pod-volume backup --volume-path=/u1 --resource-timeout=2m --pod-volume-backup=b-1 -n backups";
        let cli = parsed(line).unwrap();
        let Command::PodVolume(PodVolumeCommand::Backup(arguments)) = cli.command else { panic!("another command") };
        let settings = Settings::resolve(cli.global, &ClientConfig::default());
        let kind = MovedKind::PodVolumeBackup;
        let settings =
            mover_settings(kind, arguments.pod_volume_backup, VolumeMode::Filesystem, arguments.mover, settings);
        assert_eq!((settings.namespace.as_str(), settings.name.as_str()), ("backups", "b-1"));
        assert_eq!((settings.resource_timeout, settings.kind), (Duration::from_secs(120), kind));
        assert_eq!(settings.volume_path, PathBuf::from("/u1"));
    }
}

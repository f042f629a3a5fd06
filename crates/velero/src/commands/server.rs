//! `velero server`

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use velero_controllers::server::{self, Controller, Settings as ServerSettings};

use crate::arguments::{FlagsWithoutEffect, LoggingArguments, ServerArguments};
use crate::settings::Settings;

/// Runs the server until it is told to end.
pub(super) async fn server(arguments: ServerArguments, settings: Settings) -> Result<()> {
    server::run(server_settings(arguments, settings)?).await?;
    Ok(())
}

/// What the flags say, as the server takes it.
fn server_settings(arguments: ServerArguments, settings: Settings) -> Result<ServerSettings> {
    let locations = arguments.default_volume_snapshot_locations.into_iter().flat_map(|mappings| mappings.0).collect();
    Ok(ServerSettings {
        namespace: settings.namespace,
        kubeconfig: settings.kubeconfig,
        context: settings.context,
        features: settings.features,
        log_level: arguments.log_level,
        log_format: arguments.log_format.parse().map_err(|problem| anyhow!("--log-format: {problem}"))?,
        plugin_dir: arguments.plugin_dir,
        openshift: arguments.openshift.parse().map_err(|problem| anyhow!("--openshift: {problem}"))?,
        metrics_address: arguments.metrics_address,
        backup_sync_period: arguments.backup_sync_period,
        restore_only: arguments.restore_only,
        disabled_controllers: disabled(&arguments.disable_controllers)?,
        restore_resource_priorities: arguments.restore_resource_priorities,
        default_backup_storage_location: arguments.default_backup_storage_location,
        store_validation_frequency: arguments.store_validation_frequency,
        client_qps: arguments.client_qps,
        client_burst: arguments.client_burst,
        client_page_size: arguments.client_page_size,
        terminating_resource_timeout: arguments.terminating_resource_timeout,
        max_archive_entries: arguments.max_archive_entries,
        default_backup_ttl: arguments.default_backup_ttl,
        volume_group_snapshot_label_key: arguments.volume_group_snapshot_label_key,
        garbage_collection_frequency: arguments.garbage_collection_frequency,
        item_operation_sync_frequency: arguments.item_operation_sync_frequency,
        default_volumes_to_fs_backup: arguments.default_volumes_to_fs_backup,
        uploader_type: arguments.uploader_type,
        default_item_operation_timeout: arguments.default_item_operation_timeout,
        resource_timeout: arguments.resource_timeout,
        default_snapshot_move_data: arguments.default_snapshot_move_data,
        schedule_skip_immediately: arguments.schedule_skip_immediately,
        default_volume_snapshot_locations: locations,
        global_backup_volume_policies_configmap: arguments.global_backup_volume_policies_configmap,
        item_block_worker_count: arguments.item_block_worker_count,
        concurrent_backups: arguments.concurrent_backups,
        flags_without_effect: without_effect(&arguments.without_effect, &settings.logging),
        server_version: crate::version::VERSION.to_owned(),
    })
}

/// The controllers that are switched off.
fn disabled(names: &[String]) -> Result<BTreeSet<Controller>> {
    let read =
        |name: &String| name.parse::<Controller>().map_err(|problem| anyhow!("--disable-controllers: {problem}"));
    names.iter().map(read).collect()
}

/// The flags that were given and do nothing.
fn without_effect(server: &FlagsWithoutEffect, logging: &LoggingArguments) -> Vec<String> {
    server.given().into_iter().chain(logging.given()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::arguments::{Cli, Command, with_go_flags};
    use crate::client_config::ClientConfig;

    fn parsed(flags: &[&str]) -> ServerSettings {
        let matches = with_go_flags(Cli::command()).get_matches_from(["velero", "server"].iter().chain(flags));
        let cli = Cli::from_arg_matches(&matches).unwrap();
        let Command::Server(arguments) = cli.command else { panic!("not the server") };
        server_settings(*arguments, Settings::resolve(cli.global, &ClientConfig::default())).unwrap()
    }

    #[test]
    fn the_flags_default_to_what_the_server_defaults_to() {
        let expected =
            ServerSettings { server_version: crate::version::VERSION.to_owned(), ..ServerSettings::default() };
        assert_eq!(format!("{:?}", parsed(&[])), format!("{expected:?}"));
    }

    #[test]
    fn flags_reach_the_settings() {
        let settings = parsed(&[
            "--default-backup-ttl",
            "1h",
            "--client-qps=5",
            "--disable-controllers=gc,restore",
            "--restore-only",
        ]);
        assert_eq!(settings.default_backup_ttl.to_string(), "1h0m0s");
        assert_eq!(settings.client_qps, Some(5.0));
        assert!(settings.restore_only && settings.disabled_controllers.contains(&Controller::GarbageCollection));
    }

    #[test]
    fn flags_that_do_nothing_are_told_of_when_they_are_given() {
        assert!(parsed(&[]).flags_without_effect.is_empty());
        let flags = [
            "--fs-backup-timeout=1h",
            "--default-repo-maintain-frequency=1h",
            "--backup-repository-configmap=a",
            "--repo-maintenance-job-configmap=b",
            "--profiler-address=:6060",
            "--max-concurrent-k8s-connections=5",
            "--disable-informer-cache",
            "-v=4",
            "--vmodule=a=1",
            "--logtostderr",
        ];
        let told = parsed(&flags).flags_without_effect;
        for flag in flags {
            let name = flag.trim_start_matches('-').split('=').next().unwrap();
            assert!(told.iter().any(|told| told == name), "{name} is not told of: {told:?}");
        }
        assert_eq!(told.len(), flags.len(), "{told:?}");
        assert!(parsed(&["--disable-informer-cache=false"]).flags_without_effect.is_empty());
    }
}

//! `velero server`

use anyhow::{Result, anyhow, ensure};
use velero_controllers::server::{self, Settings as ServerSettings};

use crate::arguments::ServerArguments;
use crate::settings::Settings;

/// Runs the server until it is told to end.
pub(super) async fn server(arguments: ServerArguments, settings: Settings) -> Result<()> {
    let unsupported = &arguments.global_backup_volume_policies_configmap;
    ensure!(unsupported.is_empty(), "--global-backup-volume-policies-configmap {unsupported} is not supported yet");
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
        profiler_address: arguments.profiler_address,
        backup_sync_period: arguments.backup_sync_period,
        fs_backup_timeout: arguments.fs_backup_timeout,
        restore_only: arguments.restore_only,
        disabled_controllers: arguments.disable_controllers.into_iter().collect(),
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
        default_repo_maintain_frequency: arguments.default_repo_maintain_frequency,
        garbage_collection_frequency: arguments.garbage_collection_frequency,
        item_operation_sync_frequency: arguments.item_operation_sync_frequency,
        default_volumes_to_fs_backup: arguments.default_volumes_to_fs_backup,
        uploader_type: arguments.uploader_type,
        default_item_operation_timeout: arguments.default_item_operation_timeout,
        resource_timeout: arguments.resource_timeout,
        max_concurrent_k8s_connections: arguments.max_concurrent_k8s_connections,
        default_snapshot_move_data: arguments.default_snapshot_move_data,
        disable_informer_cache: arguments.disable_informer_cache,
        schedule_skip_immediately: arguments.schedule_skip_immediately,
        default_volume_snapshot_locations: locations,
        backup_repository_configmap: arguments.backup_repository_configmap,
        repo_maintenance_job_configmap: arguments.repo_maintenance_job_configmap,
        item_block_worker_count: arguments.item_block_worker_count,
        concurrent_backups: arguments.concurrent_backups,
        server_version: crate::version::VERSION.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::arguments::{Cli, Command, GlobalArguments, with_go_flags};
    use crate::client_config::ClientConfig;

    fn parsed(flags: &[&str]) -> ServerSettings {
        let matches = with_go_flags(Cli::command()).get_matches_from(["velero", "server"].iter().chain(flags));
        let Command::Server(arguments) = Cli::from_arg_matches(&matches).unwrap().command else {
            panic!("not the server")
        };
        server_settings(*arguments, Settings::resolve(GlobalArguments::default(), &ClientConfig::default())).unwrap()
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
        assert!(settings.restore_only && settings.disabled_controllers.contains("gc"));
    }
}

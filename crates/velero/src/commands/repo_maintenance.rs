//! `velero repo-maintenance`

use anyhow::Result;
use velero_controllers::{MaintenanceSettings, run_maintenance};

use crate::arguments::RepoMaintenanceArguments;
use crate::settings::Settings;

/// Maintains one repository. What goes wrong is what the Job that runs this is known by.
pub(super) async fn repo_maintenance(arguments: RepoMaintenanceArguments, settings: Settings) -> Result<()> {
    let maintenance = MaintenanceSettings {
        namespace: settings.namespace,
        kubeconfig: settings.kubeconfig,
        context: settings.context,
        version: crate::version::VERSION.to_owned(),
        volume_namespace: arguments.repo_name,
        location: arguments.backup_storage_location,
        repository_type: arguments.repo_type,
        log: arguments.log,
    };
    run_maintenance(&maintenance).await?;
    Ok(())
}

//! What runs in the pod of a maintenance Job.

use std::path::PathBuf;
use std::time::Duration;

use velero_api::repository::KOPIA;
use velero_api::v1::BackupStorageLocation;
use velero_cluster::{Cluster, ConnectOptions};
use velero_plugin::host::PluginDirectory;

use crate::repository::jobs::ERROR_MARK;
use crate::repository::work::maintain_repository;
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::locations::Locations;
use crate::runtime::log_format::LogSettings;
use crate::runtime::logging;
use crate::runtime::objects::Objects;
use crate::runtime::repositories::Repositories;
use crate::runtime::signals::cancelled_when_told;
use crate::runtime::store_message::explain;

/// How long a request to a store may be repeated at most.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often the cluster is asked for the location, and the pause in between.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);

/// Which repository is to be maintained, and where that is known.
#[derive(Clone, Debug)]
pub struct MaintenanceSettings {
    /// The namespace of the server.
    pub namespace: String,
    /// The kubeconfig file; nothing means `$KUBECONFIG`, `~/.kube/config` or the service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig file; nothing means its current one.
    pub context: Option<String>,
    /// The version it reports.
    pub version: String,
    /// The namespace whose volumes the repository holds.
    pub volume_namespace: String,
    /// The BackupStorageLocation the repository is in.
    pub location: String,
    /// The format of the repository.
    pub repository_type: String,
    /// How it logs.
    pub log: LogSettings,
}

/// Why a repository was not maintained. Its words are what the pod says in the end, with the causes in them.
#[derive(Debug, thiserror::Error)]
#[error("{ERROR_MARK}{}", explain(.0))]
pub struct MaintenanceError(Error);

/// Maintains a repository.
pub async fn run_maintenance(settings: &MaintenanceSettings) -> Result<(), MaintenanceError> {
    run(settings).await.map_err(MaintenanceError)
}

async fn run(settings: &MaintenanceSettings) -> Result<()> {
    logging::install(settings.log.level()?, settings.log.log_format);
    check(settings)?;
    let options = ConnectOptions {
        kubeconfig: settings.kubeconfig.clone(),
        context: settings.context.clone(),
        user_agent: Some(format!("velero-repo-maintenance/{}", settings.version)),
        ..ConnectOptions::default()
    };
    let objects = Objects::new(Cluster::connect(&options).await?, &settings.namespace);
    let location = find_location(&objects, &settings.location).await?;
    if location.is_read_only() {
        let problem = "it is ReadOnly (spec.accessMode), so its repositories are not maintained";
        return Err(Error::unmet("BackupStorageLocation", &settings.location, problem));
    }
    let locations = Locations::new(objects.clone(), PATIENCE, PluginDirectory::default().manager());
    let repositories = Repositories::new(objects, locations);
    let cancel = cancelled_when_told("Told to end; the maintenance stops between two steps")?;
    maintain_repository(&repositories, &location, &settings.volume_namespace, cancel).await
}

fn check(settings: &MaintenanceSettings) -> Result<()> {
    let refused = |flag, problem: &str| Err(Error::Setting { flag, problem: problem.to_owned() });
    if settings.volume_namespace.is_empty() {
        return refused("repo-name", "it is required: the namespace whose volumes the repository holds");
    }
    if settings.location.is_empty() {
        return refused("backup-storage-location", "it is required: the location the repository is in");
    }
    if settings.repository_type != KOPIA {
        return refused("repo-type", "only kopia repositories can be maintained");
    }
    Ok(())
}

/// The location, asked for again while the cluster does not answer.
async fn find_location(objects: &Objects, name: &str) -> Result<BackupStorageLocation> {
    let mut tried = 1;
    loop {
        match objects.get::<BackupStorageLocation>(name).await {
            Ok(Some(location)) => return Ok(location),
            Ok(None) => {
                let problem = "it does not exist; the repository cannot be found without it";
                return Err(Error::unmet("BackupStorageLocation", name, problem));
            }
            Err(error) if tried == TRIES => return Err(error),
            Err(error) => {
                tracing::warn!(location = name, error = describe(&error), "The location could not be read");
                tried += 1;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

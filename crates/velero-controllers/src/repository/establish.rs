//! Connects a repository with what lies in the bucket, or makes it there.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use velero_api::metadata::name;
use velero_api::v1::{BackupRepository, BackupRepositoryPhase, BackupStorageLocation, BackupStorageLocationPhase};
use velero_repo::clock::system_clock;
use velero_repo::format::{Format, REPOSITORY_BLOB};
use velero_repo::store::BlobStore;
use velero_repo::{Error as RepositoryError, Repository, RepositoryState, repository_state};
use velero_rules::repository_config::full_maintenance_interval;

use crate::repository::password::ensure_password;
use crate::repository::settings::repository_settings;
use crate::repository::state::{write_not_ready, write_ready};
use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result};
use crate::runtime::store_message::explain;

/// How long another installation may take between its look for a repository and what it stores: Velero derives a key in between.
const OTHERS: Duration = Duration::from_secs(2);

/// What came of it.
pub(super) enum Established {
    /// It can be used.
    Ready(Box<BackupRepository>),
    /// It cannot, and its status says why.
    NotReady,
    /// It is not known yet whether its location can be used.
    Later,
}

/// What was found in the bucket.
enum Connected {
    Yes,
    /// There is none, and none may be made there.
    AbsentReadOnly(String),
}

/// Connects a repository or makes it, and writes into its status what came of it.
pub(super) async fn establish(context: &Context, repository: &BackupRepository) -> Result<Established> {
    let repository = &complete(context, repository).await?;
    match connect(context, repository).await {
        Ok(true) => Ok(Established::Ready(Box::new(write_ready(context, repository).await?))),
        Ok(false) => Ok(Established::Later),
        // The cluster does not answer, or another server made it at the same moment: that tells nothing of the repository.
        Err(error @ (Error::Cluster(_) | Error::Repository { source: RepositoryError::MadeElsewhere, .. })) => {
            Err(error)
        }
        Err(error) => {
            write_not_ready(context, repository, explain(&error)).await?;
            Ok(Established::NotReady)
        }
    }
}

/// Fills in what the spec of a new repository does not say.
async fn complete(context: &Context, repository: &BackupRepository) -> Result<BackupRepository> {
    let mut complete = repository.clone();
    let frequency = &mut complete.spec.maintenance_frequency;
    if frequency.is_zero() || frequency.is_negative() {
        *frequency = context.settings.repositories.maintenance_frequency();
    }
    if *repository.status.phase() == BackupRepositoryPhase::New
        && let Some(settings) = repository_settings(context).await?
    {
        complete.spec.repository_config = settings;
    }
    if complete == *repository {
        return Ok(complete);
    }
    context.objects.patch(repository, &complete).await
}

/// Connects a repository, or makes it; whether it is known yet if its location can be used.
async fn connect(context: &Context, repository: &BackupRepository) -> Result<bool> {
    let spec = &repository.spec;
    let unusable = |problem: String| Error::unmet("BackupRepository", name(repository), problem);
    let place = &spec.backup_storage_location;
    let location = context.objects.get::<BackupStorageLocation>(place).await?.ok_or_else(|| {
        unusable(format!(
            "BackupStorageLocation {place:?} (spec.backupStorageLocation) does not exist; create it, or delete this \
             BackupRepository"
        ))
    })?;
    match location.status.phase {
        None => return Ok(false),
        Some(BackupStorageLocationPhase::Available) => {}
        Some(_) => return Err(unusable(location.status.message.clone())),
    }
    let interval = full_maintenance_interval(&spec.repository_config);
    let interval = interval.map_err(|problem| unusable(format!("spec.repositoryConfig: {problem}")))?;
    ensure_password(context, repository).await?;
    let is_read_only = location.is_read_only();
    let connected = context.repositories.work(&location, &spec.volume_namespace, move |store, password| {
        connect_blobs(store, &password, is_read_only, interval)
    });
    match connected.await? {
        Connected::Yes => Ok(true),
        Connected::AbsentReadOnly(folder) => Err(unusable(format!(
            "there is no repository in {folder}, and BackupStorageLocation {place:?} is ReadOnly (spec.accessMode), so none \
             is made; make it ReadWrite, or let the cluster make the repository that writes there"
        ))),
    }
}

fn connect_blobs(
    store: Arc<dyn BlobStore>,
    password: &str,
    is_read_only: bool,
    interval: Duration,
) -> velero_repo::Result<Connected> {
    match (repository_state(store.as_ref())?, is_read_only) {
        (RepositoryState::Absent, true) => return Ok(Connected::AbsentReadOnly(store.place())),
        // Whether the password fits is all that is to be known; the index may be large.
        (RepositoryState::Ready, _) | (RepositoryState::NotInitialised, true) => {
            Format::open(&store.get(REPOSITORY_BLOB)?, password, &store.place())?;
        }
        (RepositoryState::Absent, false) => {
            match Repository::begin(store.as_ref(), password) {
                Ok(()) | Err(RepositoryError::MadeElsewhere) => thread::sleep(OTHERS),
                Err(error) => return Err(error),
            }
            Repository::create(store, password, interval, &system_clock())?;
        }
        (RepositoryState::NotInitialised, false) => {
            Repository::create(store, password, interval, &system_clock())?;
        }
    }
    Ok(Connected::Yes)
}

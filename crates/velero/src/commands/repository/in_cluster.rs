//! What the cluster knows of a repository: its location, the credentials for it, and the password.

use anyhow::{Context, Result, anyhow, ensure};
use velero_api::repository::{KOPIA, PASSWORD_KEY, PASSWORD_SECRET, folder, is_kopia};
use velero_api::v1::{BackupRepository, BackupStorageLocation, BackupStorageLocationAccessMode};

use super::place::{Place, open, static_password};
use crate::arguments::PlaceArguments;
use crate::arguments::values::merged;
use crate::commands::location_config::{Given, location_config, secret_value};
use crate::session::Session;

/// The repository of a BackupRepository.
pub(super) async fn find(
    session: &Session,
    name: &str,
    arguments: &PlaceArguments,
    chosen: Option<(String, String)>,
) -> Result<Place> {
    let found = session.find::<BackupRepository>(name).await?;
    let spec = found.map(|found| found.spec).ok_or_else(|| {
        let namespace = session.namespace();
        anyhow!("--repository: BackupRepository {name:?} does not exist in namespace {namespace:?}; 'velero repo get' lists them")
    })?;
    let kind = &spec.repository_type;
    ensure!(
        is_kopia(&spec),
        "BackupRepository {name:?} is of type {kind:?} (spec.repositoryType), and only {KOPIA:?} can be read"
    );
    let wanted = &spec.backup_storage_location;
    let location = session.find::<BackupStorageLocation>(wanted).await?.ok_or_else(|| {
        anyhow!("BackupRepository {name:?} is in BackupStorageLocation {wanted:?} (spec.backupStorageLocation), which does not exist")
    })?;
    let given = Given {
        config: merged(&arguments.config),
        credentials_file: arguments.credentials_file.clone(),
        cacert: arguments.cacert.clone(),
    };
    let config = location_config(session, &location, &given).await?;
    let prefix = folder(&location.spec.object_storage.prefix, &spec.volume_namespace);
    let (store, place) = open(&config, &prefix).await?;
    let (password, password_source) = match chosen {
        Some(chosen) => chosen,
        None => password_in_cluster(session).await?,
    };
    let read_only = location.spec.access_mode == Some(BackupStorageLocationAccessMode::ReadOnly);
    let read_only = read_only.then(|| format!("BackupStorageLocation {wanted:?} is ReadOnly (spec.accessMode)"));
    Ok(Place { store, name: place, password, password_source, read_only })
}

/// The password in the Secret, and where it comes from.
async fn password_in_cluster(session: &Session) -> Result<(String, String)> {
    let (secret, key) = (PASSWORD_SECRET, PASSWORD_KEY);
    let Some(found) = secret_value(session, secret, key).await? else { return Ok(static_password()) };
    let password = String::from_utf8(found).with_context(|| format!("key {key:?} of secret {secret:?} is no text"))?;
    // As Velero does: who makes the Secret from a file has its last line break in it.
    Ok((password.trim().to_owned(), format!("the one in key {key:?} of secret {secret:?}")))
}

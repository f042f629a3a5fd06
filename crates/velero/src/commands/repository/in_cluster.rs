//! What the cluster knows of a repository: its location, the credentials for it, and the password.

use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::{Secret, SecretKeySelector};
use kube::Api;
use velero_api::metadata;
use velero_api::repository::{KOPIA, PASSWORD_KEY, PASSWORD_SECRET, folder, is_kopia};
use velero_api::v1::{BackupRepository, BackupStorageLocation, BackupStorageLocationAccessMode};
use velero_store::{Credentials, CustomerKey, StoreConfig};

use super::place::{Place, open, read, static_password};
use crate::arguments::PlaceArguments;
use crate::arguments::values::merged;
use crate::session::{Session, api_error};

/// The Secret with the credentials of locations that have none of their own, and its key.
const CREDENTIALS_SECRET: (&str, &str) = (crate::install::SECRET, crate::install::SECRET_KEY);
/// The config key that names a Secret with the customer's encryption key, as `name/key`.
const CUSTOMER_KEY_SECRET: &str = "customerKeyEncryptionSecret";

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
    let config = location_config(session, &location, arguments).await?;
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

/// What opens the store of a location from here; flags come before what the cluster says.
async fn location_config(
    session: &Session,
    location: &BackupStorageLocation,
    arguments: &PlaceArguments,
) -> Result<StoreConfig> {
    let spec = &location.spec;
    let mut config = StoreConfig::from_spec(spec);
    config.config.extend(merged(&arguments.config));
    let content = |bytes: Vec<u8>| Credentials::Content(String::from_utf8_lossy(&bytes).into_owned());
    config.credentials = match (&arguments.credentials_file, &spec.credential) {
        (Some(file), _) => Some(Credentials::File(file.clone())),
        (None, Some(selector)) => Some(content(secret_of(session, location, "spec.credential", selector).await?)),
        (None, None) => secret_value(session, CREDENTIALS_SECRET.0, CREDENTIALS_SECRET.1).await?.map(content),
    };
    if let Some(file) = &arguments.cacert {
        config.ca_certificate = Some(read(file)?);
    } else if let Some(selector) = &spec.object_storage.ca_cert_ref {
        config.ca_certificate = Some(secret_of(session, location, "spec.objectStorage.caCertRef", selector).await?);
    }
    if let Some(reference) = config.config.get(CUSTOMER_KEY_SECRET) {
        let (name, key) = reference
            .split_once('/')
            .with_context(|| format!("config {CUSTOMER_KEY_SECRET} is {reference:?}; write it as secret-name/key"))?;
        let selector = SecretKeySelector { name: name.to_owned(), key: key.to_owned(), optional: None };
        let key = secret_of(session, location, CUSTOMER_KEY_SECRET, &selector).await?;
        config.customer_key = Some(CustomerKey(key));
    }
    Ok(config)
}

/// The password in the Secret, and where it comes from.
async fn password_in_cluster(session: &Session) -> Result<(String, String)> {
    let (secret, key) = (PASSWORD_SECRET, PASSWORD_KEY);
    let Some(found) = secret_value(session, secret, key).await? else { return Ok(static_password()) };
    let password = String::from_utf8(found).with_context(|| format!("key {key:?} of secret {secret:?} is no text"))?;
    // As Velero does: who makes the Secret from a file has its last line break in it.
    Ok((password.trim().to_owned(), format!("the one in key {key:?} of secret {secret:?}")))
}

/// A value that a location refers to.
async fn secret_of(
    session: &Session,
    location: &BackupStorageLocation,
    field: &str,
    wanted: &SecretKeySelector,
) -> Result<Vec<u8>> {
    let SecretKeySelector { name: secret, key, .. } = wanted;
    let found = secret_value(session, secret, key).await?;
    found.ok_or_else(|| {
        let location = metadata::name(location);
        let namespace = session.namespace();
        anyhow!(
            "BackupStorageLocation {location:?}: {field} refers to key {key:?} of secret {secret:?}, which does not exist in namespace {namespace:?}"
        )
    })
}

async fn secret_value(session: &Session, name: &str, key: &str) -> Result<Option<Vec<u8>>> {
    let secrets: Api<Secret> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let found = secrets.get_opt(name).await.map_err(api_error)?;
    Ok(found.and_then(|secret| secret.data?.remove(key)).map(|value| value.0))
}

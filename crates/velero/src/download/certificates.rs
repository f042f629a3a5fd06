//! The certificates of a private object store.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use reqwest::Certificate;
use velero_api::v1::{Backup, BackupStorageLocation, Restore};

use crate::session::{Session, api_error};

/// The certificates to trust beside those of the system: the named file, else what the location says.
pub(super) async fn bundle(session: &Session, file: Option<PathBuf>, location: &str) -> Result<Vec<Certificate>> {
    let of_location = of_location(session, location).await.unwrap_or_else(|error| {
        session.printer.note(format_args!("WARNING: Error getting cacert from BSL: {error:#}"));
        None
    });
    let bundle = match file.map(|path| (fs::read(&path), path)) {
        None => of_location,
        Some((Ok(bundle), _)) => Some(bundle),
        Some((Err(error), path)) if of_location.is_some() => {
            let path = path.display();
            session.printer.note(format_args!(
                "Warning: Failed to open CA certificate file {path}: {error}. Using CA certificate from backup storage location instead."
            ));
            of_location
        }
        Some((Err(error), path)) => {
            return Err(error).with_context(|| format!("couldn't open cacert {}", path.display()));
        }
    };
    let bundle = bundle.unwrap_or_default();
    Certificate::from_pem_bundle(&bundle).context("the certificate bundle for the object store is not PEM")
}

/// What a location says: a key of a Secret, or the older bundle inside the location itself.
async fn of_location(session: &Session, name: &str) -> Result<Option<Vec<u8>>> {
    if name.is_empty() {
        return Ok(None);
    }
    let Some(location) = session.find::<BackupStorageLocation>(name).await? else {
        return Ok(None);
    };
    let storage = location.spec.object_storage;
    let Some(reference) = storage.ca_cert_ref else {
        return Ok(storage.ca_cert.map(|ByteString(bundle)| bundle).filter(|bundle| !bundle.is_empty()));
    };
    let namespace = session.namespace();
    let secrets: Api<Secret> = Api::namespaced(session.cluster.client().clone(), namespace);
    let Some(secret) = secrets.get_opt(&reference.name).await.map_err(api_error)? else {
        bail!("certificate secret {} not found in namespace {namespace}", reference.name);
    };
    match secret.data.and_then(|mut data| data.remove(&reference.key)) {
        Some(ByteString(bundle)) => Ok(Some(bundle)),
        None => bail!("key {} not found in secret {}", reference.key, reference.name),
    }
}

/// The location of the backup a restore is made from; empty when that backup is gone.
pub(crate) async fn location_of_restore(session: &Session, restore: &Restore) -> Result<String> {
    let backup = match restore.spec.backup_name.as_str() {
        "" => None,
        name => session.find::<Backup>(name).await?,
    };
    Ok(backup.map(|backup| backup.spec.storage_location).unwrap_or_default())
}

//! What opens the store of a location from here: the location, and the Secrets it refers to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, SecretKeySelector};
use kube::Api;
use kube::api::ListParams;
use velero_api::metadata;
use velero_api::v1::BackupStorageLocation;
use velero_store::{Credentials, CustomerKey, StoreConfig};

use crate::install::{SECRET, SECRET_KEY, SERVER};
use crate::session::{Session, api_error};

/// The config key that names a Secret with the customer's encryption key, as `name/key`.
const CUSTOMER_KEY_SECRET: &str = "customerKeyEncryptionSecret";

/// What flags say, which comes before what the cluster says.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    /// Values of the config.
    pub(super) config: BTreeMap<String, String>,
    /// The file with credentials.
    pub(super) credentials_file: Option<PathBuf>,
    /// The file with certificates to trust.
    pub(super) cacert: Option<PathBuf>,
}

/// What opens the store of a location of the cluster.
pub(super) async fn location_config(
    session: &Session,
    location: &BackupStorageLocation,
    given: &Given,
) -> Result<StoreConfig> {
    let mut config = given_config(location, given)?;
    let spec = &location.spec;
    let content = |bytes: Vec<u8>| Credentials::Content(String::from_utf8_lossy(&bytes).into_owned());
    if config.credentials.is_none() {
        config.credentials = match &spec.credential {
            Some(selector) => Some(content(secret_of(session, location, "spec.credential", selector).await?)),
            None => secret_value(session, &credentials_secret(session).await?, SECRET_KEY).await?.map(content),
        };
    }
    if let (None, Some(selector)) = (&given.cacert, &spec.object_storage.ca_cert_ref) {
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

/// What opens the store of a location as far as the location itself and flags say it.
pub(super) fn given_config(location: &BackupStorageLocation, given: &Given) -> Result<StoreConfig> {
    let mut config = StoreConfig::from_spec(&location.spec);
    config.config.extend(given.config.clone());
    config.credentials = given.credentials_file.clone().map(Credentials::File);
    if let Some(file) = &given.cacert {
        config.ca_certificate = Some(read(file)?);
    }
    Ok(config)
}

/// Whether a location refers to what only the cluster has.
pub(super) fn needs_cluster(location: &BackupStorageLocation, given: &Given) -> bool {
    let spec = &location.spec;
    (spec.credential.is_some() && given.credentials_file.is_none())
        || (spec.object_storage.ca_cert_ref.is_some() && given.cacert.is_none())
        || spec.config.contains_key(CUSTOMER_KEY_SECRET)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {path:?}"))
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

/// The Secret with the credentials of locations that have none of their own: the one that the server has, else the one that
/// an installation makes.
async fn credentials_secret(session: &Session) -> Result<String> {
    let api: Api<Deployment> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let deployments = match api.list(&ListParams::default()).await {
        Ok(listed) => listed.items,
        // Who may not look may still read the usual one.
        Err(kube::Error::Api(status)) if status.code == 403 => Vec::new(),
        Err(error) => return Err(api_error(error)),
    };
    Ok(deployments.iter().find_map(mounted_secret).unwrap_or(SECRET).to_owned())
}

/// The Secret that a Deployment of a server mounts for the credentials.
fn mounted_secret(deployment: &Deployment) -> Option<&str> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let is_server = pod.containers.iter().any(|container| container.name == SERVER);
    let mut volumes = pod.volumes.iter().flatten().filter(|_| is_server);
    volumes.find(|volume| volume.name == SECRET)?.secret.as_ref()?.secret_name.as_deref()
}

/// The value of a key of a Secret, where there is one.
pub(super) async fn secret_value(session: &Session, name: &str, key: &str) -> Result<Option<Vec<u8>>> {
    let secrets: Api<Secret> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let found = secrets.get_opt(name).await.map_err(api_error)?;
    Ok(found.and_then(|secret| secret.data?.remove(key)).map(|value| value.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_credentials_of_all_locations_are_those_that_the_server_mounts() {
        let volume = |name: &str| json!([{"name": name, "secret": {"secretName": "backup-velero"}}]);
        for (container, volumes, expected) in [
            ("velero", volume("cloud-credentials"), Some("backup-velero")),
            ("velero", volume("web-tls"), None),
            ("velero", json!([{"name": "cloud-credentials", "emptyDir": {}}]), None),
            ("velero", json!(null), None),
            ("shop", volume("cloud-credentials"), None),
        ] {
            let pod = json!({"containers": [{"name": container}], "volumes": volumes});
            let deployment = json!({"metadata": {}, "spec": {"selector": {}, "template": {"spec": pod}}});
            let deployment: Deployment = serde_json::from_value(deployment).unwrap();
            assert_eq!(mounted_secret(&deployment), expected, "{container} {volumes}");
        }
    }
}

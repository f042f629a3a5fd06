//! From a BackupStorageLocation to its store: the one place where credentials are read.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::SecretKeySelector;
use velero_api::WriteGuard;
use velero_api::metadata::name;
use velero_api::v1::BackupStorageLocation;
use velero_plugin::host::PluginManager;
use velero_store::{
    BackupStore, Credentials, CustomerKey, ObjectStoreHandle, Recorder, Space, StoreConfig, TransferSettings, Troubles,
    guarded, is_built_in,
};

use crate::runtime::credential_files::CredentialFiles;
use crate::runtime::error::{Error, Result};
use crate::runtime::objects::Objects;
use crate::runtime::store_message;

/// The config key that names a Secret with the customer's encryption key, as `name/key`.
const CUSTOMER_KEY_SECRET: &str = "customerKeyEncryptionSecret";

/// The config key with the address of an S3, and what else Velero takes for repositories in one of an unknown provider.
const S3_URL: &str = "s3Url";
const S3_KEYS: [&str; 6] =
    [S3_URL, "region", "s3ForcePathStyle", "insecureSkipTLSVerify", "profile", "credentialsFile"];
/// The provider that speaks S3.
const AWS: &str = "aws";

/// How long a question to a store is repeated.
const LOOK_PATIENCE: Duration = Duration::from_secs(15);

/// Why a location cannot be used, in the words of its status.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unavailable(String);

impl Unavailable {
    fn because(error: &dyn std::error::Error) -> Self {
        Self(store_message::explain(error))
    }
}

/// Opens locations.
#[derive(Clone)]
pub(crate) struct Locations {
    objects: Objects,
    /// How long a request to a store may be repeated at most.
    patience: Duration,
    /// The object stores that plugin binaries bring.
    stores: PluginManager,
    credential_files: Arc<CredentialFiles>,
    /// Asked before everything that changes a store.
    write_guard: Option<WriteGuard>,
    /// What went wrong with requests to stores.
    troubles: Arc<Troubles>,
}

impl Locations {
    pub(crate) fn new(objects: Objects, patience: Duration, stores: PluginManager) -> Self {
        let credential_files = Arc::new(CredentialFiles::new());
        Self { objects, patience, stores, credential_files, write_guard: None, troubles: Arc::default() }
    }

    /// Changes stores only where the guard lets it.
    #[must_use]
    pub(crate) fn guarded(self, write_guard: WriteGuard) -> Self {
        Self { write_guard: Some(write_guard), ..self }
    }

    /// Ends the processes of plugins.
    pub(crate) async fn close(&self) {
        self.stores.stop().await;
    }

    /// What went wrong with requests to stores so far.
    pub(crate) fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    /// How much room a location has, where it lies in a file system.
    pub(crate) async fn space(&self, location: &BackupStorageLocation) -> Option<Space> {
        match self.stores.has_object_store(&location.spec.provider) {
            true => None,
            false => velero_store::space(&StoreConfig::from_spec(&location.spec)).await,
        }
    }

    /// Opens the store of a location with the credentials it has now.
    pub(crate) async fn open(&self, location: &BackupStorageLocation) -> Result<BackupStore> {
        let usual = TransferSettings::default();
        let retry_timeout = usual.retry_timeout.min(self.patience);
        self.open_with(location, TransferSettings { retry_timeout, ..usual }).await
    }

    /// Opens the store of a location for a question that can be asked again: a store that does not answer is soon
    /// taken for one that cannot be reached.
    pub(crate) async fn open_briefly(&self, location: &BackupStorageLocation) -> Result<BackupStore> {
        self.open_with(location, briefly()).await
    }

    /// Looks whether a location can be used. What is wrong with it comes in the words that `velero backup-location check`
    /// has for it, where there are some.
    pub(crate) async fn examine(&self, location: &BackupStorageLocation) -> Result<(), Unavailable> {
        if self.stores.has_object_store(&location.spec.provider) {
            let store = self.open_briefly(location).await.map_err(|error| Unavailable::because(&error))?;
            return store.is_valid().await.map_err(|error| Unavailable::because(&error));
        }
        check(location).map_err(|error| Unavailable::because(&error))?;
        let config = self.config(location).await.map_err(|error| Unavailable::because(&error))?;
        let config = StoreConfig { transfer: briefly(), recorder: Some(Recorder::default()), ..config };
        let prefix = &location.spec.object_storage.prefix;
        let outcome = match config.open().await {
            Ok(store) => BackupStore::new(store, prefix).is_valid().await,
            Err(error) => Err(error),
        };
        let Err(error) = outcome else { return Ok(()) };
        let finding = velero_store::check::explain(&config, prefix, &error).await;
        Err(finding.map_or_else(|| Unavailable::because(&error), |finding| Unavailable(finding.to_string())))
    }

    async fn open_with(&self, location: &BackupStorageLocation, transfer: TransferSettings) -> Result<BackupStore> {
        check(location)?;
        let spec = &location.spec;
        // Who has installed a plugin wants it to be used, also where its name is that of a store that is built in.
        if self.stores.has_object_store(&spec.provider) {
            let store = self.open_plugin(location).await?;
            let store = match &self.write_guard {
                Some(guard) => guarded(store, guard.clone()),
                None => store,
            };
            return Ok(BackupStore::new(store, &spec.object_storage.prefix));
        }
        let config = StoreConfig { transfer, ..self.config(location).await? };
        Ok(BackupStore::new(config.open().await?, &spec.object_storage.prefix))
    }

    /// What opens the store of a location for repositories of volume data. Plugins take no part in that, as in Velero:
    /// pods that move data have none. A provider of which no more is known than the URL of its S3 is taken for that.
    pub(crate) async fn repository_config(&self, location: &BackupStorageLocation) -> Result<StoreConfig> {
        check(location)?;
        let mut config = self.config(location).await?;
        if is_built_in(&config.provider) {
            return Ok(config);
        }
        if !config.config.contains_key(S3_URL) {
            let provider = &config.provider;
            let problem = format!(
                "volume data cannot be kept in a store of provider {provider:?} (spec.provider): repositories work with \
                 aws, azure, gcp and fs, and with every S3 whose address is in config {S3_URL}"
            );
            return Err(invalid(location, problem));
        }
        AWS.clone_into(&mut config.provider);
        config.config.retain(|key, _| S3_KEYS.contains(&key.as_str()));
        Ok(config)
    }

    /// What opens the store of a location that no plugin serves.
    async fn config(&self, location: &BackupStorageLocation) -> Result<StoreConfig> {
        let spec = &location.spec;
        let mut config = StoreConfig::new(&spec.provider, &spec.object_storage.bucket);
        config.config = spec.config.clone();
        config.write_guard.clone_from(&self.write_guard);
        config.recorder = Some(Recorder::counting(Arc::clone(&self.troubles)));
        if let Some(selector) = &spec.credential {
            let content = self.objects.referred_secret(location, "spec.credential", selector).await?;
            config.credentials = Some(Credentials::Content(String::from_utf8_lossy(&content).into_owned()));
        }
        config.ca_certificate = self.ca_certificate(location).await?;
        if let Some(reference) = spec.config.get(CUSTOMER_KEY_SECRET) {
            config.customer_key = Some(self.customer_key(location, reference).await?);
        }
        Ok(config)
    }

    /// Opens a store that a plugin serves.
    async fn open_plugin(&self, location: &BackupStorageLocation) -> Result<ObjectStoreHandle> {
        let spec = &location.spec;
        let bucket = bucket_for_plugin(location)?;
        let mut config = spec.config.clone();
        config.insert("bucket".to_owned(), bucket.to_owned());
        config.insert("prefix".to_owned(), spec.object_storage.prefix.trim_matches('/').to_owned());
        if let Some(certificate) = self.ca_certificate(location).await? {
            config.insert("caCert".to_owned(), String::from_utf8_lossy(&certificate).into_owned());
        }
        if let Some(selector) = &spec.credential {
            let content = self.objects.referred_secret(location, "spec.credential", selector).await?;
            let file = self.credential_files.write(name(location), &content);
            let file = file.map_err(|error| {
                let problem = format!("its credentials cannot be written to a file for its plugin: {error}");
                Error::unmet("BackupStorageLocation", name(location), problem)
            })?;
            config.insert("credentialsFile".to_owned(), file.display().to_string());
        }
        Ok(self.stores.object_store(&spec.provider, bucket, &config).await?)
    }

    async fn ca_certificate(&self, location: &BackupStorageLocation) -> Result<Option<Vec<u8>>> {
        let storage = &location.spec.object_storage;
        Ok(match (&storage.ca_cert, &storage.ca_cert_ref) {
            (_, Some(selector)) => {
                Some(self.objects.referred_secret(location, "spec.objectStorage.caCertRef", selector).await?)
            }
            (Some(certificate), None) => Some(certificate.0.clone()),
            (None, None) => None,
        })
    }

    async fn customer_key(&self, location: &BackupStorageLocation, reference: &str) -> Result<CustomerKey> {
        let Some((secret, key)) = reference.split_once('/') else {
            let problem = format!("config {CUSTOMER_KEY_SECRET} is {reference:?}; write it as secret-name/key");
            return Err(invalid(location, problem));
        };
        let selector = SecretKeySelector { name: secret.to_owned(), key: key.to_owned(), optional: None };
        let content = self.objects.referred_secret(location, CUSTOMER_KEY_SECRET, &selector).await?;
        Ok(CustomerKey(content))
    }
}

/// How often and how long a question is repeated that can be asked again.
fn briefly() -> TransferSettings {
    TransferSettings { retries: 2, retry_timeout: LOOK_PATIENCE, ..TransferSettings::default() }
}

/// Refuses a location that contradicts itself.
pub(crate) fn check(location: &BackupStorageLocation) -> Result<()> {
    let storage = &location.spec.object_storage;
    if storage.ca_cert.is_some() && storage.ca_cert_ref.is_some() {
        return Err(invalid(location, "cannot specify both caCert and caCertRef in objectStorage, use caCertRef"));
    }
    if location.spec.provider.is_empty() {
        return Err(invalid(location, "spec.provider is empty; name the provider of the object store"));
    }
    Ok(())
}

/// The bucket as Velero names it to a plugin: without slashes around it. One inside is meant as a prefix, but for the
/// ARN of an access point.
fn bucket_for_plugin(location: &BackupStorageLocation) -> Result<&str> {
    let written = &location.spec.object_storage.bucket;
    let bucket = written.trim_matches('/');
    if bucket.contains('/') && !bucket.starts_with("arn:aws:s3:") {
        let problem = format!(
            "spec.objectStorage.bucket is {written:?} and must not contain a '/'; put what follows it into \
             spec.objectStorage.prefix"
        );
        return Err(invalid(location, problem));
    }
    Ok(bucket)
}

fn invalid(location: &BackupStorageLocation, problem: impl Into<String>) -> Error {
    Error::invalid("BackupStorageLocation", name(location), problem)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use velero_api::v1::BackupStorageLocationSpec;

    use super::*;

    fn location() -> BackupStorageLocation {
        let spec = BackupStorageLocationSpec { provider: "aws".to_owned(), ..Default::default() };
        BackupStorageLocation::new("velero", "default", spec)
    }

    #[test]
    fn two_sources_of_the_certificate_contradict_each_other() {
        let mut both = location();
        check(&both).unwrap();
        both.spec.object_storage.ca_cert = Some(ByteString(vec![1]));
        check(&both).unwrap();
        both.spec.object_storage.ca_cert_ref = Some(SecretKeySelector::default());
        assert!(check(&both).unwrap_err().to_string().contains("both caCert and caCertRef"));
    }

    #[test]
    fn a_plugin_is_told_the_bucket_as_velero_tells_it() {
        let arn = "arn:aws:s3::123456789012:accesspoint/backups.mrap";
        for (written, expected) in
            [("backups", Some("backups")), ("/backups/", Some("backups")), (arn, Some(arn)), ("backups/team", None)]
        {
            let mut location = location();
            location.spec.object_storage.bucket = written.to_owned();
            match (bucket_for_plugin(&location), expected) {
                (Ok(found), Some(expected)) => assert_eq!(found, expected),
                (Err(error), None) => assert!(error.to_string().contains("spec.objectStorage.prefix"), "{error}"),
                (found, _) => panic!("{written}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_location_without_a_provider_is_refused() {
        let mut unnamed = location();
        unnamed.spec.provider.clear();
        assert!(check(&unnamed).unwrap_err().to_string().contains("spec.provider"));
    }
}

//! The description of a location, and opening it with the provider it names.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use velero_api::WriteGuard;
use velero_api::v1::BackupStorageLocationSpec;

use crate::bucket::{Backend, BucketStore};
use crate::flaws;
use crate::providers::{aws, azure, fs, gcp};
use crate::transfer::SMALLEST_PART;
use crate::{Error, ObjectStoreHandle, Recorder, Result, TransferSettings, guarded};

/// The providers that are built in, by their short names; each also goes by `velero.io/<name>`.
pub const PROVIDERS: [&str; 4] = ["aws", "azure", "fs", "gcp"];

/// Whether a provider needs no plugin.
pub fn is_built_in(provider: &str) -> bool {
    PROVIDERS.contains(&short_name(provider))
}

fn short_name(provider: &str) -> &str {
    provider.strip_prefix("velero.io/").unwrap_or(provider)
}

/// Where the credentials of a location come from.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A file in the form the provider's Velero plugin expects.
    File(PathBuf),
    /// The content of such a file.
    Content(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
            Self::Content(_) => formatter.write_str("Content(…)"),
        }
    }
}

/// Everything needed to open a location.
#[derive(Clone, Debug, Default)]
pub struct StoreConfig {
    /// The provider, such as `aws` or `velero.io/aws`.
    pub provider: String,
    /// The bucket or container; for `fs` an absolute directory unless config `path` names one.
    pub bucket: String,
    /// The location's `spec.config`.
    pub config: BTreeMap<String, String>,
    /// The location's credentials; without them the provider looks into its environment.
    pub credentials: Option<Credentials>,
    /// Certificates to trust besides those of the system, as PEM.
    pub ca_certificate: Option<Vec<u8>>,
    /// The customer's encryption key that config `customerKeyEncryptionSecret` refers to, read by the caller.
    pub customer_key: Option<CustomerKey>,
    /// How uploads are cut and requests repeated.
    pub transfer: TransferSettings,
    /// Asked before and during everything that changes the store.
    pub write_guard: Option<WriteGuard>,
    /// Writes down what passes between us and the store.
    pub recorder: Option<Recorder>,
}

/// An encryption key of the customer; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomerKey(pub Vec<u8>);

impl fmt::Debug for CustomerKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CustomerKey(…)")
    }
}

impl StoreConfig {
    /// A location without any config.
    pub fn new(provider: impl Into<String>, bucket: impl Into<String>) -> Self {
        Self { provider: provider.into(), bucket: bucket.into(), ..Self::default() }
    }

    /// The description in a location's spec; credentials and a CA bundle in a Secret are the caller's to add.
    pub fn from_spec(spec: &BackupStorageLocationSpec) -> Self {
        let storage = &spec.object_storage;
        Self {
            config: spec.config.clone(),
            ca_certificate: storage.ca_cert.as_ref().map(|bundle| bundle.0.clone()),
            ..Self::new(&spec.provider, &storage.bucket)
        }
    }

    /// Adds one entry to the config.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.config.insert(key.to_owned(), value.into());
        self
    }

    /// Connects to the location; an error says what in the description is wrong.
    ///
    /// A bucket that does not exist or refuses us is only noticed by the first request.
    pub async fn open(&self) -> Result<ObjectStoreHandle> {
        let mut transfer = self.transfer.clone();
        if self.short_provider() == "azure" {
            transfer.part_size = azure::block_size(self)?.unwrap_or(transfer.part_size);
        }
        let store = Self::handle(self.backend().await?, transfer);
        Ok(match &self.write_guard {
            Some(guard) => guarded(store, guard.clone()),
            None => store,
        })
    }

    /// The client of the provider.
    pub(crate) async fn backend(&self) -> Result<Backend> {
        match self.short_provider() {
            "aws" => aws::open(self).await,
            "gcp" => gcp::open(self).await,
            "azure" => azure::open(self).await,
            "fs" => fs::open(self).await,
            _ => Err(self.unknown_provider()),
        }
    }

    /// The provider without `velero.io/`.
    pub(crate) fn short_provider(&self) -> &str {
        short_name(&self.provider)
    }

    fn handle(backend: Backend, mut transfer: TransferSettings) -> ObjectStoreHandle {
        transfer.part_size = transfer.part_size.max(SMALLEST_PART);
        Arc::new(BucketStore::new(backend, transfer))
    }

    fn unknown_provider(&self) -> Error {
        Error::UnknownProvider { provider: self.provider.clone(), known: PROVIDERS.join(", ") }
    }

    /// The value of a config key; an empty one counts as not set.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.config.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of a config key that must be a boolean in any form Go accepts.
    pub(crate) fn get_bool(&self, provider: &'static str, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
            Some(other) => Err(invalid(provider, key, format!("{other:?} is not a boolean; write true or false"))),
        }
    }

    /// Refuses config keys the provider does not have, and values that hold what cannot be meant.
    pub(crate) fn check_keys(&self, valid: &[&str]) -> Result<()> {
        if let Some(flaw) = self.flaw() {
            return Err(Error::Spoiled { flaw });
        }
        const COMMON: [&str; 3] = ["bucket", "prefix", "caCert"];
        let known = |key: &str| valid.contains(&key) || COMMON.contains(&key);
        let wrong: Vec<_> = self.config.keys().filter(|key| !known(key)).cloned().collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let valid = valid.iter().chain(&COMMON).map(|key| (*key).to_owned()).collect();
        Err(Error::InvalidKeys { invalid: wrong, valid })
    }

    /// What is odd about the bucket or a value. Certificates have lines; so may a path of a directory.
    fn flaw(&self) -> Option<flaws::Flaw> {
        let of_values = self.config.iter().filter(|(key, _)| !["caCert", "path"].contains(&key.as_str()));
        let of_values = of_values.map(|(key, value)| (format!("config {key}"), value));
        let bucket = ("spec.objectStorage.bucket".to_owned(), &self.bucket);
        std::iter::once(bucket).chain(of_values).find_map(|(name, value)| flaws::of_value(&name, value))
    }

    /// The bucket without slashes around it; one inside is refused since it is meant as a prefix.
    pub(crate) fn bucket_name(&self, provider: &'static str) -> Result<&str> {
        let bucket = self.bucket.trim_matches('/');
        let problem = match bucket {
            "" => "it is empty".to_owned(),
            _ if bucket.contains('/') => {
                format!("{:?} must not contain a '/'; put what follows it into the prefix", self.bucket)
            }
            _ => return Ok(bucket),
        };
        Err(invalid(provider, "bucket", problem))
    }

    /// The certificates to trust: the field, or config `caCert`.
    pub(crate) fn ca_pem(&self) -> Option<&[u8]> {
        self.ca_certificate.as_deref().or_else(|| self.get("caCert").map(str::as_bytes))
    }

    /// The content of the credentials: the field, config `credentialsFile`, or the file a variable names.
    pub(crate) async fn credentials_text(&self, provider: &'static str, variable: &str) -> Result<Option<String>> {
        let path = match &self.credentials {
            Some(Credentials::Content(content)) => return Ok(Some(content.clone())),
            Some(Credentials::File(path)) => Some(path.clone()),
            None => self.get("credentialsFile").map(PathBuf::from),
        };
        let named = || std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let Some(path) = path.or_else(named) else {
            return Ok(None);
        };
        let read = tokio::fs::read_to_string(&path).await;
        let text =
            read.map_err(|error| invalid(provider, "credentialsFile", format!("{}: {error}", path.display())))?;
        Ok(Some(text))
    }
}

/// An error about one field of a location.
pub(crate) fn invalid(provider: &'static str, field: &str, problem: impl Into<String>) -> Error {
    Error::InvalidConfig { provider, field: field.to_owned(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_provider_is_named_with_the_known_ones() {
        let Err(error) = StoreConfig::new("example.io/tape", "b").open().await else { panic!("it must be refused") };
        let text = error.to_string();
        assert!(text.contains("example.io/tape") && text.contains("aws, azure, fs, gcp"), "{text}");
    }

    #[test]
    fn both_names_of_a_provider_are_built_in() {
        for provider in PROVIDERS {
            assert!(is_built_in(provider) && is_built_in(&format!("velero.io/{provider}")));
        }
        assert!(!is_built_in("example.io/aws"));
    }

    #[test]
    fn booleans_are_read_as_go_reads_them() {
        let config = StoreConfig::new("aws", "b").with("a", "T").with("b", "0").with("c", "yes");
        assert!(config.get_bool("aws", "a").unwrap());
        assert!(!config.get_bool("aws", "b").unwrap());
        assert!(!config.get_bool("aws", "missing").unwrap());
        assert!(config.get_bool("aws", "c").is_err());
    }

    #[test]
    fn a_bucket_with_a_prefix_in_it_is_refused() {
        assert_eq!(StoreConfig::new("aws", "/b/").bucket_name("aws").unwrap(), "b");
        assert!(StoreConfig::new("aws", "b/prefix").bucket_name("aws").is_err());
        assert!(StoreConfig::new("aws", "").bucket_name("aws").is_err());
    }

    #[tokio::test]
    async fn a_value_that_ends_in_a_line_break_is_named() {
        for (config, field) in [
            (StoreConfig::new("aws", "b").with("region", "us-east-1\n"), "config region"),
            (StoreConfig::new("gcp", "b\n"), "spec.objectStorage.bucket"),
            (StoreConfig::new("azure", "b").with("storageAccount", "a\r\n"), "config storageAccount"),
        ] {
            let Err(error) = config.open().await else { panic!("{field} must be refused") };
            assert!(error.to_string().contains(&format!("{field} ends in a line break")), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let mut config = StoreConfig::new("aws", "b");
        config.credentials = Some(Credentials::Content("hunter2".to_owned()));
        config.customer_key = Some(CustomerKey(b"hunter2".to_vec()));
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(!format!("{config:?}").contains("104, 117"));
    }
}

//! From a location's config to an S3 client.

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum, resolve_bucket_region};

use super::credential::{Identity, Profile};
use super::endpoint::{Endpoint, Target};
use super::{PROVIDER, encryption};
use crate::location::invalid;
use crate::providers::{client_options, rejected};
use crate::{Result, StoreConfig};

/// The config keys of Velero's AWS plugin, in its order.
const VALID_KEYS: [&str; 16] = [
    "region",
    "s3Url",
    "publicUrl",
    "kmsKeyId",
    "customerKeyEncryptionFile",
    "customerKeyEncryptionSecret",
    "s3ForcePathStyle",
    "signatureVersion",
    "credentialsFile",
    "profile",
    "serverSideEncryption",
    "insecureSkipTLSVerify",
    "enableSharedConfig",
    "tagging",
    "checksumAlgorithm",
    "caCert",
];

/// The region given to stores that have none.
const ANY_REGION: &str = "us-east-1";

/// Everything but the endpoint.
pub(super) async fn configure(config: &StoreConfig) -> Result<AmazonS3Builder> {
    config.check_keys(&VALID_KEYS)?;
    let target = target(config)?;
    let (bucket, of_target) = match &target {
        Target::Bucket(bucket) => (bucket.as_str(), None),
        // Its name is in the host.
        Target::AccessPoint { region, .. } => ("accesspoint", Some(region.clone())),
    };
    warn_of_old_signatures(config);
    let identity = Identity::of(config).await?;
    let options = client_options(PROVIDER, config)?
        .with_allow_invalid_certificates(config.get_bool(PROVIDER, "insecureSkipTLSVerify")?);
    let region = match of_target.or_else(|| region(config, identity.profile())) {
        Some(region) => region,
        None => resolve_bucket_region(bucket, &options).await.map_err(rejected(PROVIDER))?,
    };
    let mut builder = identity
        .builder(config.recorder.as_ref(), &options)?
        .with_bucket_name(bucket)
        .with_region(region)
        .with_client_options(options)
        .with_retry(config.transfer.retry_config())
        // Deleting one by one works with every store; the bulk request does not.
        .with_disable_bulk_delete(true);
    if let Some(recorder) = &config.recorder {
        builder = builder.with_http_connector(recorder.clone());
    }
    if let Some(checksum) = checksum(config)? {
        builder = builder.with_checksum_algorithm(checksum);
    }
    encryption::configure(builder, config).await
}

/// Adds the address; `url` is the store's own or the public one, else the environment may name one.
pub(super) fn with_endpoint(
    builder: AmazonS3Builder,
    config: &StoreConfig,
    url: Option<&str>,
) -> Result<AmazonS3Builder> {
    if let Target::AccessPoint { url: own, .. } = target(config)? {
        if url.is_some() {
            return Err(invalid(
                PROVIDER,
                "bucket",
                "an access point has an address of its own; remove s3Url and publicUrl",
            ));
        }
        return Ok(builder.with_virtual_hosted_style_request(true).with_config(AmazonS3ConfigKey::S3Endpoint, own));
    }
    let force_path_style = config.get_bool(PROVIDER, "s3ForcePathStyle")?;
    let field = if url == config.get("s3Url") { "s3Url" } else { "publicUrl" };
    let from_environment = || {
        [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
            .iter()
            .find_map(|key| builder.get_config_value(key))
    };
    let url = url.map(str::to_owned).or_else(from_environment);
    let Target::Bucket(bucket) = target(config)? else { return Ok(builder) };
    let bucket = bucket.as_str();
    let endpoint = Endpoint::new(field, url.as_deref(), bucket, force_path_style)?;
    let mut builder =
        builder.with_virtual_hosted_style_request(endpoint.virtual_hosted).with_allow_http(endpoint.plain);
    if let Some(url) = endpoint.url {
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, url);
    }
    Ok(builder)
}

/// What the bucket of the location names.
fn target(config: &StoreConfig) -> Result<Target> {
    if config.bucket.starts_with("arn:") {
        Target::of(&config.bucket)
    } else {
        Target::of(config.bucket_name(PROVIDER)?)
    }
}

/// The region from the config, the profile or the environment; `None` when S3 itself has to be asked.
fn region(config: &StoreConfig, profile: Option<&Profile>) -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let configured = config.get("region").map(str::to_owned);
    let known = configured.or_else(|| profile.and_then(|profile| profile.region.clone()));
    match config.get("s3Url") {
        None => known,
        Some(_) => known
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| Some(ANY_REGION.to_owned())),
    }
}

/// The checksum sent along with each object: none if the config says so, else one the store verifies.
///
/// The plugin's CRC32, CRC32C and SHA1 become SHA-256, which every store that knows any of them knows as well.
fn checksum(config: &StoreConfig) -> Result<Option<Checksum>> {
    match config.config.get("checksumAlgorithm").map(String::as_str) {
        Some("") => Ok(None),
        Some("CRC64NVME") => Ok(Some(Checksum::CRC64NVME)),
        None | Some("CRC32" | "CRC32C" | "SHA1" | "SHA256") => Ok(Some(Checksum::SHA256)),
        Some(other) => {
            let problem =
                format!("{other:?} is not known; use CRC32, CRC32C, CRC64NVME, SHA1, SHA256 or an empty value");
            Err(invalid(PROVIDER, "checksumAlgorithm", problem))
        }
    }
}

/// The plugin accepts the key and always signs with version 4; so do we, but not silently.
fn warn_of_old_signatures(config: &StoreConfig) {
    if let Some(version) = config.get("signatureVersion").filter(|version| *version != "4") {
        tracing::warn!(version, "signatureVersion is ignored: requests and URLs are signed with version 4");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> StoreConfig {
        let mut config = StoreConfig::new("aws", "velero").with("s3Url", "http://127.0.0.1:1").with("region", "r");
        config.credentials = Some(crate::Credentials::Content(
            "[default]\naws_access_key_id = a\naws_secret_access_key = b\n".to_owned(),
        ));
        config
    }

    #[tokio::test]
    async fn every_key_of_the_plugin_is_accepted() {
        let config = base()
            .with("publicUrl", "https://public.example.com")
            .with("s3ForcePathStyle", "true")
            .with("signatureVersion", "1")
            .with("profile", "default")
            .with("serverSideEncryption", "AES256")
            .with("insecureSkipTLSVerify", "true")
            .with("enableSharedConfig", "true")
            .with("tagging", "a=1&b=2")
            .with("checksumAlgorithm", "CRC32");
        config.open().await.unwrap();
    }

    #[tokio::test]
    async fn an_unknown_key_is_named_with_the_valid_ones() {
        let Err(error) = base().with("regoin", "x").open().await else { panic!("it must be refused") };
        let text = error.to_string();
        assert!(
            text.starts_with("config has invalid keys [regoin]; valid keys are [region s3Url publicUrl "),
            "{text}"
        );
    }

    #[tokio::test]
    async fn wrong_values_are_refused() {
        for (key, value) in [
            ("s3ForcePathStyle", "maybe"),
            ("insecureSkipTLSVerify", "2"),
            ("checksumAlgorithm", "MD4"),
            ("publicUrl", "public.example.com"),
            ("tagging", "novalue"),
            ("caCert", "no certificate"),
            ("profile", "absent"),
        ] {
            assert!(base().with(key, value).open().await.is_err(), "{key}={value}");
        }
        let arn = StoreConfig { bucket: "arn:aws:s3:eu-west-1:1:accesspoint:x".to_owned(), ..base() };
        assert!(arn.open().await.is_err(), "an access point beside s3Url");
    }

    #[tokio::test]
    async fn signed_urls_go_to_the_public_address_and_never_show_the_secret() {
        let config = base().with("publicUrl", "https://public.example.com").with("s3ForcePathStyle", "true");
        let store = config.open().await.unwrap();
        let url = store.signed_url("backups/b1/b1-logs.gz", std::time::Duration::from_secs(600)).await.unwrap();
        assert!(url.starts_with("https://public.example.com/velero/backups/b1/b1-logs.gz?"), "{url}");
        assert!(url.contains("X-Amz-Expires=600") && url.contains("X-Amz-Signature="), "{url}");
    }

    #[tokio::test]
    async fn an_access_point_is_asked_at_its_own_host() {
        let mut config = StoreConfig { bucket: "arn:aws:s3:eu-west-1:12:accesspoint/backups".to_owned(), ..base() };
        config.config.remove("s3Url");
        let store = config.open().await.unwrap();
        let url = store.signed_url("cluster/a", std::time::Duration::from_secs(60)).await.unwrap();
        assert!(url.starts_with("https://backups-12.s3-accesspoint.eu-west-1.amazonaws.com/cluster/a?"), "{url}");
        assert!(url.contains("%2Feu-west-1%2Fs3%2F"), "it is signed for its region: {url}");
    }

    #[tokio::test]
    async fn objects_under_a_customer_key_have_no_signed_url() {
        let mut config = base().with("customerKeyEncryptionSecret", "secret/key");
        config.customer_key = Some(crate::CustomerKey(vec![7; 32]));
        let store = config.open().await.unwrap();
        let error = store.signed_url("a", std::time::Duration::from_secs(60)).await.unwrap_err();
        assert!(matches!(error, crate::Error::NotSupported { .. }));
    }

    #[test]
    fn the_checksum_is_sent_unless_switched_off() {
        assert_eq!(checksum(&base()).unwrap(), Some(Checksum::SHA256));
        assert_eq!(checksum(&base().with("checksumAlgorithm", "")).unwrap(), None);
        assert_eq!(checksum(&base().with("checksumAlgorithm", "CRC64NVME")).unwrap(), Some(Checksum::CRC64NVME));
    }
}

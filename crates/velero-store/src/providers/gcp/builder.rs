//! From a location's config to a Cloud Storage client.

use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};

use super::encryption::WithKey;
use super::{PROVIDER, credential};
use crate::location::invalid;
use crate::providers::{client_options, rejected};
use crate::{Result, StoreConfig};

const VALID_KEYS: [&str; 5] = ["kmsKeyName", "serviceAccount", "credentialsFile", "storeEndpoint", "universeDomain"];
const DEFAULT_DOMAIN: &str = "googleapis.com";

pub(super) async fn build(config: &StoreConfig) -> Result<GoogleCloudStorage> {
    config.check_keys(&VALID_KEYS)?;
    refuse_what_is_missing(config)?;
    let endpoint = config.get("storeEndpoint").map(base_url);
    let plain = endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(config.bucket_name(PROVIDER)?)
        .with_client_options(client_options(PROVIDER, config)?.with_allow_http(plain))
        .with_retry(config.transfer.retry_config());
    if let Some(endpoint) = endpoint {
        builder = builder.with_base_url(&endpoint);
    }
    match (WithKey::of(config)?, &config.recorder) {
        (Some(with_key), _) => builder = builder.with_http_connector(with_key),
        (None, Some(recorder)) => builder = builder.with_http_connector(recorder.clone()),
        (None, None) => {}
    }
    builder = credential::configure(builder, config).await?;
    builder.build().map_err(rejected(PROVIDER))
}

/// The address of the XML API. Locations written for the original have the JSON API's, with a path at its end, and may
/// name a host alone.
fn base_url(endpoint: &str) -> String {
    const JSON_API: &str = "/storage/v1";
    let endpoint = endpoint.trim_end_matches('/');
    let endpoint = endpoint.strip_suffix(JSON_API).unwrap_or(endpoint);
    if endpoint.contains("://") { endpoint.to_owned() } else { format!("https://{endpoint}") }
}

/// Options that cannot be followed must not be passed over.
fn refuse_what_is_missing(config: &StoreConfig) -> Result<()> {
    match config.get("universeDomain") {
        None | Some(DEFAULT_DOMAIN) => Ok(()),
        Some(domain) => Err(invalid(PROVIDER, "universeDomain", format!("{domain:?} is not supported"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_of_the_json_api_leads_to_the_xml_api() {
        for endpoint in ["", "/", "/storage/v1", "/storage/v1/"] {
            assert_eq!(base_url(&format!("https://storage.example.com{endpoint}")), "https://storage.example.com");
            assert_eq!(base_url(&format!("http://localhost:4443{endpoint}")), "http://localhost:4443");
        }
    }

    #[test]
    fn a_host_alone_is_spoken_to_with_tls() {
        for endpoint in ["storage-example.p.googleapis.com", "storage-example.p.googleapis.com/storage/v1/"] {
            assert_eq!(base_url(endpoint), "https://storage-example.p.googleapis.com");
        }
    }

    #[test]
    fn options_that_cannot_be_followed_are_refused() {
        let elsewhere = StoreConfig::new("gcp", "b").with("universeDomain", "example.goog");
        assert!(refuse_what_is_missing(&elsewhere).unwrap_err().to_string().contains("universeDomain"));
        refuse_what_is_missing(&StoreConfig::new("gcp", "b").with("universeDomain", "googleapis.com")).unwrap();
    }
}

//! Questions about a bucket that the client library does not ask: its lifecycle, its lock.

use std::time::Duration;

use object_store::aws::{AmazonS3ConfigKey, AwsAuthorizer};
use object_store::client::HttpRequestBody;
use object_store::path::Path;
use object_store::signer::{Method, Signer};

use super::{PROVIDER, builder};
use crate::providers::{client_options, plain_request, rejected};
use crate::{Error, Result, StoreConfig};

/// What is signed to learn the address of the bucket; it is never asked for.
const ANY_KEY: &str = "any";

/// Asks for a part of the bucket's own settings, such as `lifecycle`, and gives status and text of the answer.
pub(crate) async fn subresource(config: &StoreConfig, name: &'static str) -> Result<(u16, String)> {
    let builder = builder::with_endpoint(builder::configure(config).await?, config, config.get("s3Url"))?;
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_default();
    let store = builder.build().map_err(rejected(PROVIDER))?;
    let signed = store.signed_url(Method::GET, &Path::from(ANY_KEY), Duration::from_secs(60)).await;
    let mut address = signed.map_err(|error| failed(name, Box::new(error)))?;
    address.set_query(Some(name));
    let path = address.path().strip_suffix(ANY_KEY).unwrap_or_default().to_owned();
    address.set_path(if path == "/" { "/" } else { path.trim_end_matches('/') });

    let credential = store.credentials().get_credential().await.map_err(|error| failed(name, Box::new(error)))?;
    let request = http::Request::get(address.as_str()).body(HttpRequestBody::empty());
    let mut request = request.map_err(|error| failed(name, Box::new(error)))?;
    let signer = AwsAuthorizer::new(&credential, "s3", &region);
    signer.try_authorize(&mut request, None).map_err(|error| failed(name, Box::new(error)))?;
    let options = client_options(PROVIDER, config)?
        .with_allow_http(address.scheme() == "http")
        .with_allow_invalid_certificates(config.get_bool(PROVIDER, "insecureSkipTLSVerify")?);
    plain_request::send(&options, None, request).await.map_err(|error| failed(name, Box::new(error)))
}

fn failed(name: &str, source: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::Request { action: "ask the bucket for its", key: name.to_owned(), source }
}

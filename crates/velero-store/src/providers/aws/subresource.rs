//! Questions about a bucket that the client library does not ask: its lifecycle, its lock.

use std::time::Duration;

use object_store::aws::{AmazonS3ConfigKey, AwsAuthorizer};
use object_store::client::{HttpConnector, HttpRequestBody, ReqwestConnector};
use object_store::path::Path;
use object_store::signer::{Method, Signer};

use super::{PROVIDER, builder};
use crate::providers::{client_options, rejected};
use crate::{Error, Result, StoreConfig};

/// What is signed to learn the address of the bucket; it is never asked for.
const ANY_KEY: &str = "any";
/// The longest answer that is read.
const LONGEST_ANSWER: usize = 1 << 20;
/// How long the answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks for a part of the bucket's own settings, such as `lifecycle`, and gives status and text of the answer.
pub(crate) async fn subresource(config: &StoreConfig, name: &'static str) -> Result<(u16, String)> {
    match tokio::time::timeout(PATIENCE, ask(config, name)).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(failed(name, elapsed)),
    }
}

async fn ask(config: &StoreConfig, name: &'static str) -> Result<(u16, String)> {
    let builder = builder::with_endpoint(builder::configure(config).await?, config, config.get("s3Url"))?;
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_default();
    let store = builder.build().map_err(rejected(PROVIDER))?;
    let signed = store.signed_url(Method::GET, &Path::from(ANY_KEY), Duration::from_secs(60)).await;
    let mut address = signed.map_err(|error| failed(name, error))?;
    address.set_query(Some(name));
    let path = address.path().strip_suffix(ANY_KEY).unwrap_or_default().to_owned();
    address.set_path(if path == "/" { "/" } else { path.trim_end_matches('/') });

    let credential = store.credentials().get_credential().await.map_err(|error| failed(name, error))?;
    let mut request =
        http::Request::get(address.as_str()).body(HttpRequestBody::empty()).map_err(|error| failed(name, error))?;
    let signer = AwsAuthorizer::new(&credential, "s3", &region);
    signer.try_authorize(&mut request, None).map_err(|error| failed(name, error))?;
    let options = client_options(PROVIDER, config)?
        .with_allow_http(address.scheme() == "http")
        .with_allow_invalid_certificates(config.get_bool(PROVIDER, "insecureSkipTLSVerify")?);
    let client = ReqwestConnector::default().connect(&options).map_err(rejected(PROVIDER))?;
    let response = client.execute(request).await.map_err(|error| failed(name, error))?;
    let (parts, body) = response.into_parts();
    let content = read(name, body).await?;
    Ok((parts.status.as_u16(), String::from_utf8_lossy(&content).into_owned()))
}

async fn read(name: &'static str, body: object_store::client::HttpResponseBody) -> Result<Vec<u8>> {
    use futures::TryStreamExt;
    let mut content = Vec::new();
    let mut stream = body.bytes_stream();
    while content.len() < LONGEST_ANSWER
        && let Some(chunk) = stream.try_next().await.map_err(|error| failed(name, error))?
    {
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

fn failed(name: &str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Request { action: "ask the bucket for its", key: name.to_owned(), source: Box::new(source) }
}

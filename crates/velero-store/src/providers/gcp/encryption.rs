//! The key that Cloud Storage encrypts objects with, as `kmsKeyName` names it.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::HeaderValue;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

use super::PROVIDER;
use crate::location::invalid;
use crate::{Recorder, Result, StoreConfig};

/// The header that names the key. Requests are signed by a token, so it can be added to them.
const HEADER: &str = "x-goog-encryption-kms-key-name";
const FIELD: &str = "kmsKeyName";

/// Makes clients that name the key wherever an object is made.
#[derive(Clone, Debug)]
pub(super) struct WithKey {
    key: HeaderValue,
    recorder: Option<Recorder>,
}

impl WithKey {
    /// What the location asks for; nothing where it names no key.
    pub(super) fn of(config: &StoreConfig) -> Result<Option<Self>> {
        let Some(name) = config.get(FIELD) else { return Ok(None) };
        let parts: Vec<&str> = name.split('/').collect();
        let is_name = matches!(parts[..], ["projects", _, "locations", _, "keyRings", _, "cryptoKeys", _]);
        let key = HeaderValue::from_str(name).ok().filter(|_| is_name);
        let key = key.ok_or_else(|| {
            let form = "projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY";
            invalid(PROVIDER, FIELD, format!("{name:?} is not the name of a key; write {form}"))
        })?;
        Ok(Some(Self { key, recorder: config.recorder.clone() }))
    }
}

impl HttpConnector for WithKey {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = match &self.recorder {
            Some(recorder) => recorder.connect(options)?,
            None => ReqwestConnector::default().connect(options)?,
        };
        Ok(HttpClient::new(Keyed { client, key: self.key.clone() }))
    }
}

#[derive(Debug)]
struct Keyed {
    client: HttpClient,
    key: HeaderValue,
}

#[async_trait]
impl HttpService for Keyed {
    async fn call(&self, mut request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        if makes_object(request.method().as_str(), request.uri().query().unwrap_or_default()) {
            request.headers_mut().insert(HEADER, self.key.clone());
        }
        self.client.execute(request).await
    }
}

/// Whether a request makes an object: at once, or by beginning an upload of parts. The parts themselves do not.
fn makes_object(method: &str, query: &str) -> bool {
    let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    match method {
        "PUT" => !has("uploadId"),
        "POST" => has("uploads"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_named_where_an_object_is_made_and_nowhere_else() {
        for (method, query, makes) in [
            ("PUT", "", true),
            ("PUT", "partNumber=1&uploadId=u", false),
            ("POST", "uploads", true),
            ("POST", "uploads=", true),
            ("POST", "uploadId=u", false),
            ("GET", "", false),
            ("DELETE", "", false),
        ] {
            assert_eq!(makes_object(method, query), makes, "{method} {query}");
        }
    }

    #[test]
    fn a_key_that_is_no_name_of_one_is_refused() {
        let config = |name: &str| StoreConfig::new("gcp", "b").with(FIELD, name);
        assert!(WithKey::of(&config("projects/p/locations/l/keyRings/r/cryptoKeys/k")).unwrap().is_some());
        assert!(WithKey::of(&StoreConfig::new("gcp", "b")).unwrap().is_none());
        for wrong in ["key", "projects/p/key", "projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1"] {
            assert!(WithKey::of(&config(wrong)).is_err(), "{wrong}");
        }
    }
}

//! Where traces go.

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// What OTLP adds to the address of a collector.
const PATH: &str = "/v1/traces";

/// The variable with headers for the collector, as all that speak OpenTelemetry know it.
pub(crate) const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Such an address.
const EXAMPLE: &str = "write for example http://collector.observability:4318";

/// Why traces can go nowhere, and what to write instead.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndpointError {
    /// The text is no URL.
    #[error("{address:?} is no address: {problem}; {EXAMPLE}")]
    NoAddress { address: String, problem: String },
    /// It has a user or a password. It is not repeated.
    #[error("the address must hold no user and password; put them into the variable {HEADERS}")]
    Password,
    /// It is not one of HTTP.
    #[error("{address:?} does not begin with http:// or https://; {EXAMPLE}")]
    NotHttp { address: String },
    /// It is the one for gRPC.
    #[error(
        "port 4317 is where collectors take gRPC, and traces are sent over HTTP, which they take on port 4318; {EXAMPLE}"
    )]
    Grpc,
    /// A header is no pair. It is named by its place: it may be a key.
    #[error("{HEADERS}: entry {place} is not of the form name=value")]
    Header { place: usize },
}

/// The address of a collector that takes OTLP over HTTP, and what it is to be told with every request.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(super) url: Url,
    /// They may hold keys, and are never told.
    pub(super) headers: HeaderMap,
}

impl Endpoint {
    /// Reads an address; nothing means that there are no traces. An error says what to write instead.
    pub(crate) fn read(address: &str) -> Result<Option<Url>, EndpointError> {
        if address.is_empty() {
            return Ok(None);
        }
        let mut url = Url::parse(address)
            .map_err(|error| EndpointError::NoAddress { address: address.to_owned(), problem: error.to_string() })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::Password);
        }
        if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
            return Err(EndpointError::NotHttp { address: address.to_owned() });
        }
        if url.port() == Some(4317) {
            return Err(EndpointError::Grpc);
        }
        if !url.path().ends_with(PATH) {
            let path = format!("{}{PATH}", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        Ok(Some(url))
    }

    /// The collector at an address, with the headers that a variable holds: `name=value,name=value`.
    pub(crate) fn new(url: Url, headers: &str) -> Result<Self, EndpointError> {
        let mut all = HeaderMap::new();
        let pairs = headers.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        for (place, pair) in pairs.enumerate() {
            let wrong = || EndpointError::Header { place: place + 1 };
            let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
            let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
            let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(&*value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            all.insert(name, value);
        }
        Ok(Self { url, headers: all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_completed_as_the_protocol_says() {
        let read = |address: &str| Endpoint::read(address).unwrap().map(String::from);
        assert_eq!(read(""), None);
        for (address, expected) in [
            ("http://collector:4318", "http://collector:4318/v1/traces"),
            ("https://collector/otlp/", "https://collector/otlp/v1/traces"),
            ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318/v1/traces"),
        ] {
            assert_eq!(read(address).as_deref(), Some(expected));
        }
    }

    #[test]
    fn an_address_that_cannot_work_is_refused_with_the_remedy_and_without_a_password() {
        for (address, words) in [
            ("collector:4318", "http://"),
            ("nonsense", "write for example http://"),
            ("http://collector:4317", "port 4318"),
            ("https://me:MARKED@collector", HEADERS),
        ] {
            let problem = Endpoint::read(address).unwrap_err().to_string();
            assert!(problem.contains(words) && !problem.contains("MARKED"), "{problem}");
        }
    }

    #[test]
    fn headers_are_read_and_never_told() {
        let url = || Url::parse("http://c/v1/traces").unwrap();
        let endpoint = Endpoint::new(url(), "api-key=MARKED%20key, x-tenant = shop").unwrap();
        assert_eq!(endpoint.headers["api-key"], "MARKED key");
        assert_eq!(endpoint.headers["x-tenant"], "shop");
        assert!(!format!("{endpoint:?}").contains("MARKED"));
        assert!(Endpoint::new(url(), "").unwrap().headers.is_empty());
        for wrong in ["MARKED", "a=b,MARKED", "na me=MARKED", "a=%ffMARKED", "a=MARKED\u{1}"] {
            let problem = Endpoint::new(url(), wrong).unwrap_err().to_string();
            assert!(problem.contains(HEADERS) && !problem.contains("MARKED"), "{problem}");
        }
    }
}

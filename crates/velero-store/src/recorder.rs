//! What passes between us and a store, written down for whoever has to say why it does not work.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::BytesMut;
use futures::TryStreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use serde::Deserialize;
use velero_api::with_causes;

use crate::Troubles;

/// As much of a refusal as is read: it is a code and a sentence.
const LARGEST_REFUSAL: usize = 64 << 10;
/// As many exchanges are kept: the last ones decide.
const MOST_EXCHANGES: usize = 64;
/// The beginnings of headers that only object stores send.
const STORE_HEADERS: [&str; 4] = ["x-amz-", "x-ms-", "x-goog-", "x-guploader-"];

/// Writes down every request of a store's client and what came of it. It has no secrets: neither queries, nor headers that
/// were sent, nor objects. One that only counts keeps nothing and reads no answer.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    /// Where troubles are counted, instead of writing anything down.
    counts: Option<Arc<Troubles>>,
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The method of the request.
    pub method: String,
    /// Where it went, without the query.
    pub address: String,
    /// When it was sent, by our clock.
    pub sent: SystemTime,
    /// When its answer came, by our clock.
    pub received: SystemTime,
    /// What came.
    pub answer: Answer,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Somebody answered.
    Response(Box<Response>),
    /// Nobody did: what the connection said.
    Broken(String),
}

/// An answer, as far as it tells who gave it and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The error code of the store, such as `NoSuchBucket`.
    pub code: String,
    /// The sentence beside it.
    pub message: String,
    /// The region that the store says the bucket is in.
    pub region: String,
    /// The time, by the clock of the store.
    pub date: Option<SystemTime>,
    /// What calls itself the server.
    pub server: String,
    /// The kind of content.
    pub content_type: String,
    /// Whether it has what only object stores send.
    pub is_of_a_store: bool,
}

impl Response {
    /// Whether it is about the key that objects are encrypted with.
    pub(crate) fn is_about_a_key(&self) -> bool {
        self.code.starts_with("KMS.") || self.message.contains("kms:")
    }

    /// Whether the store does not believe who asks: some say so by a code that others have for rights.
    pub(crate) fn is_about_a_proof(&self) -> bool {
        self.message.contains("failed to authenticate")
    }
}

impl Recorder {
    /// One that counts troubles and writes nothing down.
    pub fn counting(troubles: Arc<Troubles>) -> Self {
        Self { counts: Some(troubles), ..Self::default() }
    }

    /// What passed so far, in order.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What passed last.
    pub fn last(&self) -> Option<Exchange> {
        self.exchanges().pop()
    }

    fn add(&self, exchange: Exchange) {
        let mut exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        if exchanges.len() == MOST_EXCHANGES {
            exchanges.remove(0);
        }
        exchanges.push(exchange);
    }
}

impl HttpConnector for Recorder {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Recorded { client, recorder: self.clone() }))
    }
}

/// A client whose requests are written down.
#[derive(Debug)]
struct Recorded {
    client: HttpClient,
    recorder: Recorder,
}

#[async_trait]
impl HttpService for Recorded {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if let Some(troubles) = &self.recorder.counts {
            let outcome = self.client.execute(request).await;
            troubles.note(outcome.as_ref().ok().map(|response| response.status()));
            return outcome;
        }
        let method = request.method().to_string();
        let address = without_query(&request.uri().to_string()).to_owned();
        let sent = SystemTime::now();
        let outcome = match self.client.execute(request).await {
            Ok(response) => read(response).await,
            Err(error) => Err(error),
        };
        let (answer, outcome) = match outcome {
            Ok((answer, response)) => (Answer::Response(Box::new(answer)), Ok(response)),
            Err(error) => (Answer::Broken(with_causes(&error)), Err(error)),
        };
        self.recorder.add(Exchange { method, address, sent, received: SystemTime::now(), answer });
        outcome
    }
}

fn without_query(address: &str) -> &str {
    address.split_once('?').map_or(address, |(address, _)| address)
}

/// Looks at an answer; the body of a refusal is read for that, and handed on.
async fn read(response: HttpResponse) -> Result<(Response, HttpResponse), HttpError> {
    let (parts, body) = response.into_parts();
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut answer = Response {
        status: parts.status.as_u16(),
        region: header("x-amz-bucket-region").to_owned(),
        date: date(header("date")),
        server: header("server").to_owned(),
        content_type: header("content-type").to_owned(),
        code: header("x-ms-error-code").to_owned(),
        is_of_a_store: parts
            .headers
            .keys()
            .any(|name| STORE_HEADERS.iter().any(|begin| name.as_str().starts_with(begin))),
        ..Response::default()
    };
    if parts.status.is_success() {
        return Ok((answer, HttpResponse::from_parts(parts, body)));
    }
    let mut content = BytesMut::new();
    let mut stream = body.bytes_stream();
    while content.len() < LARGEST_REFUSAL
        && let Some(chunk) = stream.try_next().await?
    {
        content.extend_from_slice(&chunk);
    }
    let refusal = Refusal::parse(&String::from_utf8_lossy(&content));
    answer.is_of_a_store |= refusal.is_of_a_store;
    for (known, said) in
        [(&mut answer.code, refusal.code), (&mut answer.message, refusal.message), (&mut answer.region, refusal.region)]
    {
        if !said.is_empty() {
            *known = said;
        }
    }
    Ok((answer, HttpResponse::from_parts(parts, content.freeze().into())))
}

/// The time in a header, as in `Wed, 18 Nov 2026 00:27:39 GMT`.
fn date(text: &str) -> Option<SystemTime> {
    jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp().into())
}

/// What a store says about a request it refuses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Refusal {
    code: String,
    message: String,
    region: String,
    is_of_a_store: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct XmlError {
    code: String,
    message: String,
    region: String,
}

/// The answer of the service that hands out roles wraps the same.
#[derive(Deserialize)]
struct XmlErrorResponse {
    #[serde(rename = "Error")]
    error: XmlError,
}

/// The answer of those who hand out tokens.
#[derive(Deserialize)]
struct TokenError {
    error: String,
    #[serde(default)]
    error_description: String,
}

impl TokenError {
    /// Whether it is what their protocol has, such as `invalid_grant`: any server may say that there was an error.
    fn is_of_the_protocol(&self) -> bool {
        self.error.contains('_') || !self.error_description.is_empty()
    }
}

impl Refusal {
    fn parse(text: &str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let xml = quick_xml::de::from_str::<XmlErrorResponse>(text).map(|response| response.error);
        let xml = xml.or_else(|_| quick_xml::de::from_str::<XmlError>(text)).ok();
        if let Some(XmlError { code, message, region }) = xml.filter(|error| !error.code.is_empty()) {
            return Self { code, message: one_line(&message), region, is_of_a_store: true };
        }
        match serde_json::from_str::<TokenError>(text) {
            Ok(token) if token.is_of_the_protocol() => Self {
                code: token.error,
                message: one_line(&token.error_description),
                is_of_a_store: true,
                ..Self::default()
            },
            _ => Self { message: one_line(text).chars().take(200).collect(), ..Self::default() },
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_refusal_is_found_in_all_their_forms() {
        for (text, code, region) in [
            (
                "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>",
                "NoSuchBucket",
                "",
            ),
            (
                "\u{feff}<?xml version=\"1.0\"?><Error><Code>ContainerNotFound</Code><Message>a\nb</Message></Error>",
                "ContainerNotFound",
                "",
            ),
            (
                "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region><RequestId>1</RequestId></Error>",
                "AuthorizationHeaderMalformed",
                "eu-west-1",
            ),
            (
                "<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredToken</Code></Error></ErrorResponse>",
                "ExpiredToken",
                "",
            ),
            (r#"{"error":"invalid_grant","error_description":"Invalid JWT"}"#, "invalid_grant", ""),
        ] {
            let refusal = Refusal::parse(text);
            assert_eq!((refusal.code.as_str(), refusal.region.as_str()), (code, region), "{text}");
            assert!(refusal.is_of_a_store, "{text}");
        }
    }

    #[test]
    fn what_another_server_says_is_not_taken_for_a_stores() {
        for text in [
            "",
            "<html><body>404</body></html>",
            "not found",
            r#"{"kind":"Status","code":404}"#,
            r#"{"error":"Not Found"}"#,
            "<Error/>",
        ] {
            let refusal = Refusal::parse(text);
            assert!(refusal.code.is_empty() && !refusal.is_of_a_store, "{text}: {refusal:?}");
        }
    }

    #[test]
    fn the_time_of_an_answer_is_read() {
        let second = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(date("Thu, 01 Jan 1970 00:00:30 GMT").map(second), Some(30));
        assert_eq!(date("yesterday"), None);
    }
}

//! Sending a request and reading its answer as bytes.

use std::time::Duration;

use bytes::Bytes;
use http::header::DATE;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::connect::Cluster;
use crate::error::{Error, Result};

/// The API server gives up on a request after 60 seconds; a connection silent for longer than this is dead.
pub(crate) const LONGEST_SILENCE: Duration = Duration::from_secs(90);

impl Cluster {
    /// Sends a request; an answer that is not a success becomes an error that names the action.
    pub(crate) async fn send(&self, action: &str, request: Request<Vec<u8>>) -> Result<Response<Body>> {
        let answer = self.client().send(request.map(Body::from)).await;
        let response = answer.map_err(|error| Error::from_kube(action, error))?;
        let code = response.status();
        if code.is_success() {
            return Ok(response);
        }
        let body = read_body(action, response.into_body(), 0).await?;
        Err(Error::from_status(action, status_of(code.as_u16(), &body)))
    }

    /// Sends a request and collects the whole answer; `size_hint` is the expected size in bytes, or zero.
    pub(crate) async fn fetch(&self, action: &str, request: Request<Vec<u8>>, size_hint: usize) -> Result<Bytes> {
        let response = self.send(action, request).await?;
        read_body(action, response.into_body(), size_hint).await
    }

    /// Reads an object by its path, and when the API server answered by its own clock, as its header `Date` has it;
    /// `None` when there is no such object.
    pub async fn get_dated<T: DeserializeOwned>(&self, path: &str) -> Result<Option<(T, Option<String>)>> {
        let action = format!("get {path}");
        let request = Request::get(path).body(Vec::new());
        let request =
            request.map_err(|error| Error::BadRequest { action: action.clone(), message: error.to_string() })?;
        let response = match self.send(&action, request).await {
            Err(Error::NotFound(_)) => return Ok(None),
            response => response?,
        };
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
        let body = read_body(&action, response.into_body(), 0).await?;
        let object = serde_json::from_slice(&body);
        let object = object.map_err(|source| Error::Unreadable { action, source: source.into() })?;
        Ok(Some((object, date)))
    }
}

/// The next piece of an answer; none at its end. A server that falls silent half way is not waited for.
pub(crate) async fn next_piece(action: &str, body: &mut Body) -> Result<Option<Bytes>> {
    loop {
        let frame = timeout(LONGEST_SILENCE, body.frame()).await.map_err(|_| Error::Unreachable {
            action: action.to_owned(),
            source: format!("silent for {} seconds", LONGEST_SILENCE.as_secs()).into(),
        })?;
        match frame.transpose().map_err(|error| Error::from_kube(action, error))? {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

async fn read_body(action: &str, mut body: Body, size_hint: usize) -> Result<Bytes> {
    let mut buffer = Vec::with_capacity(size_hint);
    while let Some(piece) = next_piece(action, &mut body).await? {
        buffer.extend_from_slice(&piece);
    }
    // Items keep a page alive for long: give the spare room of the growing buffer back.
    buffer.shrink_to_fit();
    Ok(Bytes::from(buffer))
}

/// The `Status` of a refused request. A proxy on the way, or an unknown path, answers with plain text.
fn status_of(code: u16, body: &[u8]) -> Status {
    match serde_json::from_slice::<Status>(body) {
        Ok(status) if status.code != 0 => status,
        Ok(status) if !status.message.is_empty() => status.with_code(code),
        _ => Status::failure(String::from_utf8_lossy(body).trim(), "").with_code(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_text_refusal_keeps_its_text_and_code() {
        let status = status_of(404, b"404 page not found\n");
        assert_eq!((status.code, status.message.as_str()), (404, "404 page not found"));
    }

    #[test]
    fn a_status_object_is_taken_as_it_is() {
        let status = status_of(409, br#"{"kind":"Status","code":409,"reason":"AlreadyExists","message":"exists"}"#);
        assert_eq!((status.reason.as_str(), status.message.as_str()), ("AlreadyExists", "exists"));
    }
}

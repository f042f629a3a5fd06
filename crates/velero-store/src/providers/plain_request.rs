//! Single requests that the client library does not make: for keys, roles and settings.

use std::time::Duration;

use futures::TryStreamExt;
use object_store::ClientOptions;
use object_store::client::{HttpConnector, HttpRequest, ReqwestConnector};
use velero_api::with_causes;

use crate::Recorder;

/// The longest answer that is read.
const LONGEST_ANSWER: usize = 1 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request and gives status and text of the answer, or why there is none.
pub(super) async fn send(
    options: &ClientOptions,
    recorder: Option<&Recorder>,
    request: HttpRequest,
) -> Result<(u16, String), String> {
    match tokio::time::timeout(PATIENCE, exchange(options, recorder, request)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {} seconds", PATIENCE.as_secs())),
    }
}

async fn exchange(
    options: &ClientOptions,
    recorder: Option<&Recorder>,
    request: HttpRequest,
) -> Result<(u16, String), String> {
    let client = match recorder {
        Some(recorder) => recorder.connect(options),
        None => ReqwestConnector::default().connect(options),
    };
    let client = client.map_err(|error| with_causes(&error))?;
    let response = client.execute(request).await.map_err(|error| with_causes(&error))?;
    let (parts, body) = response.into_parts();
    let (mut content, mut stream) = (Vec::new(), body.bytes_stream());
    while content.len() < LONGEST_ANSWER
        && let Some(chunk) = stream.try_next().await.map_err(|error| with_causes(&error))?
    {
        content.extend_from_slice(&chunk);
    }
    Ok((parts.status.as_u16(), String::from_utf8_lossy(&content).into_owned()))
}

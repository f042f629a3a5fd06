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

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    /// It took too long.
    #[error("no answer within {} seconds", PATIENCE.as_secs())]
    TooLate,
    /// The request could not be sent or its answer not be read; with the causes.
    #[error("{0}")]
    Failed(String),
}

impl Unanswered {
    fn because(error: &dyn std::error::Error) -> Self {
        Self::Failed(with_causes(error))
    }
}

/// Sends a request and gives status and text of the answer, or why there is none.
pub(super) async fn send(
    options: &ClientOptions,
    recorder: Option<&Recorder>,
    request: HttpRequest,
) -> Result<(u16, String), Unanswered> {
    match tokio::time::timeout(PATIENCE, exchange(options, recorder, request)).await {
        Ok(answer) => answer,
        Err(_) => Err(Unanswered::TooLate),
    }
}

async fn exchange(
    options: &ClientOptions,
    recorder: Option<&Recorder>,
    request: HttpRequest,
) -> Result<(u16, String), Unanswered> {
    let client = match recorder {
        Some(recorder) => recorder.connect(options),
        None => ReqwestConnector::default().connect(options),
    };
    let client = client.map_err(|error| Unanswered::because(&error))?;
    let response = client.execute(request).await.map_err(|error| Unanswered::because(&error))?;
    let (parts, body) = response.into_parts();
    let (mut content, mut stream) = (Vec::new(), body.bytes_stream());
    while content.len() < LONGEST_ANSWER
        && let Some(chunk) = stream.try_next().await.map_err(|error| Unanswered::because(&error))?
    {
        content.extend_from_slice(&chunk);
    }
    Ok((parts.status.as_u16(), String::from_utf8_lossy(&content).into_owned()))
}

//! Spans to the collector, in batches, beside the work.

use std::time::Duration;

use prost::Message;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, StatusCode};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::counts::{Counts, Fate};
use super::endpoint::Endpoint;
use super::wire::{KeyValue, Request, Resource, ResourceSpans, Response, Scope, ScopeSpans, Span, Value};
use crate::runtime::error::{Error, Result, describe};

/// The most spans of a request.
const BATCH: usize = 512;

/// How long a span may wait for others to go with.
const GATHERING: Duration = Duration::from_secs(1);

/// How long a request may take.
const ANSWER: Duration = Duration::from_secs(10);

/// How long it is until a batch is sent again that the collector could not take just then.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// How long delivery may go on once the server ends.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The longest answer that is read.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Brings spans to the collector until it is closed.
pub(crate) struct Delivery {
    closing: CancellationToken,
    task: JoinHandle<()>,
}

impl Delivery {
    pub(super) fn start(
        endpoint: Endpoint,
        version: &str,
        queue: Receiver<Span>,
        counts: &'static Counts,
    ) -> Result<Self> {
        velero_cluster::install_crypto_provider();
        let client = Client::builder().connect_timeout(ANSWER).timeout(ANSWER).build();
        let problem = |error| Error::Setting { flag: "trace-endpoint", problem: describe(&error) };
        let client = client.map_err(problem)?;
        let closing = CancellationToken::new();
        let carrier = Carrier {
            client,
            endpoint,
            version: version.to_owned(),
            queue,
            counts,
            closing: closing.clone(),
            is_away: false,
        };
        Ok(Self { closing, task: tokio::spawn(carrier.carry()) })
    }

    /// Sends what waits, once and for a short time, and ends.
    pub(crate) async fn close(mut self) {
        self.closing.cancel();
        if tokio::time::timeout(LAST_WORDS, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

struct Carrier {
    client: Client,
    endpoint: Endpoint,
    version: String,
    queue: Receiver<Span>,
    counts: &'static Counts,
    closing: CancellationToken,
    /// Whether the last batch did not arrive.
    is_away: bool,
}

/// Why a batch was not taken.
struct NotTaken {
    problem: String,
    /// Whether it may be taken later.
    may_pass: bool,
}

impl Carrier {
    async fn carry(mut self) {
        loop {
            let batch = self.gather().await;
            if batch.is_empty() {
                return;
            }
            self.deliver(batch).await;
        }
    }

    /// The next batch; empty when all is closed.
    async fn gather(&mut self) -> Vec<Span> {
        let mut batch = Vec::new();
        let first = tokio::select! {
            biased;
            first = self.queue.recv() => first,
            () = self.closing.cancelled() => self.queue.try_recv().ok(),
        };
        batch.extend(first);
        let until = Instant::now() + GATHERING;
        while !batch.is_empty() && batch.len() < BATCH {
            let next = tokio::select! {
                biased;
                next = self.queue.recv() => next,
                () = self.closing.cancelled() => self.queue.try_recv().ok(),
                () = tokio::time::sleep_until(until) => None,
            };
            let Some(next) = next else { break };
            batch.push(next);
        }
        batch
    }

    async fn deliver(&mut self, batch: Vec<Span>) {
        let count = batch.len();
        let body = self.request(batch).encode_to_vec();
        let mut pauses = PAUSES.iter();
        loop {
            let Err(NotTaken { problem, may_pass }) = self.send(body.clone(), count).await else {
                if std::mem::take(&mut self.is_away) {
                    tracing::info!("Traces are taken again");
                }
                return;
            };
            if !std::mem::replace(&mut self.is_away, true) {
                let endpoint = self.endpoint.url.as_str();
                tracing::warn!(endpoint, error = problem, "Traces are not taken; the work goes on without them");
            }
            let pause = pauses.next().filter(|_| may_pass && !self.closing.is_cancelled());
            let Some(pause) = pause else { break };
            // Who closes wants one last try, not the rest of a pause.
            let _ = tokio::time::timeout(*pause, self.closing.cancelled()).await;
        }
        self.counts.add(Fate::Lost, count);
    }

    async fn send(&self, body: Vec<u8>, count: usize) -> Result<(), NotTaken> {
        let Endpoint { url, headers } = &self.endpoint;
        let request = self.client.post(url.clone()).headers(headers.clone());
        let sent = request.header(CONTENT_TYPE, "application/x-protobuf").body(body).send().await;
        let answer = sent.map_err(|error| NotTaken { problem: describe(&error), may_pass: true })?;
        let status = answer.status();
        if !status.is_success() {
            let passing = [
                StatusCode::TOO_MANY_REQUESTS,
                StatusCode::BAD_GATEWAY,
                StatusCode::SERVICE_UNAVAILABLE,
                StatusCode::GATEWAY_TIMEOUT,
            ];
            return Err(NotTaken { problem: format!("it answers {status}"), may_pass: passing.contains(&status) });
        }
        let refused = refused(answer).await.min(count);
        self.counts.add(Fate::Sent, count - refused);
        self.counts.add(Fate::Lost, refused);
        Ok(())
    }

    fn request(&self, spans: Vec<Span>) -> Request {
        let text = |text: &str| Value::Text(text.to_owned());
        let attributes =
            vec![KeyValue::new("service.name", text("velero")), KeyValue::new("service.version", text(&self.version))];
        let scope = Scope { name: "velero".to_owned(), version: self.version.clone() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        Request { resource_spans: vec![ResourceSpans { resource: Some(Resource { attributes }), scope_spans }] }
    }
}

/// How many spans a collector refused that took the others.
async fn refused(answer: reqwest::Response) -> usize {
    if answer.content_length().is_none_or(|length| length > LONGEST_ANSWER) {
        return 0;
    }
    let Ok(body) = answer.bytes().await else { return 0 };
    let refused = Response::decode(body).ok().and_then(|answer| answer.partial_success);
    let Some(partial) = refused.filter(|partial| partial.rejected_spans > 0) else { return 0 };
    tracing::warn!(spans = partial.rejected_spans, error = partial.error_message, "The collector refused spans");
    usize::try_from(partial.rejected_spans).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;

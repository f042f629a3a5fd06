//! The connection to a plugin: HTTP/2 without a pool, a queue or a second try.
//!
//! An action is called once for every item, one call after the other, so what counts is how often a call changes
//! hands. Here it does so twice: to the task of the connection and back.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Request, Response, Uri, Version};
use http_body::{Body as _, Frame};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tonic::body::Body;
use tower::Service;

/// How much a plugin may send ahead, in one answer and in all together.
const ANSWER_AHEAD: u32 = 1 << 20;
const ANSWERS_AHEAD: u32 = 4 << 20;

/// A connection to a plugin. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    requests: SendRequest<Bytes>,
    closed: watch::Receiver<bool>,
}

impl Connection {
    /// Speaks HTTP/2 over a stream, until the stream ends.
    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Self, h2::Error> {
        let (requests, connection) = h2::client::Builder::new()
            .initial_window_size(ANSWER_AHEAD)
            .initial_connection_window_size(ANSWERS_AHEAD)
            .enable_push(false)
            .handshake(stream)
            .await?;
        let (close, closed) = watch::channel(false);
        tokio::spawn(async move {
            // Why it ended is told to every call that is under way.
            let _ = connection.await;
            close.send_replace(true);
        });
        Ok(Self { requests, closed })
    }

    /// Whether nothing can be sent any more.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Answer>;
    type Error = h2::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.requests.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (head, body) = head_and_body(request);
        let sent = self.requests.send_request(head, false);
        Box::pin(async move {
            let (response, stream) = sent?;
            exchange(response, stream, body).await
        })
    }
}

/// A request as a server wants it. The authority is a matter of form: there is one server at the other end.
fn head_and_body(request: Request<Body>) -> (Request<()>, Body) {
    let (mut head, body) = request.into_parts();
    let mut uri = head.uri.into_parts();
    uri.scheme = Some(Scheme::HTTP);
    uri.authority = Some(Authority::from_static("plugin.invalid"));
    head.uri = Uri::from_parts(uri).unwrap_or_default();
    head.version = Version::HTTP_2;
    (Request::from_parts(head, ()), body)
}

/// Sends the body, and takes the answer as soon as it comes: a plugin may refuse what it has not read to the end.
async fn exchange(
    response: ResponseFuture,
    mut stream: SendStream<Bytes>,
    body: Body,
) -> Result<Response<Answer>, h2::Error> {
    let mut response = response;
    let answered = {
        let send = send(&mut stream, body);
        tokio::pin!(send);
        tokio::select! {
            biased;
            sent = &mut send => {
                // Why a plugin takes no more is in its answer.
                drop(sent);
                None
            }
            answer = &mut response => Some(answer),
        }
    };
    let answer = match answered {
        Some(answer) => answer?,
        None => response.await?,
    };
    Ok(answer.map(|received| Answer { received, ended: false, _request: stream }))
}

async fn send(stream: &mut SendStream<Bytes>, mut body: Body) -> Result<(), h2::Error> {
    let mut is_first = true;
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(frame) = frame else {
            stream.send_reset(h2::Reason::CANCEL);
            return Ok(());
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if !is_first {
            // The first piece is in memory as a whole; of what follows, one piece at most waits here.
            stream.reserve_capacity(1);
            while stream.capacity() == 0 {
                match std::future::poll_fn(|context| stream.poll_capacity(context)).await {
                    Some(granted) => granted.map(drop)?,
                    None => return Ok(()),
                }
            }
        }
        is_first = false;
        stream.send_data(data, false)?;
    }
    stream.send_data(Bytes::new(), true)
}

/// The body of an answer.
pub(crate) struct Answer {
    received: RecvStream,
    ended: bool,
    /// Dropped with the answer, not before: a request without an end takes its answer along.
    _request: SendStream<Bytes>,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if !self.ended {
            match std::task::ready!(self.received.poll_data(context)) {
                Some(Ok(data)) => {
                    let taken = self.received.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(taken.map(|()| Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.ended = true,
            }
        }
        let trailers: Result<Option<HeaderMap>, _> = std::task::ready!(self.received.poll_trailers(context));
        Poll::Ready(trailers.transpose().map(|trailers| trailers.map(Frame::trailers)))
    }

    fn is_end_stream(&self) -> bool {
        self.received.is_end_stream()
    }
}

//! Asking before each request that changes something whether this process may still change anything.
//!
//! It is asked twice. In front of the queue a write waits for as long as nobody knows; right in front of the connection one
//! that came too late is not sent.

use std::task::{Context, Poll};

use futures::future::{BoxFuture, Either, Ready, ready};
use http::Request;
use kube::client::Body;
use tower::{BoxError, Layer, Service};
use velero_api::{WriteGuard, WriteRefused};

use crate::retry::is_read;

/// A write that was not sent, and why.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSent {
    /// The time was over when its turn came. Who tries again waits until it is known whether it may.
    #[error("this process may not write any more")]
    TooLate,
    /// It may not, or it has not been known for long.
    #[error(transparent)]
    Refused(WriteRefused),
}

/// Lets writes wait in front of a service as long as nobody knows; without a guard it lets everything through.
#[derive(Clone)]
pub(crate) struct WaitLayer(pub(crate) Option<WriteGuard>);

impl<S> Layer<S> for WaitLayer {
    type Service = Waiting<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Waiting { inner, guard: self.0.clone() }
    }
}

/// A service in front of which writes wait.
#[derive(Clone)]
pub(crate) struct Waiting<S> {
    inner: S,
    guard: Option<WriteGuard>,
}

impl<S> Service<Request<Body>> for Waiting<S>
where
    S: Service<Request<Body>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<S::Future, BoxFuture<'static, Result<S::Response, BoxError>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(guard) = self.guard.as_ref().filter(|guard| !is_read(&request) && !guard.is_open()) else {
            return Either::Left(self.inner.call(request));
        };
        let settled = guard.settled();
        // The service that was polled ready must be the one that is called.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Either::Right(Box::pin(async move {
            settled.await.map_err(NotSent::Refused)?;
            inner.call(request).await
        }))
    }
}

/// Keeps writes from a service that come too late; without a guard it lets everything through.
#[derive(Clone)]
pub(crate) struct CheckLayer(pub(crate) Option<WriteGuard>);

impl<S> Layer<S> for CheckLayer {
    type Service = Checked<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Checked { inner, guard: self.0.clone() }
    }
}

/// A service that late writes do not reach.
#[derive(Clone)]
pub(crate) struct Checked<S> {
    inner: S,
    guard: Option<WriteGuard>,
}

impl<S> Service<Request<Body>> for Checked<S>
where
    S: Service<Request<Body>, Error = BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<S::Future, Ready<Result<S::Response, BoxError>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.guard.as_ref().is_some_and(|guard| !is_read(&request) && !guard.is_open()) {
            true => Either::Right(ready(Err(NotSent::TooLate.into()))),
            false => Either::Left(self.inner.call(request)),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method, Response, header};
    use tower::ServiceExt;

    use super::*;

    fn request(method: &Method) -> Request<Body> {
        let mut request = Request::new(Body::empty());
        method.clone_into(request.method_mut());
        request
    }

    fn guard(is_open: bool, settled: Result<(), &'static str>) -> WriteGuard {
        let settled = settled.map_err(|reason| WriteRefused(reason.to_owned()));
        WriteGuard::new(move || is_open, move || Box::pin(ready(settled.clone())))
    }

    #[tokio::test]
    async fn reads_pass_and_writes_only_while_they_may_or_when_they_may_again() {
        let answers = tower::service_fn(|_: Request<Body>| async { Ok::<_, BoxError>(Response::new(())) });
        for (guard, method, waits_well, is_in_time) in [
            (None, Method::PATCH, true, true),
            (Some(guard(true, Err("unasked"))), Method::PATCH, true, true),
            (Some(guard(false, Ok(()))), Method::PATCH, true, false),
            (Some(guard(false, Err("it is over"))), Method::PATCH, false, false),
            (Some(guard(false, Err("it is over"))), Method::DELETE, false, false),
            (Some(guard(false, Err("it is over"))), Method::GET, true, true),
        ] {
            let waited = WaitLayer(guard.clone()).layer(answers).oneshot(request(&method)).await;
            assert_eq!(waited.is_ok(), waits_well, "{guard:?} {method}");
            let checked = CheckLayer(guard).layer(answers).oneshot(request(&method)).await;
            assert_eq!(checked.is_ok(), is_in_time, "{method}");
        }
        let mut command = request(&Method::GET);
        command.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        let closed = Some(guard(false, Err("it is over")));
        let refused = WaitLayer(closed).layer(answers).oneshot(command).await.unwrap_err();
        assert_eq!(refused.to_string(), "it is over", "a command in a pod changes something");
        assert!(matches!(*refused.downcast::<NotSent>().unwrap(), NotSent::Refused(_)), "it would be tried again");
    }
}

//! Which requests are sent again, and when.
//!
//! One policy sits in the client, so that typed calls, watches and raw lists all share it. A read is sent again after
//! any passing trouble. A write is sent again only when the server cannot have carried it out: it refused for load, the
//! connection was never made, or this process kept the write back at the last moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use kube::client::Body;
use tower::BoxError;
use tower::retry::Policy;
use tower::retry::backoff::{Backoff, ExponentialBackoff, ExponentialBackoffMaker, MakeBackoff};
use tower::util::rng::HasherRng;

use crate::repeated::{Repeated, RetryCause};
use crate::write_guard::NotSent;

const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// A server that asks for more patience than this is asked again earlier.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);

/// The retry policy of one request.
#[derive(Clone)]
pub(crate) struct RetryPolicy {
    backoff: ExponentialBackoff,
    retries_left: u32,
    refusals_for_load: Arc<AtomicU64>,
    repeated: Arc<Repeated>,
}

impl RetryPolicy {
    /// A policy that sends a request again at most `retries` times, and counts how often it does, and how often the server
    /// asked for fewer.
    pub(crate) fn new(retries: u32, refusals_for_load: Arc<AtomicU64>, repeated: Arc<Repeated>) -> Self {
        let backoff = ExponentialBackoffMaker::new(FIRST_DELAY, LONGEST_DELAY, 0.5, HasherRng::new())
            .unwrap_or_default()
            .make_backoff();
        Self { backoff, retries_left: retries, refusals_for_load, repeated }
    }
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for RetryPolicy {
    type Future = tokio::time::Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        let read = is_read(request);
        let (cause, retry_after) = match result {
            Ok(response) => {
                if response.status() == StatusCode::TOO_MANY_REQUESTS {
                    self.refusals_for_load.fetch_add(1, Ordering::Relaxed);
                }
                let retry_after = retry_after(response);
                let cause = cause_of_status(response.status());
                may_retry_status(read, response.status(), retry_after.is_some()).then_some((cause, retry_after))?
            }
            Err(error) if came_too_late(&**error) => (RetryCause::KeptBack, None),
            Err(error) => (read || never_connected(&**error)).then_some((RetryCause::NoAnswer, None))?,
        };
        self.retries_left = self.retries_left.checked_sub(1)?;
        self.repeated.count(cause);
        let backoff = self.backoff.next_backoff();
        match retry_after {
            Some(delay) => Some(tokio::time::sleep(delay.min(LONGEST_RETRY_AFTER))),
            None => Some(backoff),
        }
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        let body = request.body().try_clone()?;
        let mut clone = Request::new(body);
        *clone.method_mut() = request.method().clone();
        *clone.uri_mut() = request.uri().clone();
        *clone.version_mut() = request.version();
        *clone.headers_mut() = request.headers().clone();
        *clone.extensions_mut() = request.extensions().clone();
        Some(clone)
    }
}

/// Whether repeating the request changes nothing in the cluster. Exec is a GET that upgrades: it does change things.
pub(crate) fn is_read<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && !request.headers().contains_key(header::UPGRADE)
}

fn may_retry_status(read: bool, status: StatusCode, has_retry_after: bool) -> bool {
    match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE => read || has_retry_after,
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => read,
        _ => false,
    }
}

fn cause_of_status(status: StatusCode) -> RetryCause {
    match status {
        StatusCode::TOO_MANY_REQUESTS => RetryCause::Throttled,
        _ => RetryCause::ServerError,
    }
}

fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Whether the request failed before a connection existed, so that the server has not seen it.
fn never_connected(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return error.is_connect();
        }
        cause = error.source();
    }
    false
}

/// Whether the request was kept back right in front of the connection.
fn came_too_late(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(NotSent::TooLate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(retries: u32) -> RetryPolicy {
        RetryPolicy::new(retries, Arc::default(), Arc::default())
    }

    fn request(method: Method) -> Request<Body> {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        request
    }

    fn answer(status: u16) -> Result<Response<()>, BoxError> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        Ok(response)
    }

    fn retries(method: Method, status: u16) -> bool {
        policy(3).retry(&mut request(method), &mut answer(status)).is_some()
    }

    #[tokio::test]
    async fn reads_are_repeated_after_passing_troubles_and_writes_only_when_refused_for_load() {
        for (status, read, write) in
            [(200, false, false), (404, false, false), (409, false, false), (429, true, true), (500, true, false)]
        {
            assert_eq!(retries(Method::GET, status), read, "GET {status}");
            assert_eq!(retries(Method::POST, status), write, "POST {status}");
        }
        assert!(retries(Method::GET, 503) && retries(Method::GET, 504));
        assert!(!retries(Method::POST, 503) && !retries(Method::PATCH, 504));
    }

    #[tokio::test]
    async fn an_upgrade_is_not_a_read() {
        let mut exec = request(Method::GET);
        exec.headers_mut().insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
        assert!(policy(3).retry(&mut exec, &mut answer(500)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_servers_delay_is_honoured_within_reason() {
        let mut policy = policy(3);
        let now = tokio::time::Instant::now();
        for (asked, given) in [("1", 1), ("7", 7), ("86400", 30)] {
            let mut result = answer(429);
            let headers = result.as_mut().unwrap().headers_mut();
            headers.insert(header::RETRY_AFTER, asked.parse().unwrap());
            let sleep = policy.retry(&mut request(Method::POST), &mut result).unwrap();
            assert_eq!(sleep.deadline(), now + Duration::from_secs(given));
        }
    }

    #[tokio::test]
    async fn retries_end() {
        let mut policy = policy(2);
        let mut request = request(Method::GET);
        assert!(policy.retry(&mut request, &mut answer(503)).is_some());
        assert!(policy.retry(&mut request, &mut answer(503)).is_some());
        assert!(policy.retry(&mut request, &mut answer(503)).is_none());
    }

    #[tokio::test]
    async fn what_is_sent_again_is_counted_by_its_cause_and_what_is_given_up_is_not() {
        let repeated = Arc::<Repeated>::default();
        let policy = |retries| RetryPolicy::new(retries, Arc::default(), Arc::clone(&repeated));
        let mut get = request(Method::GET);
        let _ = policy(1).retry(&mut get, &mut answer(429));
        let _ = policy(1).retry(&mut get, &mut answer(503));
        let _ = policy(0).retry(&mut get, &mut answer(503));
        let _ = policy(1).retry(&mut get, &mut answer(404));
        let _ = policy(1).retry(&mut get, &mut Err::<Response<()>, BoxError>("connection reset".into()));
        let _ = policy(1).retry(&mut get, &mut Err::<Response<()>, BoxError>(Box::new(NotSent::TooLate)));
        assert_eq!(RetryCause::ALL.map(|cause| repeated.of(cause)), [1, 1, 1, 1]);
    }

    #[tokio::test]
    async fn a_broken_connection_repeats_reads_only() {
        let broken = || Err::<Response<()>, BoxError>("connection reset".into());
        assert!(policy(1).retry(&mut request(Method::GET), &mut broken()).is_some());
        assert!(policy(1).retry(&mut request(Method::POST), &mut broken()).is_none());
    }

    #[tokio::test]
    async fn a_write_that_was_kept_back_at_the_last_moment_is_repeated_and_one_that_was_refused_is_not() {
        let kept_back = |why| Err::<Response<()>, BoxError>(Box::new(why));
        assert!(policy(1).retry(&mut request(Method::POST), &mut kept_back(NotSent::TooLate)).is_some());
        let refused = NotSent::Refused(velero_api::WriteRefused("it is over".to_owned()));
        assert!(policy(1).retry(&mut request(Method::POST), &mut kept_back(refused)).is_none());
    }
}

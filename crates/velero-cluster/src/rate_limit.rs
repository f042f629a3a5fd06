//! A token bucket in front of the client, for those who set `--client-qps` and `--client-burst`.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use tower::{Layer, Service};

const MARGIN: f64 = 1.05;

/// Lets `burst` requests through at once and then one every `1 / qps` seconds, in the order they came.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    interval: Duration,
    tolerance: Duration,
    /// When the bucket would be full again. One instant is all the state the algorithm (GCRA) needs.
    full_at: Mutex<Instant>,
}

impl TokenBucket {
    /// A full bucket; `None` when `qps` is not a positive number, which means no limit.
    ///
    /// A rate without a burst is meant for every single second: requests keep their distance from the first one on,
    /// and a little more than it takes, because some are held up on their way and arrive together.
    pub(crate) fn new(qps: f32, burst: Option<u32>) -> Option<Self> {
        let margin = if burst.is_none() { MARGIN } else { 1.0 };
        let interval = Duration::try_from_secs_f64(margin / f64::from(qps)).ok().filter(|it| !it.is_zero())?;
        let burst = burst.unwrap_or(1).max(1);
        Some(Self { interval, tolerance: interval * (burst - 1), full_at: Mutex::new(Instant::now()) })
    }

    /// Takes one token, waiting for it when the bucket is empty.
    pub(crate) async fn take(&self) {
        let wait = self.reserve(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn reserve(&self, now: Instant) -> Duration {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*full_at).max(now);
        *full_at = start + self.interval;
        (start - now).saturating_sub(self.tolerance)
    }
}

/// Puts a service behind a bucket; without a bucket it lets everything through.
#[derive(Clone)]
pub(crate) struct RateLimitLayer(pub(crate) Option<Arc<TokenBucket>>);

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit { inner, bucket: self.0.clone() }
    }
}

/// A service behind a bucket.
#[derive(Clone)]
pub(crate) struct RateLimit<S> {
    inner: S,
    bucket: Option<Arc<TokenBucket>>,
}

impl<S, Request> Service<Request> for RateLimit<S>
where
    S: Service<Request> + Clone + Send + 'static,
    S::Future: Send,
    Request: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The service that was polled ready must be the one that is called.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let bucket = self.bucket.clone();
        Box::pin(async move {
            if let Some(bucket) = bucket {
                bucket.take().await;
            }
            inner.call(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of `count` requests, all asked for at once, was let through.
    async fn departures(bucket: &TokenBucket, count: usize) -> Vec<Duration> {
        let start = Instant::now();
        let mut departures = Vec::new();
        for _ in 0..count {
            bucket.take().await;
            departures.push(start.elapsed());
        }
        departures
    }

    #[tokio::test(start_paused = true)]
    async fn the_burst_goes_at_once_and_the_rest_at_the_rate() {
        let bucket = TokenBucket::new(10.0, Some(3)).unwrap();
        let milliseconds: Vec<_> = departures(&bucket, 6).await.iter().map(Duration::as_millis).collect();
        assert_eq!(milliseconds[..3], [0, 0, 0]);
        for (departure, expected) in milliseconds[3..].iter().zip([100, 200, 300]) {
            assert!((expected..=expected + 2).contains(departure), "{milliseconds:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_window_holds_more_than_the_rate_and_the_burst() {
        let bucket = TokenBucket::new(50.0, Some(5)).unwrap();
        let departures = departures(&bucket, 200).await;
        for (first, start) in departures.iter().enumerate() {
            let within = departures[first..].iter().take_while(|at| **at < *start + Duration::from_secs(1)).count();
            assert!(within <= 55, "{within} requests in one second from {start:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_alone_holds_in_every_second() {
        let bucket = TokenBucket::new(100.0, None).unwrap();
        let departures = departures(&bucket, 400).await;
        for (first, start) in departures.iter().enumerate() {
            let within = departures[first..].iter().take_while(|at| **at < *start + Duration::from_secs(1)).count();
            assert!(within < 100, "{within} requests in one second from {start:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_bucket_fills_up_to_the_burst_only() {
        let bucket = TokenBucket::new(10.0, Some(2)).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let departures = departures(&bucket, 3).await;
        assert_eq!(departures[1], Duration::ZERO);
        assert!(departures[2] >= Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_wait_together_leave_one_after_another() {
        let bucket = TokenBucket::new(10.0, Some(1)).unwrap();
        let start = Instant::now();
        let waiting = (0..5).map(|_| async {
            bucket.take().await;
            start.elapsed().as_millis()
        });
        let departures = futures::future::join_all(waiting).await;
        assert!(departures.windows(2).all(|pair| pair[1] - pair[0] >= 99), "{departures:?}");
    }

    #[tokio::test]
    async fn a_rate_that_is_not_positive_means_no_limit() {
        assert!(TokenBucket::new(0.0, None).is_none());
        assert!(TokenBucket::new(-1.0, Some(5)).is_none());
        assert!(TokenBucket::new(f32::NAN, None).is_none());
        assert!(TokenBucket::new(f32::INFINITY, None).is_none());
    }
}

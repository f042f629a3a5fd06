//! Whether a process may write, for all who write: to the API server and to stores.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// Why a process may not write any more, in words: who made the guard knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WriteRefused(pub String);

/// Waits until a process may write again; an error says why it never may.
pub type Settling = Pin<Box<dyn Future<Output = Result<(), WriteRefused>> + Send>>;

/// Whether this process may write. Who makes it knows how that is found out; who writes asks.
#[derive(Clone)]
pub struct WriteGuard {
    is_open: Arc<dyn Fn() -> bool + Send + Sync>,
    settled: Arc<dyn Fn() -> Settling + Send + Sync>,
}

impl WriteGuard {
    /// A guard that knows whether this process may write now, and waits until it may again, or never more and why.
    pub fn new(
        is_open: impl Fn() -> bool + Send + Sync + 'static,
        settled: impl Fn() -> Settling + Send + Sync + 'static,
    ) -> Self {
        Self { is_open: Arc::new(is_open), settled: Arc::new(settled) }
    }

    /// Whether this process may write now.
    pub fn is_open(&self) -> bool {
        (self.is_open)()
    }

    /// Waits until it may again.
    pub fn settled(&self) -> Settling {
        (self.settled)()
    }
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WriteGuard(…)")
    }
}

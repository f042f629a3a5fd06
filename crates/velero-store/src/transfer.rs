//! How uploads are cut, and how long a failing store is given.

use std::time::Duration;

use async_trait::async_trait;
use object_store::retry::{RetryContext, RetryFailure, RetryPolicy};
use object_store::{BackoffConfig, RetryConfig};

/// The smallest part S3 accepts, the last one aside.
pub(crate) const SMALLEST_PART: usize = 5 << 20;

/// How an upload is cut into parts and how often a request is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferSettings {
    /// The size of an upload part in bytes; at least 5 MiB.
    pub part_size: usize,
    /// How many parts are on their way at the same time.
    ///
    /// An upload holds one part more than this in memory.
    pub parts_in_flight: usize,
    /// How often a request is repeated after a transient failure, within the time it has.
    pub retries: usize,
    /// How long a request is repeated before it is given up.
    pub retry_timeout: Duration,
}

impl Default for TransferSettings {
    fn default() -> Self {
        // Only the time ends an upload's repetitions: a store that restarts refuses many requests within a second.
        Self { part_size: 8 << 20, parts_in_flight: 2, retries: usize::MAX, retry_timeout: Duration::from_secs(180) }
    }
}

impl TransferSettings {
    pub(crate) fn retry_config(&self) -> RetryConfig {
        // A pause is drawn between the first one and `base` times the one before; with a smaller base they hardly grow.
        let backoff =
            BackoffConfig { init_backoff: Duration::from_millis(200), max_backoff: Duration::from_secs(5), base: 3.0 };
        RetryConfig { backoff, max_retries: self.retries, retry_timeout: self.retry_timeout }
    }
}

/// How often a body that arrived damaged is sent again.
pub(crate) const RESENDS: usize = 3;

/// Sends a part again when the store says that it arrived damaged.
///
/// Stores answer a wrong digest with 400, which the client library takes for our mistake and does not repeat.
#[derive(Debug)]
pub(crate) struct ResendDamagedPart;

#[async_trait]
impl RetryPolicy for ResendDamagedPart {
    async fn retry(&self, context: RetryContext) -> bool {
        let damaged = matches!(context.failure, RetryFailure::Status(status) if status.as_u16() == 400);
        let again = damaged && context.attempt <= RESENDS;
        if again {
            tokio::time::sleep(Duration::from_millis(100 << context.attempt)).await;
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least time the repetitions of a request take, whatever the dice say.
    fn least_patience(config: &RetryConfig) -> Duration {
        let repetitions = u32::try_from(config.max_retries).unwrap_or(u32::MAX);
        config.backoff.init_backoff.saturating_mul(repetitions).min(config.retry_timeout)
    }

    #[test]
    fn an_upload_survives_an_outage_of_a_minute_and_gives_a_dead_store_up() {
        let config = TransferSettings::default().retry_config();
        assert!(least_patience(&config) >= Duration::from_secs(60), "{config:?}");
        assert!(config.retry_timeout <= Duration::from_secs(300), "signatures and credentials expire: {config:?}");
        assert!(config.backoff.max_backoff < Duration::from_secs(10), "a store that is back is noticed: {config:?}");
    }
}

//! Stores what a backup or restore sets going while it runs.
//!
//! The engine records it in its request. One that fails, or is stopped, leaves a record of what is to be cancelled; and
//! since the record is stored as it grows, the next server cancels for one that was killed.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::runtime::error::describe;

/// How long it is at least from one storing of the record to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// Stores something again whenever it has changed, until `done`: what a killed server leaves, the next one finds.
pub(crate) async fn keep_stored<T, E: std::error::Error, F: Future<Output = Result<(), E>>>(
    what: &str,
    mut news: watch::Receiver<T>,
    done: &CancellationToken,
    put: impl Fn() -> F,
) {
    while let Some(Ok(())) = done.run_until_cancelled(news.changed()).await {
        if let Err(error) = put().await {
            tracing::warn!(what, error = describe(&error), "Not stored yet");
        }
        done.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
    }
}

//! How a process learns that it is to end.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::runtime::error::{Error, Result};

/// A token that is cancelled when the process is told to end, by the system or from the keyboard; `words` go into the log
/// then.
pub(crate) fn cancelled_when_told(words: &'static str) -> Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let token = CancellationToken::new();
    let told = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("{words}");
        told.cancel();
    });
    Ok(token)
}

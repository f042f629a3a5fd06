//! How a process learns that it is to end.

use std::io;

use tokio_util::sync::CancellationToken;

use crate::runtime::error::{Error, Result};

/// A token that is cancelled when the process is told to end, by the system or from the keyboard; `words` go into the log
/// then.
pub(crate) fn cancelled_when_told(words: &'static str) -> Result<CancellationToken> {
    let end = told_to_end().map_err(Error::Signals)?;
    let token = CancellationToken::new();
    let told = token.clone();
    tokio::spawn(async move {
        end.await;
        tracing::info!("{words}");
        told.cancel();
    });
    Ok(token)
}

/// Waits until the process is told; it listens from now on.
#[cfg(unix)]
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(windows)]
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupt.recv().await;
    })
}

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

/// Stores something again whenever it has changed, until `done`: what a killed server leaves, the next one finds. A store that
/// `is_away` by then is not waited for once more.
pub(crate) async fn keep_stored<T, E: std::error::Error, F: Future<Output = Result<(), E>>>(
    what: &str,
    mut news: watch::Receiver<T>,
    done: &CancellationToken,
    put: impl Fn() -> F,
    is_away: impl Fn() -> bool,
) {
    let mut is_stored = true;
    while let Some(Ok(())) = done.run_until_cancelled(news.changed()).await {
        is_stored = store(what, put()).await;
        done.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
    }
    // What came last may have to wait for hours until the rest of it is stored.
    if !is_away() && (!is_stored || news.has_changed().unwrap_or_default()) {
        store(what, put()).await;
    }
}

/// Whether something is stored; what hinders that is told in the log.
async fn store<E: std::error::Error>(what: &str, put: impl Future<Output = Result<(), E>>) -> bool {
    let stored = put.await;
    if let Err(error) = &stored {
        tracing::warn!(what, error = describe(error), "Not stored yet");
    }
    stored.is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What is stored of two numbers, one before the end and one right at it, by a store that fails some tries, and may be known to
    /// be away at the end.
    async fn stored(failing: &[usize], is_away: bool) -> Vec<u8> {
        let (news, done) = (watch::Sender::new(0), CancellationToken::new());
        let tries = Mutex::new(Vec::new());
        let put = || async {
            let mut tries = tries.lock().unwrap();
            let is_refused = failing.contains(&tries.len());
            tries.push(if is_refused { None } else { Some(*news.borrow()) });
            if is_refused { Err(std::fmt::Error) } else { Ok(()) }
        };
        let run = async {
            for number in [1, 2] {
                news.send_replace(number);
                tokio::time::sleep(PAUSE / 10).await;
            }
            done.cancel();
        };
        tokio::join!(keep_stored("Numbers", news.subscribe(), &done, put, || is_away), run);
        tries.into_inner().unwrap().into_iter().flatten().collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_last_is_stored_before_it_ends() {
        assert_eq!(stored(&[], false).await, [1, 2]);
        assert_eq!(stored(&[0], false).await, [2]);
        assert_eq!(stored(&[1], false).await, [1], "the next one who stores it all tries again");
        assert_eq!(stored(&[], true).await, [1], "nobody waits for a store that is away");
    }
}

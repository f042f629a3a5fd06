//! Trying again what the API server has not answered.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use velero_cluster::Error as ClusterError;

use crate::runtime::error::{Error, Result, describe};

/// The first and the longest pause until something is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// How often something is tried once the server is told to end.
const LAST_TRIES: usize = 4;

/// How often something is tried that is refused, by those who have more to do than to wait for it.
const REFUSED_TRIES: usize = 6;

/// Tries something until it is known what came of it; a refusal is an answer, unless it is one for want of rights, which somebody
/// may give.
pub(crate) async fn until_answered<T, F: Future<Output = Result<T>>>(
    stop: &CancellationToken,
    name: &str,
    attempt: impl Fn() -> F,
) -> Result<T> {
    repeat(stop, name, usize::MAX, attempt).await
}

/// The same for who has more to do: a want of rights, or a webhook that keeps the change back, is an answer after a few tries.
pub(crate) async fn until_answered_or_refused<T, F: Future<Output = Result<T>>>(
    stop: &CancellationToken,
    name: &str,
    attempt: impl Fn() -> F,
) -> Result<T> {
    repeat(stop, name, REFUSED_TRIES, attempt).await
}

async fn repeat<T, F: Future<Output = Result<T>>>(
    stop: &CancellationToken,
    name: &str,
    mut refusals_left: usize,
    attempt: impl Fn() -> F,
) -> Result<T> {
    let mut pause = PAUSES.0;
    let mut tries_left = LAST_TRIES;
    loop {
        let error = match attempt().await {
            Err(error) if may_pass(&error) => error,
            outcome => return outcome,
        };
        if stop.is_cancelled() {
            tries_left -= 1;
            pause = PAUSES.0;
        }
        refusals_left -= usize::from(is_refusal(&error));
        if tries_left == 0 || refusals_left == 0 {
            return Err(error);
        }
        tracing::warn!(
            name,
            error = describe(&error),
            "It is not known yet whether a change was written; trying again"
        );
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled(), if tries_left == LAST_TRIES => {}
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Reads what nothing can be decided without, from its beginning until it is read whole. An error when that is refused, or when
/// the server is told to end before.
pub(crate) async fn until_read<T, F: Future<Output = Result<T>>>(
    stop: &CancellationToken,
    what: &str,
    read: impl Fn() -> F,
) -> Result<T> {
    let mut pause = PAUSES.0;
    loop {
        let error = match read().await {
            Err(error) if may_be_read_later(&error) => error,
            outcome => return outcome,
        };
        tracing::warn!(
            what,
            error = describe(&error),
            "They cannot be read yet, and nothing goes on without; trying again"
        );
        tokio::select! {
            () = stop.cancelled() => return Err(error),
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

fn may_be_read_later(error: &Error) -> bool {
    let Error::Cluster(error) = error else { return false };
    // The rest of a list may expire while its pages are read.
    error.is_unanswered() || matches!(error, ClusterError::TooManyRequests(_) | ClusterError::Expired(_))
}

fn may_pass(error: &Error) -> bool {
    let Error::Cluster(error) = error else { return false };
    let passes =
        matches!(error, ClusterError::TooManyRequests(_) | ClusterError::Forbidden(_) | ClusterError::NotSent { .. });
    error.is_unanswered() || passes
}

fn is_refusal(error: &Error) -> bool {
    let Error::Cluster(error) = error else { return false };
    matches!(error, ClusterError::Forbidden(_)) || error.is_kept_back_by_webhook()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_answered_is_tried_until_it_is_and_a_few_times_once_the_server_ends() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let unanswered =
            || Error::Cluster(ClusterError::Unreachable { action: "x".to_owned(), source: "reset".into() });
        let (stop, tries) = (CancellationToken::new(), AtomicUsize::new(0));
        let outcome = until_answered(&stop, "b", || async {
            if tries.fetch_add(1, Ordering::SeqCst) < 40 { Err(unanswered()) } else { Ok(7) }
        });
        assert_eq!(outcome.await.unwrap(), 7);
        stop.cancel();
        tries.store(0, Ordering::SeqCst);
        let outcome: Result<()> = until_answered(&stop, "b", || async {
            tries.fetch_add(1, Ordering::SeqCst);
            Err(unanswered())
        })
        .await;
        assert!(outcome.is_err());
        assert_eq!(tries.load(Ordering::SeqCst), LAST_TRIES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_read_until_it_is_whole_and_a_refusal_is_told() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let refusal = |code: u16, reason: &str| {
            let status = kube::core::Status::failure("no", reason).with_code(code);
            Error::Cluster(ClusterError::from_status("list backups", status))
        };
        let (stop, tries) = (CancellationToken::new(), AtomicUsize::new(0));
        let read = until_read(&stop, "backups", || async {
            match tries.fetch_add(1, Ordering::SeqCst) {
                0 => Err(refusal(410, "Expired")),
                1 => Err(refusal(429, "TooManyRequests")),
                2 => Err(Error::Cluster(ClusterError::Unreachable { action: "x".to_owned(), source: "reset".into() })),
                3..40 => Err(refusal(504, "Timeout")),
                _ => Ok(7),
            }
        });
        assert_eq!(read.await.unwrap(), 7);
        tries.store(0, Ordering::SeqCst);
        let read: Result<()> = until_read(&stop, "backups", || async {
            tries.fetch_add(1, Ordering::SeqCst);
            Err(refusal(403, "Forbidden"))
        })
        .await;
        assert!(read.is_err());
        assert_eq!(tries.load(Ordering::SeqCst), 1);
        stop.cancel();
        let read: Result<()> = until_read(&stop, "backups", || async { Err(refusal(504, "Timeout")) }).await;
        assert!(read.is_err(), "who is told to end waits no longer");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_more_to_do_takes_a_want_of_rights_for_an_answer_and_no_answer_for_none() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let with_status = |message: &str, code| {
            let status = kube::core::Status::failure(message, "").with_code(code);
            Error::Cluster(ClusterError::from_status("patch backups b", status))
        };
        let refused = || with_status("no", 403);
        let unanswered =
            || Error::Cluster(ClusterError::Unreachable { action: "x".to_owned(), source: "reset".into() });
        let (stop, tries) = (CancellationToken::new(), AtomicUsize::new(0));
        let outcome: Result<()> = until_answered_or_refused(&stop, "b", || async {
            if tries.fetch_add(1, Ordering::SeqCst) < 40 { Err(unanswered()) } else { Err(refused()) }
        })
        .await;
        assert!(outcome.is_err());
        assert_eq!(tries.swap(0, Ordering::SeqCst), 40 + REFUSED_TRIES);
        let outcome: Result<()> = until_answered_or_refused(&stop, "b", || async {
            tries.fetch_add(1, Ordering::SeqCst);
            Err(with_status("failed calling webhook \"w\": refused", 500))
        })
        .await;
        assert!(outcome.is_err());
        assert_eq!(tries.swap(0, Ordering::SeqCst), REFUSED_TRIES);
        let outcome = until_answered(&stop, "b", || async {
            if tries.fetch_add(1, Ordering::SeqCst) < 40 { Err(refused()) } else { Ok(7) }
        });
        assert_eq!(outcome.await.unwrap(), 7);
    }
}

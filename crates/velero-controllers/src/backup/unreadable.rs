//! An archive that cannot be read may have been damaged on its way here: it is read again before that is believed.

use std::time::Duration;

/// The pauses before it is read again.
const READ_AGAIN_AFTER: [Duration; 4] =
    [Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8), Duration::from_secs(16)];

/// Does something with the archive of a backup, and again while there is a `problem` with reading it; gives what came of it last.
pub(super) async fn read_again<T, F: Future<Output = T>>(
    backup: &str,
    attempt: impl Fn() -> F,
    problem: impl Fn(&T) -> Option<String>,
) -> T {
    for pause in READ_AGAIN_AFTER {
        let outcome = attempt().await;
        let Some(error) = problem(&outcome) else { return outcome };
        tracing::info!(backup, error, "The archive of the backup cannot be read; it is read again after {pause:?}");
        tokio::time::sleep(pause).await;
    }
    attempt().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_read_until_it_can_be_and_five_times_at_the_most() {
        for (good_at, expected) in [(1, 1), (3, 3), (5, 5), (9, 5)] {
            let tries = Cell::new(0);
            let attempt = || async {
                tries.set(tries.get() + 1);
                tries.get() >= good_at
            };
            let is_good = read_again("b", attempt, |is_good| (!is_good).then(String::new)).await;
            assert_eq!((tries.get(), is_good), (expected, good_at <= 5));
        }
    }
}

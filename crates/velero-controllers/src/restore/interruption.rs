//! What ends the work of a restore before it is done, and what is still known then of what it did.

use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use velero_api::v1::Restore;
use velero_engine::Journal;
use velero_engine::restore::RestoreOutcome;

use crate::lifecycle::cancellation::until_requested;
use crate::restore::error::RunError;
use crate::restore::settle;
use crate::restore::transfer::Restored;
use crate::runtime::busy::Hold;
use crate::runtime::context::Context;

/// How long items that are at hand may take when no further ones are begun.
const AT_HAND: Duration = Duration::from_secs(30);
/// The same once the server is told to end.
const LAST_ITEMS: Duration = Duration::from_secs(10);

/// Why a restore came to no end of its own, and what it had done until then, where that is known.
pub(super) struct Cut {
    pub(super) error: RunError,
    pub(super) outcome: Option<RestoreOutcome>,
}

impl From<RunError> for Cut {
    fn from(error: RunError) -> Self {
        Self { error, outcome: None }
    }
}

/// Ends when the restore has to, and says why.
pub(super) async fn interruption(context: &Context, restore: &Restore, hold: &Hold<'_>) -> RunError {
    let interrupted = RunError::Interrupted;
    tokio::select! {
        () = context.stop.cancelled() => interrupted("the server was stopped while the restore ran; resume it with `velero restore create --resume`"),
        () = hold.interrupted() => interrupted("its backup was deleted while the restore ran"),
        () = settle::deleted(context, restore) => interrupted("the restore was deleted while it ran"),
        reason = until_requested(context, restore) => RunError::Cancelled(reason),
    }
}

/// Ends when items at hand are not waited for any longer.
pub(super) async fn patience(context: &Context) {
    let hurry = async {
        context.stop.cancelled().await;
        tokio::time::sleep(LAST_ITEMS).await;
    };
    tokio::select! {
        () = tokio::time::sleep(AT_HAND) => {}
        () = hurry => {}
    }
}

/// Waits for items to be restored. Whatever ends the restore before, those at hand are finished until `patience` ends: only the
/// answer to a call tells what an action has begun, and a volume that was made is lost without its object. So it can be told, too,
/// what was restored and what was not. Who is not done by then is broken off, and the journal says so.
pub(super) async fn items(
    mut work: Pin<&mut impl Future<Output = Result<Restored, RunError>>>,
    interruption: Pin<&mut impl Future<Output = RunError>>,
    halt: &CancellationToken,
    patience: impl Future<Output = ()>,
    journal: &Journal,
) -> Result<Restored, Cut> {
    let error = tokio::select! {
        restored = &mut work => return restored.map_err(Cut::from),
        error = interruption => error,
    };
    halt.cancel();
    let finished = tokio::select! {
        finished = work => finished.ok(),
        () = patience => {
            journal.error().message(
                "Items at hand were not restored in time and are broken off; operations and volumes that actions have begun for \
                 them may be left",
            );
            None
        }
    };
    Err(Cut { error, outcome: finished.map(|restored| restored.outcome) })
}

/// Waits for volumes that are filled from copies.
pub(super) async fn fillings(
    mut restored: Restored,
    interruption: Pin<&mut impl Future<Output = RunError>>,
    journal: &Journal,
) -> Result<Restored, Cut> {
    let error = tokio::select! {
        filled = restored.hooks.wait_for_fillings() => {
            restored.outcome.volumes.extend(filled);
            return Ok(restored);
        }
        error = interruption => error,
    };
    if matches!(error, RunError::Cancelled(_)) {
        journal.error().message(
            "The restore was cancelled before all volumes of pods were filled; pods that wait for one do not start: delete \
             them and their claims, and restore them again",
        );
    }
    Err(Cut { error, outcome: Some(restored.outcome) })
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use velero_engine::journal::{Level, LogFormat};

    use super::*;

    fn journal() -> Journal {
        Journal::for_restore("velero", "r", LogFormat::Text, Level::Info)
    }

    /// What ends a restore before it is done.
    fn reasons() -> [RunError; 2] {
        [RunError::Interrupted("the server was stopped"), RunError::Cancelled("cancelled by request".to_owned())]
    }

    #[tokio::test]
    async fn whatever_ends_a_restore_its_items_at_hand_are_finished() {
        for reason in reasons() {
            let (halt, is_finished) = (CancellationToken::new(), CancellationToken::new());
            let work = pin!(async {
                halt.cancelled().await;
                // The answer of an action takes a moment.
                tokio::task::yield_now().await;
                is_finished.cancel();
                Err(RunError::GivenUp)
            });
            let told = reason.to_string();
            let journal = journal();
            let ended = pin!(ready(reason));
            let Err(cut) = items(work, ended, &halt, pending(), &journal).await else { panic!("it was ended") };
            assert!(is_finished.is_cancelled() && journal.counts().errors == 0, "{told}");
            assert_eq!(cut.error.to_string(), told);
        }
    }

    #[tokio::test]
    async fn items_that_take_too_long_are_not_waited_for() {
        for reason in reasons() {
            let (halt, told) = (CancellationToken::new(), reason.to_string());
            let journal = journal();
            let ended = pin!(ready(reason));
            let cut = items(pin!(pending()), ended, &halt, ready(()), &journal).await;
            let Err(cut) = cut else { panic!("it was ended") };
            assert!(halt.is_cancelled() && cut.outcome.is_none());
            assert_eq!(journal.counts().errors, 1, "what may be left is told");
            assert_eq!(cut.error.to_string(), told);
        }
    }
}

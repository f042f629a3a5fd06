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

/// Waits for items to be restored. A restore that is cancelled finishes those at hand, so that it can be told what was
/// restored and what was not.
pub(super) async fn items(
    mut work: Pin<&mut impl Future<Output = Result<Restored, RunError>>>,
    interruption: Pin<&mut impl Future<Output = RunError>>,
    halt: &CancellationToken,
) -> Result<Restored, Cut> {
    let error = tokio::select! {
        restored = &mut work => return restored.map_err(Cut::from),
        error = interruption => error,
    };
    if !matches!(error, RunError::Cancelled(_)) {
        return Err(error.into());
    }
    halt.cancel();
    let finished = tokio::time::timeout(AT_HAND, work).await;
    let outcome = finished.ok().and_then(Result::ok).map(|restored| restored.outcome);
    Err(Cut { error, outcome })
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
    if !matches!(error, RunError::Cancelled(_)) {
        return Err(error.into());
    }
    journal.error().message(
        "The restore was cancelled before all volumes of pods were filled; pods that wait for one do not start: delete them \
         and their claims, and restore them again",
    );
    Err(Cut { error, outcome: Some(restored.outcome) })
}

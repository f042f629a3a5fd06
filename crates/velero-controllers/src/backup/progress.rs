//! Tells how far a backup has come, at most once a second.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use velero_api::v1::{Backup, BackupProgress};

use crate::context::Context;
use crate::error::describe;
use crate::objects::name;

/// How long it is at least from one report to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// Writes the progress until the work is done. No report is on its way any more when this returns.
pub(super) async fn write(
    context: &Context,
    backup: &Backup,
    mut progress: watch::Receiver<BackupProgress>,
    done: CancellationToken,
) {
    let mut written = backup.clone();
    loop {
        tokio::select! {
            () = done.cancelled() => return,
            changed = progress.changed() => if changed.is_err() { return },
        }
        let mut next = written.clone();
        next.status.progress = Some(progress.borrow_and_update().clone());
        match context.objects.force(&written, &next).await {
            Ok(_) => written.status.progress = next.status.progress,
            Err(error) => {
                tracing::warn!(backup = name(backup), error = describe(&error), "The progress could not be written");
            }
        }
        tokio::select! {
            () = done.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

//! Those who move the data of volumes for a backup or restore: told to stop when it failed.

use velero_api::labels;
use velero_api::metadata::{name, uid};
use velero_api::v1::{Backup, PodVolumeBackup, PodVolumeRestore, Restore};
use velero_api::v2alpha1::{DataDownload, DataUpload};

use crate::runtime::context::Context;
use crate::runtime::error::describe;

/// Asks one kind of data mover objects to stop.
macro_rules! cancel {
    ($context:expr, $kind:ty, $selector:expr, $reason:expr) => {
        match $context.objects.list::<$kind>($selector).await {
            Err(error) => tracing::error!(error = describe(&error), "Data movers could not be listed"),
            Ok(movers) => {
                for mover in movers.into_iter().filter(|mover| !mover.status.phase().is_terminal()) {
                    let mut cancelled = mover.clone();
                    cancelled.spec.cancel = true;
                    cancelled.status.message = $reason.to_owned();
                    if let Err(error) = $context.objects.force(&mover, &cancelled).await {
                        tracing::error!(
                            name = name(&mover),
                            error = describe(&error),
                            "A data mover could not be cancelled"
                        );
                    }
                }
            }
        }
    };
}

/// Asks those who move data for a backup to stop, and says why.
pub(crate) async fn cancel_of_backup(context: &Context, backup: &Backup, reason: &str) {
    let selector = format!("{}={}", labels::BACKUP_UID, uid(backup));
    cancel!(context, DataUpload, &selector, reason);
    cancel!(context, PodVolumeBackup, &selector, reason);
}

/// Asks those who move data for a restore to stop, and says why.
pub(crate) async fn cancel_of_restore(context: &Context, restore: &Restore, reason: &str) {
    let selector = format!("{}={}", labels::RESTORE_UID, uid(restore));
    cancel!(context, DataDownload, &selector, reason);
    cancel!(context, PodVolumeRestore, &selector, reason);
}

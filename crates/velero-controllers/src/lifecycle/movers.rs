//! Those who move the data of volumes for a backup or restore: told to stop when it failed.

use velero_api::labels;
use velero_api::metadata::{name, uid};
use velero_api::v1::{Backup, PodVolumeBackup, PodVolumeRestore, Restore};
use velero_api::v2alpha1::{DataDownload, DataUpload};

use crate::runtime::context::Context;
use crate::runtime::error::{Error, Result, describe};

/// Asks one kind of data mover objects to stop; gives the last error.
macro_rules! cancel {
    ($context:expr, $kind:ty, $selector:expr, $reason:expr) => {{
        let mut asked: Result<()> = Ok(());
        match $context.objects.list::<$kind>($selector).await {
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                tracing::error!(error = describe(&error), "Data movers could not be listed");
                asked = Err(error);
            }
            Ok(movers) => {
                for mover in movers.into_iter().filter(|mover| !mover.status.phase().is_terminal()) {
                    let mut cancelled = mover.clone();
                    cancelled.spec.cancel = true;
                    cancelled.status.message = $reason.to_owned();
                    let Err(error) = $context.objects.force(&mover, &cancelled).await else { continue };
                    if is_gone(&error) {
                        continue;
                    }
                    tracing::error!(
                        name = name(&mover),
                        error = describe(&error),
                        "A data mover could not be cancelled"
                    );
                    asked = Err(error);
                }
            }
        }
        asked
    }};
}

/// Asks those who move data for a backup to stop, and says why. An error says that not all could be asked.
pub(crate) async fn try_cancel_of_backup(context: &Context, backup: &Backup, reason: &str) -> Result<()> {
    let selector = format!("{}={}", labels::BACKUP_UID, uid(backup));
    let uploads = cancel!(context, DataUpload, &selector, reason);
    let copies = cancel!(context, PodVolumeBackup, &selector, reason);
    uploads.and(copies)
}

/// Asks those who move data for a restore to stop, and says why. An error says that not all could be asked.
pub(crate) async fn try_cancel_of_restore(context: &Context, restore: &Restore, reason: &str) -> Result<()> {
    let selector = format!("{}={}", labels::RESTORE_UID, uid(restore));
    let downloads = cancel!(context, DataDownload, &selector, reason);
    let copies = cancel!(context, PodVolumeRestore, &selector, reason);
    downloads.and(copies)
}

/// Whether nobody is there to be asked.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Cluster(error) if error.is_not_found())
}

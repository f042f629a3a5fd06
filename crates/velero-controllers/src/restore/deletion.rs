//! Removes the files of a restore that is being deleted.

use std::time::Duration;

use velero_api::metadata::name;
use velero_api::v1::{Backup, BackupStorageLocation, Restore};

use crate::lifecycle::cancel::{cancel_owned, try_cancel_owned};
use crate::restore::kept_files::{keeps_files, let_go_of_files};
use crate::runtime::context::Context;
use crate::runtime::driver::Next;
use crate::runtime::error::Result;

/// How soon a location that cannot be used is looked at again.
const PAUSE: Duration = Duration::from_secs(30);

/// Removes the files of a restore that is being deleted, then lets it go.
pub(super) async fn release(context: &Context, restore: &Restore) -> Result<Next> {
    if !keeps_files(restore) {
        return Ok(Next::Change);
    }
    if let Some(location) = location_of(context, restore).await? {
        if !location.is_available() {
            // What is known of its operations here needs no store.
            cancel_owned(context, restore, None).await;
            let (restore, location) = (name(restore), name(&location));
            tracing::warn!(restore, location, "The restore stays until its location is available again");
            return Ok(Next::After(PAUSE));
        }
        let store = context.locations.open(&location).await?;
        try_cancel_owned(context, restore, Some(&store)).await?;
        store.delete_restore(name(restore)).await?;
    } else {
        cancel_owned(context, restore, None).await;
    }
    let_go_of_files(context, restore).await?;
    tracing::info!(restore = name(restore), "Restore deleted");
    Ok(Next::Change)
}

/// Where the files of a restore are; none when nothing says so any more.
async fn location_of(context: &Context, restore: &Restore) -> Result<Option<BackupStorageLocation>> {
    let wanted = &restore.spec.backup_name;
    if wanted.is_empty() {
        return Ok(None);
    }
    let found = match context.objects.get::<Backup>(wanted).await? {
        Some(backup) => context.objects.get(&backup.spec.storage_location).await?,
        None => None,
    };
    if found.is_none() {
        let restore = name(restore);
        tracing::warn!(restore, backup = wanted, "The backup or its location is gone; files of the restore may remain");
    }
    Ok(found)
}

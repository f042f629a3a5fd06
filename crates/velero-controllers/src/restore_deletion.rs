//! Removes the files of a restore that is being deleted.

use std::time::Duration;

use velero_api::finalizers::RESTORE_EXTERNAL_RESOURCES;
use velero_api::v1::{Backup, BackupStorageLocation, Restore};

use crate::context::Context;
use crate::driver::Next;
use crate::error::{Error, Result};
use crate::objects::name;
use crate::restore_operations;
use crate::restores::claims_files;

/// How soon a location that cannot be used is looked at again.
const PAUSE: Duration = Duration::from_secs(30);

/// Removes the files of a restore that is being deleted, then lets it go.
pub(crate) async fn release(context: &Context, restore: &Restore) -> Result<Next> {
    if !claims_files(restore) {
        return Ok(Next::Change);
    }
    if let Some(location) = location_of(context, restore).await? {
        if !location.is_available() {
            // What is known of its operations here needs no store.
            restore_operations::cancel(context, restore, None).await;
            let (restore, location) = (name(restore), name(&location));
            tracing::warn!(restore, location, "The restore stays until its location is available again");
            return Ok(Next::After(PAUSE));
        }
        let store = context.locations.open(&location).await?;
        restore_operations::try_cancel(context, restore, Some(&store)).await?;
        store.delete_restore(name(restore)).await?;
    } else {
        restore_operations::cancel(context, restore, None).await;
    }
    disclaim(context, restore).await?;
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

/// Takes back the claim on a restore's files; one that is gone already is fine.
pub(crate) async fn disclaim(context: &Context, restore: &Restore) -> Result<()> {
    let mut released = restore.clone();
    if let Some(finalizers) = &mut released.metadata.finalizers {
        finalizers.retain(|finalizer| finalizer != RESTORE_EXTERNAL_RESOURCES);
    }
    match context.objects.force(restore, &released).await {
        Err(Error::Cluster(error)) if error.is_not_found() => Ok(()),
        outcome => outcome.map(drop),
    }
}

//! Where the files of a restore are.

use velero_api::v1::{Backup, BackupStorageLocation, Restore};
use velero_store::BackupStore;

use crate::restore::error::RunError;
use crate::restore::prepare::PreparedRestore;
use crate::runtime::context::Context;
use crate::runtime::error::Result;

/// The store of a restore's files; none when the backup or the location is gone.
pub(crate) async fn store_of(context: &Context, restore: &Restore) -> Result<Option<BackupStore>> {
    let Some(backup) = context.objects.get::<Backup>(&restore.spec.backup_name).await? else { return Ok(None) };
    let location = context.objects.get::<BackupStorageLocation>(&backup.spec.storage_location).await?;
    let Some(location) = location else { return Ok(None) };
    context.locations.open(&location).await.map(Some)
}

/// Opens the store of the backup that a restore was prepared from, or says why that cannot be done.
pub(super) async fn open(context: &Context, prepared: &PreparedRestore) -> Result<BackupStore, RunError> {
    let location = prepared.location.as_ref().ok_or(RunError::NoLocation)?;
    context.locations.open(location).await.map_err(RunError::Location)
}

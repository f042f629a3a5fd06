//! What becomes of a backup while its operations are followed. When all have ended it is finalized; those that failed
//! make it partially failed at once.

use velero_api::v1::{Backup, BackupPhase, BackupStorageLocation};
use velero_rules::phases::backup_phase_after_run;
use velero_store::BackupStore;

use crate::backup::cancellation;
use crate::backup::ending::{Stored, end_partially_failed, stored};
use crate::lifecycle::cancel::cancel_owned;
use crate::lifecycle::files::Found;
use crate::lifecycle::follow::{Follow, pause};
use crate::runtime::context::Context;
use crate::runtime::driver::Next;
use crate::runtime::error::{Error, Result};

impl Follow for Backup {
    async fn store(&self, context: &Context) -> Result<Found<BackupStore>> {
        store_of(context, self).await
    }

    fn phase_after(&self, operations_running: bool, has_errors: bool) -> BackupPhase {
        backup_phase_after_run(operations_running, has_errors)
    }

    async fn move_on(&self, context: &Context, moved: Self, _store: &BackupStore, _running: bool) -> Result<Next> {
        match context.objects.patch(self, &moved).await {
            Err(Error::Cluster(error)) if error.is_not_found() => cancel_owned(context, self, None).await,
            outcome => drop(outcome?),
        }
        Ok(Next::After(pause(context)))
    }

    async fn end_cancelled(&self, context: &Context, reason: &str) -> Result<()> {
        cancellation::end(context, self, reason).await
    }

    async fn end_unfollowed(&self, context: &Context, store: Option<&BackupStore>, problem: &str) -> Result<()> {
        if let Some(store) = store
            && matches!(stored(store, self).await?, Stored::OfAnother)
        {
            return cancellation::give_way(context, store, self).await;
        }
        end_partially_failed(context, self, store, problem).await
    }
}

/// The store of a backup, or why it cannot be used any more.
pub(super) async fn store_of(context: &Context, backup: &Backup) -> Result<Found<BackupStore>> {
    let place = &backup.spec.storage_location;
    match context.objects.get::<BackupStorageLocation>(place).await? {
        None => Ok(Found::Unusable(format!("its backup storage location {place:?} is gone"))),
        Some(location) if location.is_read_only() => {
            Ok(Found::Unusable(format!("its backup storage location {place:?} is in read-only mode")))
        }
        Some(location) => context.locations.open(&location).await.map(Found::Usable),
    }
}

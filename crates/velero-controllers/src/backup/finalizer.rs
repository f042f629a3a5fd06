//! The last step of a backup: what operations have changed is stored again, and the metadata make it a backup.
//!
//! A backup whose asynchronous operations have ended comes here with all its files but the metadata stored. The items
//! that its operations changed are read again and take their place in the archive. The metadata say how it ended and
//! are written once; only then does the object say so too. A server that was stopped in between takes the step again.

use std::time::Duration;

use velero_api::metadata::{name, uid};
use velero_api::records::{BackupOperation, OperationPhase};
use velero_api::type_names::VOLUME_SNAPSHOTS;
use velero_api::v1::Backup;
use velero_engine::journal::Counts;
use velero_engine::stage;
use velero_engine::stage::{try_within, within};
use velero_engine::volumes::SavedVolumes;

use crate::backup::archive_update::update_archive;
use crate::backup::cancellation;
use crate::backup::ending::{Stored, close, end_partially_failed, put_metadata, stored};
use crate::backup::following::store_of;
use crate::backup::volumes;
use crate::lifecycle::cancellation::{requested, requested_by_now, until_requested};
use crate::lifecycle::ending::end_phase;
use crate::lifecycle::files::Found;
use crate::lifecycle::follow::load;
use crate::lifecycle::kind::Kind;
use crate::lifecycle::phase::move_to;
use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::driver::{Next, WHILE_HELD};
use crate::runtime::error::Result;

/// Ends a backup whose operations have ended.
pub(crate) async fn finish(context: &Context, backup: &Backup) -> Result<Next> {
    let Some(hold) = context.backups.busy.enter(name(backup)) else { return Ok(Next::After(WHILE_HELD)) };
    // Somebody may have had it until now.
    let Some(backup) = context.objects.get::<Backup>(name(backup)).await? else { return Ok(Next::Change) };
    if !Backup::is_finalizing(backup.status.phase()) {
        return Ok(Next::Change);
    }
    let finalized = async { try_within(stage!("finalize"), step(context, &backup)).await };
    let finalized = within(stage::of_object(uid(&backup)), finalized);
    tokio::select! {
        done = finalized => done?,
        () = hold.interrupted() => return Ok(Next::After(WHILE_HELD)),
        () = context.stop.cancelled() => {}
        // The next look ends it.
        _ = until_requested(context, &backup) => return Ok(Next::After(Duration::ZERO)),
    }
    Ok(Next::Change)
}

async fn step(context: &Context, backup: &Backup) -> Result<()> {
    let store = match store_of(context, backup).await? {
        Found::Usable(store) => store,
        Found::Unusable(problem) => return end_partially_failed(context, backup, None, &problem).await,
    };
    match stored(&store, backup).await? {
        Stored::OfAnother => return cancellation::give_way(context, &store, backup).await,
        Stored::Own(stored) if stored.status.phase().is_terminal() => {
            // Who stored them may have been killed before it gave the name back.
            store.release(name(backup), uid(backup)).await?;
            let ended = Backup { status: stored.status, ..backup.clone() };
            let saved = volumes::stored(&store, name(backup)).await?;
            return release_and_close(context, backup, &saved, &ended).await;
        }
        Stored::Nothing | Stored::Own(_) => {}
    }
    if let Some(reason) = requested(backup) {
        return cancellation::end(context, backup, &reason).await;
    }
    let journal = backup.journal(context);
    let mut ended = backup.clone();
    let saved = match load(context, backup, &store).await? {
        // A backup without operations needs no file of them.
        Found::Unusable(_) if backup.status.backup_item_operations_attempted == 0 => {
            volumes::stored(&store, name(backup)).await?
        }
        Found::Unusable(problem) => return end_partially_failed(context, backup, Some(&store), &problem).await,
        Found::Usable(operations) => {
            let updated = update_archive(context, backup, &store, &operations, &journal).await?;
            if let Some(items) = updated.items {
                put_items(&mut ended, items);
            }
            ended.status.csi_volume_snapshots_completed = completed_csi_snapshots(&operations);
            let saved = volumes::settle(&store, name(backup), &operations, updated.uploads).await?;
            ended.status.volume_snapshots_completed = saved.native_snapshots().1;
            saved
        }
    };
    let known = backup.counts();
    let counts = match journal.counts() {
        none if none == Counts::default() => backup.files(&store).told(known).await?,
        _ => backup.files(&store).amend(&journal, known, true).await?,
    };
    ended.put_counts(counts);
    move_to(&mut ended, end_phase::<Backup>(backup.status.phase(), counts.errors > 0))?;
    ended.status.completion_timestamp = Some(clock::now_time());
    // The metadata make a backup exist; from then on it is too late.
    if let Some(reason) = requested_by_now(context, backup).await? {
        return cancellation::end(context, backup, &reason).await;
    }
    put_metadata(&store, &mut ended).await?;
    release_and_close(context, backup, &saved, &ended).await
}

/// Frees the cluster of what the files of a backup hold now, and writes how it ended. Not before its metadata are stored: until
/// then it may be cancelled, and what nobody can restore from is removed by the objects that are let go here.
async fn release_and_close(context: &Context, backup: &Backup, saved: &SavedVolumes, ended: &Backup) -> Result<()> {
    volumes::release(context, backup, saved).await?;
    close(context, backup, ended).await
}

/// Counts what was put into the archive after the operations have ended, so that the status says what the archive has.
fn put_items(ended: &mut Backup, items: i64) {
    let progress = ended.status.progress.get_or_insert_default();
    progress.items_backed_up = progress.items_backed_up.max(items);
    progress.total_items = progress.total_items.max(progress.items_backed_up);
}

fn completed_csi_snapshots(operations: &[BackupOperation]) -> i64 {
    let completed = operations.iter().filter(|operation| {
        *operation.status.phase() == OperationPhase::Completed
            && operation.spec.resource_identifier.group_resource() == VOLUME_SNAPSHOTS
    });
    i64::try_from(completed.count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_completed_operations_on_snapshots_are_csi_snapshots() {
        let operation = |group: &str, resource: &str, phase| {
            let mut operation = BackupOperation::default();
            operation.spec.resource_identifier.group = group.to_owned();
            operation.spec.resource_identifier.resource = resource.to_owned();
            operation.status.phase = Some(phase);
            operation
        };
        let operations = [
            operation("snapshot.storage.k8s.io", "volumesnapshots", OperationPhase::Completed),
            operation("snapshot.storage.k8s.io", "volumesnapshots", OperationPhase::Failed),
            operation("", "persistentvolumeclaims", OperationPhase::Completed),
        ];
        assert_eq!(completed_csi_snapshots(&operations), 1);
    }
}

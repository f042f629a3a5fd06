//! The last step of a backup: what operations have changed is stored again, and the metadata make it a backup.
//!
//! A backup whose asynchronous operations have ended comes here with all its files but the metadata stored. The items
//! that its operations changed are read again and take their place in the archive. The metadata say how it ended and
//! are written once; only then does the object say so too. A server that was stopped in between takes the step again.

use std::collections::BTreeMap;

use velero_api::labels;
use velero_api::records::{BackupOperation, OperationPhase, ResourceIdentifier, ResourceList};
use velero_api::v1::{Backup, BackupPhase};
use velero_archive::{BackupFile, Limits};
use velero_engine::Journal;
use velero_engine::backup::{Finalized, finalize};
use velero_engine::journal::Counts;
use velero_store::{BackupStore, Error as StoreError, blocking_reader, pipe};

use crate::backup_operations::{journal, load, store_of};
use crate::backup_phase::move_to;
use crate::backup_snapshots::settle;
use crate::clock;
use crate::context::Context;
use crate::csi_snapshots;
use crate::driver::{Next, WHILE_HELD};
use crate::error::{Error, Result, describe};
use crate::objects::{label, name, uid};
use crate::operations::{Files, cancel_unfinished};
use crate::ownership::End;

/// How many pieces of 256 KiB may wait between the archive and the upload.
const WAITING_PIECES: usize = 4;

/// The type whose completed operations are counted as CSI snapshots.
const CSI_SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";

/// Whether a backup only has to be finished.
pub(crate) fn is_finalizing(phase: &BackupPhase) -> bool {
    matches!(phase, BackupPhase::Finalizing | BackupPhase::FinalizingPartiallyFailed)
}

/// Ends a backup whose operations have ended.
pub(crate) async fn finish(context: &Context, backup: &Backup) -> Result<Next> {
    let Some(hold) = context.busy_backups.enter(name(backup)) else { return Ok(Next::After(WHILE_HELD)) };
    // Somebody may have had it until now.
    let Some(backup) = context.objects.get::<Backup>(name(backup)).await? else { return Ok(Next::Change) };
    if !is_finalizing(backup.status.phase()) {
        return Ok(Next::Change);
    }
    tokio::select! {
        done = step(context, &backup) => done?,
        () = hold.interrupted() => {}
        () = context.stop.cancelled() => {}
    }
    Ok(Next::Change)
}

async fn step(context: &Context, backup: &Backup) -> Result<()> {
    let store = match store_of(context, backup).await? {
        Ok(store) => store,
        Err(problem) => return end_badly(context, backup, None, &problem).await,
    };
    if let Some(stored) = stored(&store, backup).await?.filter(|stored| stored.status.phase().is_terminal()) {
        let mut ended = backup.clone();
        ended.status = stored.status;
        return close(context, backup, &ended).await;
    }
    let journal = journal(context, backup);
    let mut ended = backup.clone();
    match load(context, backup, &store).await? {
        // A backup without operations needs no file of them.
        Err(_) if backup.status.backup_item_operations_attempted == 0 => {}
        Err(problem) => return end_badly(context, backup, Some(&store), &problem).await,
        Ok(operations) => {
            update_archive(context, backup, &store, &operations, &journal).await?;
            ended.status.csi_volume_snapshots_completed = completed_csi_snapshots(&operations);
            ended.status.volume_snapshots_completed = settle(&store, name(backup), &operations).await?;
            csi_snapshots::settle(&store, name(backup), &operations).await?;
            csi_snapshots::release(context, backup).await?;
        }
    }
    let known = Counts { warnings: backup.status.warnings, errors: backup.status.errors };
    let counts = match journal.counts() {
        none if none == Counts::default() => known,
        _ => Files::of_backup(&store, name(backup)).amend(&journal, known, true).await?,
    };
    (ended.status.warnings, ended.status.errors) = (counts.warnings, counts.errors);
    let phase = if counts.errors > 0 { BackupPhase::PartiallyFailed } else { end_phase(backup.status.phase()) };
    move_to(&mut ended, phase)?;
    ended.status.completion_timestamp = Some(clock::now_time());
    put_metadata(&store, &ended).await?;
    close(context, backup, &ended).await
}

/// Writes how a backup ended; its files say so already.
async fn close(context: &Context, backup: &Backup, ended: &Backup) -> Result<()> {
    context.backup_operations.forget(name(backup));
    context.rest_plugins().await;
    if let End::Written(ended) = context.write_end(backup, ended).await? {
        report(context, &ended);
    }
    Ok(())
}

/// Ends a backup that cannot be finished as it should, and says why. Without a store only the object says so.
pub(crate) async fn end_badly(
    context: &Context,
    backup: &Backup,
    store: Option<&BackupStore>,
    problem: &str,
) -> Result<()> {
    let journal = journal(context, backup);
    let reason = format!("the backup cannot be finished: {problem}");
    journal.error().error(&problem).message("The backup cannot be finished");
    let known = Counts { warnings: backup.status.warnings, errors: backup.status.errors };
    let counts = match store {
        Some(store) => Files::of_backup(store, name(backup)).amend(&journal, known, true).await?,
        None => Counts { errors: known.errors + 1, ..known },
    };
    let mut ended = backup.clone();
    if let Some(store) = store {
        ended.status.volume_snapshots_completed = settle(store, name(backup), &[]).await?;
        csi_snapshots::settle(store, name(backup), &[]).await?;
        csi_snapshots::release(context, backup).await?;
    }
    move_to(&mut ended, BackupPhase::PartiallyFailed)?;
    (ended.status.warnings, ended.status.errors) = (counts.warnings, counts.errors);
    ended.status.failure_reason = reason;
    ended.status.completion_timestamp = Some(clock::now_time());
    if let Some(store) = store {
        put_metadata(store, &ended).await?;
    }
    close(context, backup, &ended).await
}

/// Stores the metadata of a backup at its end, in place of those that Velero stores before.
async fn put_metadata(store: &BackupStore, ended: &Backup) -> Result<()> {
    if stored(store, ended).await?.is_some() {
        let key = store.keys().backup_file(name(ended), BackupFile::Metadata).map_err(StoreError::from)?;
        store.object_store().delete_object(&key).await?;
    }
    Ok(store.put_metadata(ended).await?)
}

/// The metadata of a backup that are stored already.
async fn stored(store: &BackupStore, backup: &Backup) -> Result<Option<Backup>> {
    if !store.backup_exists(name(backup)).await? {
        return Ok(None);
    }
    let stored = store.get_metadata(name(backup)).await?;
    if uid(&stored) == uid(backup) {
        return Ok(Some(stored));
    }
    let problem = "another backup of this name has appeared in its location; choose another name";
    Err(Error::invalid("Backup", name(backup), problem))
}

/// Reads the items again that operations have changed, and puts them into the archive. What goes wrong is in the
/// journal, unless another try may help.
async fn update_archive(
    context: &Context,
    backup: &Backup,
    store: &BackupStore,
    operations: &[BackupOperation],
    journal: &Journal,
) -> Result<()> {
    let items: Vec<ResourceIdentifier> =
        operations.iter().flat_map(|operation| operation.spec.post_operation_items.clone()).collect();
    if items.is_empty() {
        return Ok(());
    }
    let tools = context.plugins.open(Some(journal)).await?;
    let policies = crate::backup::policies(context, backup).await.ok().flatten();
    let request = crate::backup::request(context, backup, policies, tools.actions.clone(), &tools);
    let found = finalize(request, &items, journal).await;
    if let Ok(found) = &found {
        cancel_unfinished(&found.operations, &tools.actions, backup).await;
    }
    tools.put_away().await;
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            journal.error().error(&describe(&error)).message("Error reading items after their operations");
            return Ok(());
        }
    };
    if found.entries.is_empty() {
        return Ok(());
    }
    let count = found.entries.len().to_string();
    journal.info().field("files", count).message("Updating the archive after the operations have ended");
    match rewrite(store, name(backup), &found, context.settings.archive_limits()).await {
        Err(problem) => journal.error().error(&problem).message("Error updating the archive of the backup"),
        Ok(stored) => {
            stored?;
            list_more(store, name(backup), found.resource_list).await?;
        }
    }
    Ok(())
}

/// Copies the archive with the new entries in their places; the old one stays until the new one is verified. The outer
/// error says that the archive cannot be read, the inner that the store cannot be reached.
async fn rewrite(
    store: &BackupStore,
    backup: &str,
    found: &Finalized,
    limits: Limits,
) -> Result<Result<(), StoreError>, String> {
    if let Err(error) = store.finish_replacement(backup).await {
        return Ok(Err(error));
    }
    let contents = match store.get_contents(backup).await {
        Err(error) if error.is_not_found() => return Err("it is not in the location any more".to_owned()),
        Err(error) => return Ok(Err(error)),
        Ok(contents) => contents,
    };
    let (mut writer, stream) = pipe(WAITING_PIECES);
    let modified = u64::try_from(clock::now().as_second()).unwrap_or_default();
    let entries: BTreeMap<String, Vec<u8>> = found.entries.clone();
    let reader = blocking_reader(contents);
    let work = tokio::task::spawn_blocking(move || {
        let written = velero_archive::rewrite(reader, &mut writer, entries, modified, limits);
        written.map_err(|error| describe(&error))?;
        writer.finish().map_err(|error| error.to_string())
    });
    let (written, stored) = tokio::join!(work, store.replace_contents(backup, stream));
    let written = written.unwrap_or_else(|error| Err(error.to_string()));
    match (written, stored) {
        (Ok(()), stored) => Ok(stored),
        // The upload only passes on that the archive was not finished; why is known better here.
        (Err(problem), Ok(()) | Err(StoreError::Content { .. })) => Err(problem),
        (Err(_), Err(error)) => Ok(Err(error)),
    }
}

/// Adds items to the list of what is in the archive.
async fn list_more(store: &BackupStore, backup: &str, more: ResourceList) -> Result<()> {
    let mut list: ResourceList = store.get_json(backup, BackupFile::ResourceList).await?;
    for (kind, names) in more {
        let listed = list.entry(kind).or_default();
        listed.extend(names);
        listed.sort();
        listed.dedup();
    }
    Ok(store.put_json(backup, BackupFile::ResourceList, &list).await?)
}

fn completed_csi_snapshots(operations: &[BackupOperation]) -> i64 {
    let completed = operations.iter().filter(|operation| {
        *operation.status.phase() == OperationPhase::Completed
            && operation.spec.resource_identifier.group_resource() == CSI_SNAPSHOTS
    });
    i64::try_from(completed.count()).unwrap_or(i64::MAX)
}

/// The phase a backup ends in that only has to be finished.
pub(crate) fn end_phase(phase: &BackupPhase) -> BackupPhase {
    match phase {
        BackupPhase::FinalizingPartiallyFailed => BackupPhase::PartiallyFailed,
        _ => BackupPhase::Completed,
    }
}

/// Tells how a backup ended; the figures of the metrics come from the status alone.
pub(crate) fn report(context: &Context, backup: &Backup) {
    let schedule = label(backup, labels::SCHEDULE_NAME);
    context.metrics.backup_ended(backup);
    if backup.status.csi_volume_snapshots_attempted > 0 {
        context.metrics.csi_snapshots(schedule, name(backup), &backup.status);
    }
    let status = &backup.status;
    let (backup, phase) = (name(backup), status.phase().as_str());
    if status.failure_reason.is_empty() {
        tracing::info!(backup, phase, errors = status.errors, warnings = status.warnings, "Backup ended");
    } else {
        tracing::error!(backup, phase, reason = status.failure_reason, "Backup failed");
    }
}

/// Removes what a failed backup has stored, so that nothing half-written is left; whether what is there now is its own.
/// Its claim stays while something is still to be said about it.
pub(crate) async fn clean_up(store: &BackupStore, backup: &Backup) -> bool {
    let cleared = store.clear(name(backup), uid(backup)).await;
    if let Err(error) = &cleared {
        let (backup, error) = (name(backup), describe(error));
        tracing::warn!(backup, error, "Files of a failed backup are left in its location");
    }
    !matches!(cleared, Err(StoreError::Foreign { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_ends_as_its_run_did() {
        assert_eq!(end_phase(&BackupPhase::Finalizing), BackupPhase::Completed);
        assert_eq!(end_phase(&BackupPhase::FinalizingPartiallyFailed), BackupPhase::PartiallyFailed);
    }

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

//! Clean-up that an interrupted backup or restore owes.
//!
//! A run that a server was killed in leaves operations, snapshots and files behind. What is known of them is in the
//! store. While that is away the object says Failed, and an annotation says that something is owed; it survives any
//! number of restarts, and goes when the debt is paid.

use std::time::Duration;

use velero_api::annotations::CLEAN_UP_OWED;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, BackupStorageLocation, Restore};

use crate::backup::owns_files;
use crate::context::Context;
use crate::driver::{Next, WHILE_HELD};
use crate::error::{Error, Result};
use crate::objects::{name, uid};
use crate::{
    backup_operations, backup_snapshots, csi_snapshots, garbage_collection, movers, restore_finalizer,
    restore_operations,
};

/// How soon is tried again to remove what could not be removed.
const PAUSE: Duration = Duration::from_secs(600);

/// What an interrupted backup may have left behind.
pub(crate) const OF_BACKUP: &str = "operations, snapshots and files of the interrupted run";
/// What an interrupted restore may have left behind.
pub(crate) const OF_RESTORE: &str = "operations of the interrupted run";

/// How things stand with what an interrupted backup left behind.
enum Remains {
    /// It had ended: this is what is stored.
    Ended(Box<Backup>),
    /// Nothing is left.
    Removed,
    /// Something could not be removed, in words.
    Left(String),
}

/// Notes that an object owes clean-up.
pub(crate) fn owe<K: VeleroResource>(object: &mut K, what: &str) {
    let annotations = object.meta_mut().annotations.get_or_insert_default();
    annotations.insert(CLEAN_UP_OWED.to_owned(), what.to_owned());
}

/// Whether an object owes clean-up.
pub(crate) fn owes<K: VeleroResource>(object: &K) -> bool {
    object.meta().annotations.as_ref().is_some_and(|annotations| annotations.contains_key(CLEAN_UP_OWED))
}

fn settle<K: VeleroResource>(object: &mut K) {
    if let Some(annotations) = &mut object.meta_mut().annotations {
        annotations.remove(CLEAN_UP_OWED);
    }
}

/// The metadata of an interrupted backup, should it have got that far.
pub(crate) async fn stored_end(context: &Context, backup: &Backup) -> Result<Option<Backup>> {
    let place = &backup.spec.storage_location;
    let Some(location) = context.objects.get::<BackupStorageLocation>(place).await? else { return Ok(None) };
    let store = context.locations.open_for_a_look(&location).await?;
    if !store.backup_exists(name(backup)).await? || !owns_files(&store, backup).await? {
        return Ok(None);
    }
    Ok(Some(store.get_metadata(name(backup)).await?))
}

/// Cancels and removes what an interrupted backup left, unless it had ended. It can be done again at any point.
async fn remove_remains(context: &Context, backup: &Backup) -> Result<Remains> {
    movers::cancel_of_backup(context, backup).await;
    // Only the store tells whether the snapshots are those of a whole backup.
    if let Some(stored) = stored_end(context, backup).await? {
        return Ok(Remains::Ended(Box::new(stored)));
    }
    csi_snapshots::try_discard(context, backup).await?;
    let place = &backup.spec.storage_location;
    let Some(location) = context.objects.get::<BackupStorageLocation>(place).await? else {
        return Ok(Remains::Left(format!("its backup storage location {place:?} does not exist")));
    };
    if location.is_read_only() {
        return Ok(Remains::Left(format!("its backup storage location {place:?} is in read-only mode")));
    }
    let store = context.locations.open_for_a_look(&location).await?;
    if !owns_files(&store, backup).await? {
        return Ok(Remains::Removed);
    }
    backup_operations::try_cancel(context, backup, Some(&store)).await?;
    let left = backup_snapshots::delete_stored(context, backup, &store).await;
    if !left.is_empty() {
        // The files say what is still to be removed.
        return Ok(Remains::Left(left.join("; ")));
    }
    store.clear(name(backup), uid(backup)).await?;
    store.release(name(backup), uid(backup)).await?;
    Ok(Remains::Removed)
}

/// Pays what a failed backup owes.
pub(crate) async fn pay_for_backup(context: &Context, backup: &Backup) -> Result<Next> {
    let Some(_hold) = context.busy_backups.enter(name(backup)) else { return Ok(Next::After(WHILE_HELD)) };
    // Somebody may have had it until now.
    let Some(backup) = context.objects.get::<Backup>(name(backup)).await?.filter(owes) else {
        return Ok(Next::Change);
    };
    let mut paid = backup.clone();
    settle(&mut paid);
    match remove_remains(context, &backup).await? {
        Remains::Left(problem) => {
            tracing::warn!(backup = name(&backup), problem, "What the interrupted backup left is still there");
            // Its time may be over all the same.
            garbage_collection::collect(context, &backup).await?;
            return Ok(Next::After(PAUSE));
        }
        Remains::Removed => tracing::info!(backup = name(&backup), "What the interrupted backup left is removed"),
        Remains::Ended(stored) => {
            tracing::info!(backup = name(&backup), "The backup had ended when its server was stopped");
            paid.status = stored.status;
        }
    }
    write(context, &backup, &paid).await
}

/// Pays what a failed restore owes.
pub(crate) async fn pay_for_restore(context: &Context, restore: &Restore) -> Result<Next> {
    let Some(_hold) = context.busy_restores.enter(name(restore)) else { return Ok(Next::After(WHILE_HELD)) };
    movers::cancel_of_restore(context, restore).await;
    cancel_operations(context, restore).await?;
    let mut paid = restore.clone();
    settle(&mut paid);
    tracing::info!(restore = name(restore), "Operations of the interrupted restore are cancelled");
    write(context, restore, &paid).await
}

/// Cancels the operations that an interrupted restore has stored. Without its backup or location nothing is known.
async fn cancel_operations(context: &Context, restore: &Restore) -> Result<()> {
    if let Some(store) = restore_finalizer::store_of(context, restore).await? {
        restore_operations::try_cancel(context, restore, Some(&store)).await?;
    }
    Ok(())
}

async fn write<K: VeleroResource>(context: &Context, before: &K, after: &K) -> Result<Next> {
    match context.objects.force(before, after).await {
        Err(Error::Cluster(error)) if error.is_not_found() => {}
        outcome => drop(outcome?),
    }
    Ok(Next::Change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_known_until_it_is_settled() {
        let mut backup = Backup::new("velero", "b", Default::default());
        assert!(!owes(&backup));
        owe(&mut backup, OF_BACKUP);
        assert!(owes(&backup));
        settle(&mut backup);
        assert!(!owes(&backup));
    }
}

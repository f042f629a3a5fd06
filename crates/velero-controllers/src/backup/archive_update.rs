//! Puts what operations have changed into the archive of their backup.

use std::collections::BTreeMap;

use velero_api::metadata::name;
use velero_api::records::{BackupOperation, ResourceIdentifier, ResourceList};
use velero_api::v1::Backup;
use velero_archive::{BackupFile, Limits};
use velero_engine::Journal;
use velero_engine::backup::{Finalized, finalize};
use velero_store::{BackupStore, Error as StoreError, blocking_reader, pipe};

use crate::backup::transfer::{WAITING_PIECES, request};
use crate::lifecycle::cancel::cancel_unfinished;
use crate::lifecycle::policies::policies;
use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};

/// Reads the items again that operations have changed, and puts them into the archive. What goes wrong is in the
/// journal, unless another try may help.
pub(super) async fn update_archive(
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
    let policies = policies(context, backup).await.ok().flatten();
    let request = request(context, backup, policies, tools.actions.clone(), &tools);
    let found = finalize(request, &items, journal).await;
    if let Ok(found) = &found {
        cancel_unfinished(&found.operations, &tools.actions, backup).await;
    }
    tools.close().await;
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
        Ok(()) => list_more(store, name(backup), found.resource_list).await,
        Err(RewriteError::Store(error)) => Err(error.into()),
        Err(RewriteError::Archive(problem)) => {
            journal.error().error(&problem).message("Error updating the archive of the backup");
            Ok(())
        }
    }
}

/// Why an archive was not rewritten.
enum RewriteError {
    /// It cannot be read, and another try would not help.
    Archive(String),
    /// The store cannot be reached.
    Store(StoreError),
}

/// Copies the archive with the new entries in their places; the old one stays until the new one is verified.
async fn rewrite(store: &BackupStore, backup: &str, found: &Finalized, limits: Limits) -> Result<(), RewriteError> {
    store.finish_replacement(backup).await.map_err(RewriteError::Store)?;
    let contents = store.get_contents(backup).await.map_err(|error| match error {
        error if error.is_not_found() => RewriteError::Archive("it is not in the location any more".to_owned()),
        error => RewriteError::Store(error),
    })?;
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
        (Ok(()), stored) => stored.map_err(RewriteError::Store),
        // The upload only passes on that the archive was not finished; why is known better here.
        (Err(problem), Ok(()) | Err(StoreError::Content { .. })) => Err(RewriteError::Archive(problem)),
        (Err(_), Err(error)) => Err(RewriteError::Store(error)),
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

//! Puts what operations have changed into the archive of their backup.

use std::collections::BTreeMap;

use velero_api::metadata::name;
use velero_api::records::{BackupOperation, OperationPhase, ResourceIdentifier, ResourceList};
use velero_api::type_names::DATA_UPLOADS;
use velero_api::v1::Backup;
use velero_api::v2alpha1::DataUpload;
use velero_archive::{BackupFile, Limits};
use velero_cluster::ItemRef;
use velero_engine::Journal;
use velero_engine::backup::{Finalized, finalize};
use velero_store::{BackupStore, Error as StoreError, blocking_reader, pipe};

use crate::backup::transfer::{WAITING_PIECES, request};
use crate::backup::unreadable::read_again;
use crate::lifecycle::cancel::cancel_unfinished;
use crate::lifecycle::policies::policies;
use crate::runtime::clock;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};

/// What has become of an archive.
#[derive(Default)]
pub(super) struct Updated {
    /// The DataUploads that were read again.
    pub(super) uploads: Vec<DataUpload>,
    /// How many items the list of the archive names now, if any were to be put into it.
    pub(super) items: Option<i64>,
}

/// Reads the items again that operations have changed, and puts them into the archive. What goes wrong is in the journal,
/// unless another try may help.
pub(super) async fn update_archive(
    context: &Context,
    backup: &Backup,
    store: &BackupStore,
    operations: &[BackupOperation],
    journal: &Journal,
) -> Result<Updated> {
    let items: Vec<ResourceIdentifier> =
        operations.iter().flat_map(|operation| operation.spec.post_operation_items.clone()).collect();
    if items.is_empty() {
        return Ok(Updated::default());
    }
    let mut updated = put_in(context, backup, store, operations, &items, journal).await?;
    if updated.items.is_none() {
        // A try that was broken off may have put some in.
        updated.items = Some(count(&store.get_json(name(backup), BackupFile::ResourceList).await?));
    }
    Ok(updated)
}

async fn put_in(
    context: &Context,
    backup: &Backup,
    store: &BackupStore,
    operations: &[BackupOperation],
    items: &[ResourceIdentifier],
    journal: &Journal,
) -> Result<Updated> {
    let tools = context.plugins.open(Some(journal)).await?;
    let policies = policies(context, backup).await.ok().flatten();
    let request = request(context, backup, policies, tools.actions.clone(), &tools);
    let found = finalize(request, items, journal).await;
    if let Ok(found) = &found {
        cancel_unfinished(&found.operations, &tools.actions, backup).await;
    }
    tools.close().await;
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            journal.error().error(&describe(&error)).message("Error reading items after their operations");
            return Ok(Updated::default());
        }
    };
    let mut updated = Updated { uploads: data_uploads(&found.entries), items: None };
    tell_of_lost_uploads(operations, &updated.uploads, journal);
    if found.entries.is_empty() {
        return Ok(updated);
    }
    let count = found.entries.len().to_string();
    journal.info().field("files", count).message("Updating the archive after the operations have ended");
    let limits = context.settings.archive_limits();
    let rewritten = read_again(name(backup), || rewrite(store, name(backup), &found, limits), RewriteError::of_reading);
    match rewritten.await {
        Ok(()) => updated.items = Some(list_more(store, name(backup), found.resource_list).await?),
        Err(RewriteError::Store(error)) => return Err(error.into()),
        Err(RewriteError::Archive(problem)) => {
            journal.error().error(&problem).message("Error updating the archive of the backup");
        }
    }
    Ok(updated)
}

/// The DataUploads among the entries of an archive.
fn data_uploads(entries: &BTreeMap<String, Vec<u8>>) -> Vec<DataUpload> {
    let uploads = entries.iter().filter(|(path, _)| path.starts_with(UPLOADS_FOLDER));
    uploads.filter_map(|(_, body)| serde_json::from_slice(body).ok()).collect()
}

/// Says which data was moved and cannot be found again: its operation has ended well, but nobody can ask its DataUpload any more.
fn tell_of_lost_uploads(operations: &[BackupOperation], uploads: &[DataUpload], journal: &Journal) {
    let ended_well = operations.iter().filter(|operation| *operation.status.phase() == OperationPhase::Completed);
    for BackupOperation { spec, .. } in ended_well {
        let is_lost = |item: &&ResourceIdentifier| {
            item.group_resource() == DATA_UPLOADS && !uploads.iter().any(|upload| name(upload) == item.name)
        };
        if let Some(lost) = spec.post_operation_items.iter().find(is_lost) {
            let claim = &spec.resource_identifier;
            let entry =
                journal.error().item(ItemRef::new("persistentvolumeclaims", Some(&claim.namespace), &claim.name));
            entry.message(&format!(
                "The data of the claim was moved, but DataUpload {} is gone or cannot be read, so nobody knows where it is; back the \
                 claim up again",
                lost.name
            ));
        }
    }
}

/// Where DataUploads lie in an archive.
const UPLOADS_FOLDER: &str = "resources/datauploads.velero.io/namespaces/";

/// Why an archive was not rewritten.
enum RewriteError {
    /// It cannot be read, and another try would not help.
    Archive(String),
    /// The store cannot be reached.
    Store(StoreError),
}

impl RewriteError {
    /// Why the archive could not be read, if that is how it ended.
    fn of_reading(rewritten: &Result<(), Self>) -> Option<String> {
        match rewritten {
            Err(Self::Archive(problem)) => Some(problem.clone()),
            Ok(()) | Err(Self::Store(_)) => None,
        }
    }
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

/// Adds items to the list of what is in the archive; gives how many are listed then. Those that an interrupted try has listed
/// already count as well.
async fn list_more(store: &BackupStore, backup: &str, more: ResourceList) -> Result<i64> {
    let mut list: ResourceList = store.get_json(backup, BackupFile::ResourceList).await?;
    for (kind, names) in more {
        let listed = list.entry(kind).or_default();
        listed.extend(names);
        listed.sort();
        listed.dedup();
    }
    store.put_json(backup, BackupFile::ResourceList, &list).await?;
    Ok(count(&list))
}

/// How many items a list names.
fn count(list: &ResourceList) -> i64 {
    i64::try_from(list.values().map(Vec::len).sum::<usize>()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use velero_engine::journal::{Level, LogFormat};

    use super::*;

    #[test]
    fn moved_data_of_which_nobody_knows_where_it_is_is_an_error_of_its_claim() {
        let upload =
            |name: &str| format!(r#"{{"metadata": {{"name": "{name}"}}, "status": {{"phase": "Completed"}}}}"#);
        let entries = BTreeMap::from([
            ("resources/datauploads.velero.io/namespaces/velero/b-1.json".to_owned(), upload("b-1").into_bytes()),
            (
                "resources/datauploads.velero.io/v2alpha1-preferredversion/namespaces/velero/b-1.json".to_owned(),
                Vec::new(),
            ),
            ("resources/pods/namespaces/shop/web.json".to_owned(), upload("web").into_bytes()),
        ]);
        let uploads = data_uploads(&entries);
        assert_eq!(uploads.iter().map(name).collect::<Vec<_>>(), ["b-1"]);
        let operation = |claim: &str, upload: &str, phase| {
            let mut operation = BackupOperation::default();
            operation.spec.resource_identifier = ResourceIdentifier::new("", "persistentvolumeclaims", "shop", claim);
            operation.spec.post_operation_items =
                vec![ResourceIdentifier::new("velero.io", "datauploads", "velero", upload)];
            operation.status.phase = Some(phase);
            operation
        };
        let operations = [
            operation("found", "b-1", OperationPhase::Completed),
            operation("lost", "b-2", OperationPhase::Completed),
            // Its failure was told of.
            operation("failed", "b-3", OperationPhase::Failed),
        ];
        let journal = Journal::for_backup("velero", "b", LogFormat::Text, Level::Info);
        tell_of_lost_uploads(&operations, &uploads, &journal);
        let errors = journal.results().errors.namespaces["shop"].clone();
        assert!(matches!(&errors[..], [one] if one.contains("lost") && one.contains("b-2")), "{errors:?}");
    }
}

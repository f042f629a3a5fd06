//! The second look: items that operations have changed are read from the cluster and stored again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::watch;
use velero_api::records::{BackupOperation, ResourceIdentifier, ResourceList};
use velero_api::v1::BackupProgress;
use velero_archive::layout::VERSION_PATH;
use velero_archive::{ArchiveReader, Error as ArchiveError, Limits};
use velero_cluster::ItemRef;

use super::admit::Admission;
use super::batch::Batch;
use super::collect::LISTS_AHEAD;
use super::error::ItemError;
use super::item::ItemSaver;
use super::item_block::ItemBlock;
use super::pool::Item;
use super::run::Run;
use super::write::Records;
use super::{BackupError, BackupRequest, plan};
use crate::journal::{Level, LogFormat};
use crate::stage::try_within;
use crate::{Journal, lock};

/// How many items are looked at at the same time.
const AT_ONCE: usize = 16;

/// What the second look brought.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finalized {
    /// What belongs into the archive, by path.
    pub entries: BTreeMap<String, Vec<u8>>,
    /// The same items, by `<apiVersion>/<Kind>`.
    pub resource_list: ResourceList,
    /// Operations that actions started all the same; nobody waits for them.
    pub operations: Vec<BackupOperation>,
}

/// Reads items again, whatever the filters of the backup say, and runs the actions on them. Hooks do not run, and an
/// action that starts another operation fails its item.
///
/// What goes wrong with single items is in the journal.
pub async fn finalize(
    request: BackupRequest,
    items: &[ResourceIdentifier],
    journal: &Journal,
) -> Result<Finalized, BackupError> {
    // What there is to say about the plan was said when the backup ran.
    let unheard = Journal::for_backup("", "", LogFormat::Text, Level::Error);
    let plan = plan::prepare(&request, &unheard).boxed().await?;
    let (progress, _) = watch::channel(BackupProgress::default());
    let limits = request.limits;
    // What an action starts now is waited for by nobody.
    let _broken_off = request.recorder.breaks_off_when_dropped();
    let (mut run, archive) = Run::start(request, plan, journal, progress, Vec::new());
    // Snapshots were taken when the backup ran.
    run.saves_volumes = false;
    // No list is still to come.
    run.position.store(usize::MAX - LISTS_AHEAD, Ordering::Relaxed);
    let second_look = SecondLook { saver: run.item_saver(), records: &run.records };
    let looked = try_within(run.stage.clone(), second_look.read_again(items).boxed()).await;
    let entries = entries(&archive.close(looked).await?, limits).map_err(BackupError::Archive)?;
    let outcome = run.finish();
    Ok(Finalized { entries, resource_list: outcome.resource_list.to_map(), operations: outcome.operations })
}

/// What it takes to store items again.
struct SecondLook<'a> {
    saver: ItemSaver<'a>,
    records: &'a Records,
}

impl SecondLook<'_> {
    async fn read_again(&self, items: &[ResourceIdentifier]) -> Result<(), BackupError> {
        let mut seen = BTreeSet::new();
        let items: Vec<_> = items.iter().filter(|item| seen.insert(item.to_string())).collect();
        // All are read before an action can make one of them go away.
        let mut reads: Vec<BoxFuture<'_, ()>> = Vec::with_capacity(items.len());
        let mut again: Vec<BoxFuture<'_, Result<(), BackupError>>> = Vec::with_capacity(items.len());
        for item in items {
            reads.push(self.read_ahead(item).boxed());
            again.push(self.back_up_again(item).boxed());
        }
        stream::iter(reads).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
        let done: Vec<Result<(), BackupError>> = stream::iter(again).buffer_unordered(AT_ONCE).collect().await;
        done.into_iter().collect::<Result<(), BackupError>>()?;
        self.records.flush().await
    }

    /// Reads an item; what goes wrong is told when it is backed up.
    async fn read_ahead(&self, item: &ResourceIdentifier) {
        let saver = &self.saver;
        let Some(planned) = saver.admission.plan.preferred(&item.group_resource()) else {
            return;
        };
        let found = saver.cluster.get_raw(planned.resource_type.item(item.namespace(), &item.name)).await;
        if let Ok(Some(raw)) = found {
            lock(saver.pool).insert(Item::new(planned, raw));
        }
    }

    async fn back_up_again(&self, item: &ResourceIdentifier) -> Result<(), BackupError> {
        let Admission { plan, ledger, journal, .. } = self.saver.admission;
        let (resource, namespace, name) = (item.group_resource(), item.namespace(), item.name.as_str());
        let mut batch = Batch::default();
        let mut done = self.saver.back_up_additional_item(item, true, &mut ItemBlock::default(), &mut batch).await;
        if done.is_ok() && self.has_operation_on(item) {
            done = Err(ItemError::LateOperation);
            if let Some(planned) = plan.preferred(&resource) {
                ledger.fail(planned.item(namespace, name));
            }
        }
        match done {
            Ok(()) => self.records.send(batch.records).await,
            Err(error) => {
                let entry = journal.error().item(ItemRef::new(resource.as_str(), namespace, name)).error(&error);
                entry.message("Error updating item after its operations");
                Ok(())
            }
        }
    }

    fn has_operation_on(&self, item: &ResourceIdentifier) -> bool {
        self.saver.recorder.operations.any(|operation| operation.spec.resource_identifier == *item)
    }
}

/// The entries of a small archive.
fn entries(archive: &[u8], limits: Limits) -> Result<BTreeMap<String, Vec<u8>>, ArchiveError> {
    let mut entries = BTreeMap::new();
    ArchiveReader::new(archive).with_limits(limits).for_each::<ArchiveError, _>(|entry| {
        if entry.path != VERSION_PATH {
            entries.insert(entry.path.to_owned(), entry.body.to_vec());
        }
        Ok(())
    })?;
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use velero_archive::ArchiveWriter;

    use super::*;

    #[test]
    fn the_entries_of_an_archive_are_its_items() {
        let mut writer = ArchiveWriter::new(Vec::new(), 1).unwrap();
        writer.append("resources/pods/namespaces/shop/web.json", b"{}").unwrap();
        let archive = writer.finish().unwrap();
        let expected = BTreeMap::from([("resources/pods/namespaces/shop/web.json".to_owned(), b"{}".to_vec())]);
        let limits = Limits::default();
        assert_eq!(entries(&archive, limits).unwrap(), expected);
        assert!(entries(&archive[..20], limits).is_err());
    }
}

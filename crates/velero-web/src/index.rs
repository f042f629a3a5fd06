//! Small rows of what lists show, kept current by watches of the server, so that a page of a list needs no list of the API
//! server. Whoever is shown rows has been asked for the right to list them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use velero_api::labels::valid_value;
use velero_api::resource::VeleroResource;
use velero_cluster::{Cluster, watched};

use crate::digests::SavedBytes;
use crate::kept::{Kept, Row};
use crate::problem::Problem;
use crate::rows::{
    BackupRow, CopyRow, DeletionRow, DownloadRow, LocationRow, RestoreRow, RestoredCopyRow, ScheduleRow, UploadRow,
};
use crate::shown::Shown;

/// How many objects a page of the first list holds.
const PAGE: u32 = 200;
/// How long a page waits for the first list.
const FIRST_LIST: Duration = Duration::from_secs(10);

/// What lists show.
#[derive(Default)]
pub(crate) struct Index {
    pub(crate) backups: Table<BackupRow>,
    pub(crate) restores: Table<RestoreRow>,
    pub(crate) schedules: Table<ScheduleRow>,
    pub(crate) locations: Table<LocationRow>,
    pub(crate) copies: Table<CopyRow>,
    pub(crate) uploads: Table<UploadRow>,
    pub(crate) restored_copies: Table<RestoredCopyRow>,
    pub(crate) downloads: Table<DownloadRow>,
    pub(crate) deletions: Table<DeletionRow>,
}

impl Index {
    /// Follows all kinds until told to stop.
    pub(crate) async fn follow(self: Arc<Self>, cluster: Cluster, namespace: String, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        macro_rules! follow {
            ($table:ident) => {
                let (index, cluster, namespace) = (Arc::clone(&self), cluster.clone(), namespace.clone());
                tasks.spawn(async move { index.$table.follow(&cluster, &namespace).await });
            };
        }
        follow!(backups);
        follow!(restores);
        follow!(schedules);
        follow!(locations);
        follow!(copies);
        follow!(uploads);
        follow!(restored_copies);
        follow!(downloads);
        follow!(deletions);
        stop.cancelled().await;
        tasks.abort_all();
    }
}

impl Index {
    /// The kinds that the first page shows and follows.
    pub(crate) const OVERVIEW: [&str; 4] = ["backups", "restores", "schedules", "backupstoragelocations"];

    /// Tells of changes of what the first page shows, as far as it is wanted: in the order of [`Self::OVERVIEW`].
    pub(crate) fn overview_changes(&self, wanted: [bool; 4]) -> Vec<watch::Receiver<u64>> {
        let (backups, restores) = (self.backups.changes(), self.restores.changes());
        let all = [backups, restores, self.schedules.changes(), self.locations.changes()];
        all.into_iter().zip(wanted).filter_map(|(changes, is_wanted)| is_wanted.then_some(changes)).collect()
    }

    /// Tells of changes of what the page of a backup shows: backups, data of volumes on its way, and requests to delete one.
    pub(crate) fn backup_changes(&self) -> Vec<watch::Receiver<u64>> {
        vec![self.backups.changes(), self.copies.changes(), self.uploads.changes(), self.deletions.changes()]
    }

    /// Tells of changes of what the page of a restore shows.
    pub(crate) fn restore_changes(&self) -> Vec<watch::Receiver<u64>> {
        vec![self.restores.changes(), self.restored_copies.changes(), self.downloads.changes()]
    }

    /// When data of a backup was last on its way, and when it was last to be deleted, by the value of the label that names it.
    pub(crate) fn last_moves_of_backup(&self, label: &str) -> [Option<u64>; 3] {
        let deletions = self.deletions.look(|moves| moves.last(label));
        let (copies, uploads) = (&self.copies, &self.uploads);
        [copies.look(|saved| saved.moves().last(label)), uploads.look(|saved| saved.moves().last(label)), deletions]
    }

    /// When data of a restore was last on its way, by the value of the label that names it.
    pub(crate) fn last_moves_of_restore(&self, label: &str) -> [Option<u64>; 2] {
        [self.restored_copies.look(|moves| moves.last(label)), self.downloads.look(|moves| moves.last(label))]
    }
}

/// How often all of these have changed by now. Who reads rows afterwards has all of that.
pub(crate) fn version_of(changes: &[watch::Receiver<u64>]) -> u64 {
    changes.iter().map(|changes| *changes.borrow()).sum()
}

/// How many bytes of volumes each backup has saved, by the value of the label that names it.
pub(crate) type Bytes = BTreeMap<String, u64>;

impl Index {
    /// How many bytes of volumes all backups have saved, copied and moved.
    pub(crate) async fn all_bytes(&self) -> Result<u64, Problem> {
        let copied = self.copies.read(|kept| kept.digest().total()).await?;
        let moved = self.uploads.read(|kept| kept.digest().total()).await?;
        Ok(copied.saturating_add(moved))
    }

    /// How many bytes of volumes these backups have saved, copied and moved; those that saved none are not in it.
    pub(crate) async fn bytes_of(&self, labels: &[String]) -> Result<Bytes, Problem> {
        let copied = self.copies.read(|kept| among(labels, kept.digest())).await?;
        let moved = self.uploads.read(|kept| among(labels, kept.digest())).await?;
        let mut bytes = copied;
        for (label, more) in moved {
            let sum = bytes.entry(label).or_default();
            *sum = sum.saturating_add(more);
        }
        Ok(bytes)
    }

    /// How many bytes of volumes these backups have saved together, copied and moved.
    pub(crate) async fn sum_of(&self, backups: &[Arc<BackupRow>]) -> Result<u64, Problem> {
        let copied = self.copies.read(|kept| sum(backups, kept.digest())).await?;
        let moved = self.uploads.read(|kept| sum(backups, kept.digest())).await?;
        Ok(copied.saturating_add(moved))
    }
}

fn sum(backups: &[Arc<BackupRow>], saved: &SavedBytes) -> u64 {
    backups.iter().filter_map(|row| saved.of(&valid_value(&row.name))).fold(0, u64::saturating_add)
}

fn among(labels: &[String], saved: &SavedBytes) -> Bytes {
    labels.iter().filter_map(|label| Some((label.clone(), saved.of(label)?))).collect()
}

/// The rows of one kind.
pub(crate) struct Table<R: Row> {
    kept: RwLock<Kept<R>>,
    /// How often something changed; nothing before the first list was read.
    changes: watch::Sender<u64>,
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self { kept: RwLock::default(), changes: watch::Sender::new(0) }
    }
}

impl<R: Row> Table<R> {
    /// Looks at what is known, once the first list was read. Changes wait meanwhile: what takes long is done with what was found.
    pub(crate) async fn read<T>(&self, look: impl FnOnce(&Kept<R>) -> T) -> Result<T, Problem> {
        let mut changes = self.changes.subscribe();
        let is_listed = matches!(timeout(FIRST_LIST, changes.wait_for(|count| *count > 0)).await, Ok(Ok(_)));
        if !is_listed {
            return Err(Problem::Away("the server has not read the list from the API server yet".to_owned()));
        }
        Ok(look(&self.kept.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// All rows, in the order of their names.
    pub(crate) async fn rows(&self) -> Result<Vec<Arc<R>>, Problem> {
        self.read(|kept| kept.rows().values().cloned().collect()).await
    }

    /// The names of objects that cannot be read, and so have no row.
    pub(crate) async fn unreadable(&self) -> Result<Vec<String>, Problem> {
        self.read(|kept| kept.unreadable().iter().cloned().collect()).await
    }

    /// One row, as far as there is one now. After each change of its object it is another one.
    pub(crate) fn row(&self, name: &str) -> Option<Arc<R>> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).rows().get(name).cloned()
    }

    /// Looks at what is known of all rows together, as far as there are any now.
    fn look<T>(&self, look: impl FnOnce(&R::Digest) -> T) -> T {
        look(self.kept.read().unwrap_or_else(PoisonError::into_inner).digest())
    }

    /// Tells when something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// How often something has changed. Who reads rows afterwards has all of that.
    pub(crate) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    async fn follow(&self, cluster: &Cluster, namespace: &str) {
        let api: Api<Shown<R>> = Api::namespaced(cluster.client().clone(), namespace);
        let config = watcher::Config::default().page_size(PAGE);
        let mut events = std::pin::pin!(watched(api, config));
        let mut coming = Kept::default();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event, &mut coming),
                Err(error) => {
                    let kind = <R::Kind as VeleroResource>::KIND;
                    tracing::debug!(%error, kind, "The page lost a watch, and takes it up again");
                }
            }
        }
    }

    fn take(&self, event: Event<Shown<R>>, coming: &mut Kept<R>) {
        match event {
            Event::Init => *coming = Kept::default(),
            Event::InitApply(object) => object.put_into(coming),
            Event::InitDone => self.change(|kept| *kept = std::mem::take(coming)),
            Event::Apply(object) => self.change(|kept| object.put_into(kept)),
            Event::Delete(object) => self.change(|kept| kept.put(object.into_name(), None)),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Kept<R>)) {
        change(&mut self.kept.write().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn backup(time_to_live: &str) -> Shown<BackupRow> {
        let (metadata, spec) = (json!({"name": "b"}), json!({"ttl": time_to_live}));
        let object = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_read_is_named_until_it_can_be() {
        let (table, mut coming) = (Table::<BackupRow>::default(), Kept::default());
        for event in [Event::Init, Event::InitApply(backup("a month")), Event::InitDone] {
            table.take(event, &mut coming);
        }
        assert_eq!((table.unreadable().await.unwrap(), table.rows().await.unwrap().len()), (vec!["b".to_owned()], 0));
        table.take(Event::Apply(backup("720h0m0s")), &mut coming);
        assert_eq!((table.unreadable().await.unwrap().len(), table.rows().await.unwrap().len()), (0, 1));
        table.take(Event::Apply(backup("a month")), &mut coming);
        assert_eq!((table.unreadable().await.unwrap().len(), table.rows().await.unwrap().len()), (1, 0));
        table.take(Event::Delete(backup("a month")), &mut coming);
        assert!(table.unreadable().await.unwrap().is_empty());
    }
}

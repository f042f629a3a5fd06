//! Small rows of what lists show, kept current by watches of the server, so that a page of a list needs no list of the API
//! server. Whoever is shown rows has been asked for the right to list them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use velero_api::resource::VeleroResource;
use velero_cluster::Cluster;

use crate::digests::SavedBytes;
use crate::kept::{Kept, Row};
use crate::problem::Problem;
use crate::rows::{BackupRow, CopyRow, LocationRow, RestoreRow, ScheduleRow, UploadRow};

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
        stop.cancelled().await;
        tasks.abort_all();
    }
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

    /// One row, as far as there is one now. After each change of its object it is another one.
    pub(crate) fn row(&self, name: &str) -> Option<Arc<R>> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).rows().get(name).cloned()
    }

    /// Tells when something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// How often something has changed. Who reads rows afterwards has all of that.
    pub(crate) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    async fn follow(&self, cluster: &Cluster, namespace: &str)
    where
        R::Kind: VeleroResource,
    {
        let resource = ApiResource::erase::<R::Kind>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.client().clone(), namespace, &resource);
        let config = watcher::Config::default().page_size(PAGE);
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        let mut coming = Kept::default();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event, &mut coming),
                Err(error) => {
                    tracing::debug!(%error, kind = resource.kind, "The page lost a watch, and takes it up again")
                }
            }
        }
    }

    fn take(&self, event: Event<DynamicObject>, coming: &mut Kept<R>)
    where
        R::Kind: VeleroResource,
    {
        match event {
            Event::Init => *coming = Kept::default(),
            Event::InitApply(object) => {
                let (name, row) = row_of(object);
                coming.put(name, row);
            }
            Event::InitDone => self.change(|kept| *kept = std::mem::take(coming)),
            Event::Apply(object) => {
                let (name, row) = row_of(object);
                self.change(|kept| kept.put(name, row));
            }
            Event::Delete(object) => self.change(|kept| kept.put(object.metadata.name.unwrap_or_default(), None)),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Kept<R>)) {
        change(&mut self.kept.write().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|count| *count += 1);
    }
}

/// The row of an object. One that cannot be read hinders nobody: its own page says what is wrong with it.
fn row_of<R: Row>(object: DynamicObject) -> (String, Option<R>)
where
    R::Kind: VeleroResource,
{
    let name = object.metadata.name.clone().unwrap_or_default();
    let typed = serde_json::to_value(object).and_then(serde_json::from_value::<R::Kind>);
    let row = match &typed {
        Ok(typed) => R::of(typed),
        Err(error) => {
            tracing::debug!(name, %error, "The page cannot read an object");
            None
        }
    };
    (name, row)
}

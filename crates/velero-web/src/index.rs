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

use crate::problem::Problem;
use crate::rows::{BackupRow, CopyRow, LocationRow, RestoreRow, Row, ScheduleRow, UploadRow};

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
    /// How many bytes of volumes backups have saved, copied and moved.
    pub(crate) async fn bytes(&self) -> Result<Bytes, Problem> {
        let (copies, uploads) = (self.copies.rows().await?, self.uploads.rows().await?);
        let all = copies.iter().map(|row| &row.0).chain(uploads.iter().map(|row| &row.0));
        let mut bytes = Bytes::new();
        for volume in all.filter(|volume| volume.is_complete) {
            *bytes.entry(volume.backup.clone()).or_default() += volume.bytes;
        }
        Ok(bytes)
    }
}

/// The rows of one kind.
pub(crate) struct Table<R> {
    rows: RwLock<BTreeMap<String, Arc<R>>>,
    /// How often something changed; nothing before the first list was read.
    changes: watch::Sender<u64>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { rows: RwLock::default(), changes: watch::Sender::new(0) }
    }
}

impl<R: Row> Table<R> {
    /// All rows, in the order of their names.
    pub(crate) async fn rows(&self) -> Result<Vec<Arc<R>>, Problem> {
        let mut changes = self.changes.subscribe();
        let listed = timeout(FIRST_LIST, changes.wait_for(|count| *count > 0)).await;
        if !matches!(listed, Ok(Ok(_))) {
            return Err(Problem::Away("the server has not read the list from the API server yet".to_owned()));
        }
        Ok(self.rows.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect())
    }

    /// Tells when something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn follow(&self, cluster: &Cluster, namespace: &str)
    where
        R::Kind: VeleroResource,
    {
        let resource = ApiResource::erase::<R::Kind>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.client().clone(), namespace, &resource);
        let config = watcher::Config::default().page_size(PAGE);
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        let mut coming = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event, &mut coming),
                Err(error) => {
                    tracing::debug!(%error, kind = resource.kind, "The page lost a watch, and takes it up again")
                }
            }
        }
    }

    fn take(&self, event: Event<DynamicObject>, coming: &mut BTreeMap<String, Arc<R>>)
    where
        R::Kind: VeleroResource,
    {
        match event {
            Event::Init => coming.clear(),
            Event::InitApply(object) => insert(coming, object),
            Event::InitDone => {
                *self.rows.write().unwrap_or_else(PoisonError::into_inner) = std::mem::take(coming);
                self.changed();
            }
            Event::Apply(object) => {
                insert(&mut self.rows.write().unwrap_or_else(PoisonError::into_inner), object);
                self.changed();
            }
            Event::Delete(object) => {
                let name = object.metadata.name.unwrap_or_default();
                self.rows.write().unwrap_or_else(PoisonError::into_inner).remove(&name);
                self.changed();
            }
        }
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

/// Takes a row in. An object that cannot be read hinders nobody: its own page says what is wrong with it.
fn insert<R: Row>(rows: &mut BTreeMap<String, Arc<R>>, object: DynamicObject)
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
    match row {
        Some(row) => rows.insert(name, Arc::new(row)),
        None => rows.remove(&name),
    };
}

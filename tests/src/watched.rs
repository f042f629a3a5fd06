//! Objects as a watch shows them, each of their changes: what was true for a moment only is seen too.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures::TryStreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How soon a watch that broke goes on, and how often it may break in a row.
const PAUSE: Duration = Duration::from_millis(200);
const PATIENCE: u32 = 20;

/// A watch that goes on until it is dropped.
pub struct Watched {
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    changes: Vec<Value>,
    /// Why the watch has ended.
    trouble: Option<String>,
}

impl Watched {
    /// Begins to watch. An object that is deleted is seen once more, with `deleted` beside its fields.
    pub fn begin<K>(api: Api<K>) -> Self
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static,
    {
        let seen = Arc::<Mutex<Seen>>::default();
        let kept = seen.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = watch(&api, &kept).await {
                lock(&kept).trouble = Some(format!("{error:#}"));
            }
        });
        Self { seen, task }
    }

    /// What was seen, in the order in which it happened.
    pub fn seen(&self) -> Result<Vec<Value>> {
        let seen = lock(&self.seen);
        ensure!(!self.task.is_finished(), "the watch has ended: {:?}", seen.trouble);
        Ok(seen.changes.clone())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn watch<K>(api: &Api<K>, seen: &Mutex<Seen>) -> Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let there = api.list(&ListParams::default()).await?;
    lock(seen).changes.extend(there.items.iter().map(|object| json!(object)));
    let mut version = there.metadata.resource_version.unwrap_or_default();
    let mut breaks = 0;
    loop {
        // One that breaks goes on where it was: nothing is missed.
        match follow(api, seen, &mut version, &mut breaks).await {
            Err(error) if breaks >= PATIENCE => return Err(error),
            Err(_) => breaks += 1,
            Ok(()) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow<K>(api: &Api<K>, seen: &Mutex<Seen>, version: &mut String, breaks: &mut u32) -> Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let events = api.watch(&WatchParams::default(), version).await?;
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.try_next().await? {
        *breaks = 0;
        let (object, is_deleted) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(error) => bail!("the watch tells of {error:?}"),
        };
        *version = object.resource_version().unwrap_or_default();
        let mut value = json!(object);
        if is_deleted {
            value["deleted"] = json!(true);
        }
        lock(seen).changes.push(value);
    }
    Ok(())
}

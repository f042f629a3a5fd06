//! Waiting until an object is as wanted.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher;
use serde_json::Value;

use crate::connect::Cluster;
use crate::error::{Error, Result};
use crate::item_ref::ItemRef;
use crate::watched::watched_object;

impl Cluster {
    /// Watches an object until `condition` holds, and gives its state at that moment. The condition sees `None` while
    /// the object does not exist, so one can wait for a deletion too. A passing trouble is waited out; a missing
    /// permission is an error at once; [`Error::TimedOut`] after `timeout`.
    pub async fn wait_until(
        &self,
        item: ItemRef<'_>,
        timeout: Duration,
        condition: impl Fn(Option<&Value>) -> bool,
    ) -> Result<Option<Value>> {
        let waiting = self.watch_until(item, condition);
        let late = || Err(Error::TimedOut { object: item.to_string(), waited: timeout });
        tokio::time::timeout(timeout, waiting).await.unwrap_or_else(|_| late())
    }

    async fn watch_until(
        &self,
        item: ItemRef<'_>,
        condition: impl Fn(Option<&Value>) -> bool,
    ) -> Result<Option<Value>> {
        let ItemRef { resource_type, namespace, name } = item;
        // Refuses a namespaced type without a namespace, which would watch objects of that name everywhere.
        resource_type.home_path(namespace)?;
        let resource = resource_type.api_resource();
        let api: Api<DynamicObject> = match namespace.filter(|_| resource_type.namespaced) {
            Some(namespace) => Api::namespaced_with(self.client().clone(), namespace, &resource),
            None => Api::all_with(self.client().clone(), &resource),
        };
        let action = format!("watch {item}");
        let mut states = pin!(watched_object(api, name));
        while let Some(state) = states.next().await {
            let state = match state {
                Ok(state) => state,
                Err(error) => match fatal(error) {
                    Some(error) => return Err(Error::from_kube(action, error)),
                    None => continue,
                },
            };
            let value = state.map(serde_json::to_value).transpose();
            let value = value.map_err(|error| Error::Unreadable { action: action.clone(), source: error.into() })?;
            if condition(value.as_ref()) {
                return Ok(value);
            }
        }
        Err(Error::Unreachable { action, source: "the watch ended".into() })
    }
}

/// The failure behind a broken watch when watching again cannot help: no permission, or no such type.
pub(crate) fn fatal(error: watcher::Error) -> Option<kube::Error> {
    let error = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        watcher::Error::WatchError(status) => kube::Error::Api(status),
        _ => return None,
    };
    matches!(&error, kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404 | 405)).then_some(error)
}

//! Which pods mount which claims: one list a namespace, read when it is first asked for.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use tokio::sync::{Mutex, OnceCell};
use velero_rules::volume_decision::PodMount;

use super::act::{ItemResult, Run};
use super::plan::PODS;

/// The claims of pods, by namespace.
#[derive(Default)]
pub(super) struct Mounts {
    namespaces: Mutex<HashMap<String, Arc<OnceCell<Vec<PodMount>>>>>,
}

impl Mounts {
    /// The claims of all pods of a namespace.
    pub(super) async fn of_namespace(&self, run: &Run, namespace: &str) -> ItemResult<Vec<PodMount>> {
        let list = Arc::clone(self.namespaces.lock().await.entry(namespace.to_owned()).or_default());
        let mounts = list.get_or_try_init(|| read(run, namespace)).await;
        mounts.cloned().map_err(|error| format!("error getting the pods that mount the volume: {error}"))
    }
}

async fn read(run: &Run, namespace: &str) -> ItemResult<Vec<PodMount>> {
    let Some(pods) = run.plan.preferred(PODS) else {
        return Ok(Vec::new());
    };
    let request = &run.request;
    let mut pages = request.cluster.list_pages(&pods.resource_type, Some(namespace), None, request.page_size).boxed();
    let mut mounts = Vec::new();
    while let Some(page) = pages.try_next().await.map_err(|error| error.to_string())? {
        for pod in &page.items {
            mounts.extend(PodMount::of_pod(pod.as_bytes()).map_err(|error| error.to_string())?);
        }
    }
    Ok(mounts)
}

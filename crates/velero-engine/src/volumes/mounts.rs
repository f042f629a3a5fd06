//! Which pods mount which claims: pods are listed once a namespace, when it is first asked for.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use tokio::sync::{Mutex, OnceCell};
use velero_rules::volume_decision::pods::{PodVolume, PodVolumes};

use super::act::{ItemResult, Run};
use super::plan::PODS;

/// The mounts of one namespace, by claim.
type ByClaim = HashMap<String, Vec<PodVolume>>;

/// The mounts of pods, by namespace.
#[derive(Default)]
pub(super) struct Mounts {
    namespaces: Mutex<HashMap<String, Arc<OnceCell<ByClaim>>>>,
}

impl Mounts {
    /// How pods mount a claim.
    pub(super) async fn of_claim(&self, run: &Run, namespace: &str, claim: &str) -> ItemResult<Vec<PodVolume>> {
        let list = Arc::clone(self.namespaces.lock().await.entry(namespace.to_owned()).or_default());
        let mounts = list.get_or_try_init(|| read(run, namespace)).await;
        let mounts = mounts.map_err(|error| format!("error getting the pods that mount the volume: {error}"))?;
        Ok(mounts.get(claim).cloned().unwrap_or_default())
    }
}

async fn read(run: &Run, namespace: &str) -> ItemResult<ByClaim> {
    let mut mounts = ByClaim::new();
    let Some(pods) = run.plan.preferred(PODS) else {
        return Ok(mounts);
    };
    let request = &run.request;
    let mut pages = request.cluster.list_pages(&pods.resource_type, Some(namespace), None, request.page_size).boxed();
    while let Some(page) = pages.try_next().await.map_err(|error| error.to_string())? {
        for pod in &page.items {
            for volume in PodVolumes::read(pod.as_bytes()).map_err(|error| error.to_string())?.volumes {
                if let Some(claim) = volume.claim.clone() {
                    mounts.entry(claim).or_default().push(volume);
                }
            }
        }
    }
    Ok(mounts)
}

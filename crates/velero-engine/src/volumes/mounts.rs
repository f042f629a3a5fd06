//! Which pods mount which claims: pods are listed once a namespace, when it is first asked for.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use tokio::sync::{Mutex, OnceCell};
use velero_rules::volume_decision::pods::{PodVolume, PodVolumes};

use super::backup_context::BackupContext;
use super::error::VolumeError;

/// The mounts of one namespace, by claim.
type ByClaim = HashMap<String, Vec<PodVolume>>;

/// The mounts of pods, by namespace.
#[derive(Default)]
pub(super) struct Mounts {
    namespaces: Mutex<HashMap<String, Arc<OnceCell<ByClaim>>>>,
}

impl Mounts {
    /// How pods mount a claim.
    pub(super) async fn of_claim(
        &self,
        backup: &BackupContext<'_>,
        namespace: &str,
        claim: &str,
    ) -> Result<Vec<PodVolume>, VolumeError> {
        let list = Arc::clone(self.namespaces.lock().await.entry(namespace.to_owned()).or_default());
        let mounts = list.get_or_try_init(|| read(backup, namespace)).await?;
        Ok(mounts.get(claim).cloned().unwrap_or_default())
    }
}

async fn read(backup: &BackupContext<'_>, namespace: &str) -> Result<ByClaim, VolumeError> {
    let mut mounts = ByClaim::new();
    let Some(pods) = backup.types.pods else {
        return Ok(mounts);
    };
    let mut pages = backup.cluster.list_pages(pods, Some(namespace), None, backup.page_size).boxed();
    while let Some(page) = pages.try_next().await.map_err(VolumeError::Pods)? {
        for pod in &page.items {
            for volume in PodVolumes::read(pod.as_bytes()).map_err(VolumeError::PodVolumes)?.volumes {
                if let Some(claim) = volume.claim.clone() {
                    mounts.entry(claim).or_default().push(volume);
                }
            }
        }
    }
    Ok(mounts)
}

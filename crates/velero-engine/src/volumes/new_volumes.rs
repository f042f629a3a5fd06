//! A volume that is made anew for a claim gets the labels and the reclaim policy of the old one: once it is there, and where a
//! data mover fills it, once that is done.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tracing::Instrument;
use velero_api::records::PvInfo;
use velero_api::{DataMovePhase, labels, metadata};
use velero_cluster::{Cluster, Error, RawItem, types};
use velero_plugin::item::text;

use super::restore_context::RestoreContext;
use crate::fault::or_told;
use crate::restore::Target;
use crate::{Journal, lock};

/// How long a volume is waited for that is made only when a pod needs it.
const FOR_CONSUMER: Duration = Duration::from_secs(30);

/// How long a data mover may take where the restore does not say so.
const FOR_DATA: Duration = Duration::from_secs(4 * 3600);

/// How long a change of a volume is made again that the API server does not take.
const OUTAGE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(1);

/// The DataDownload that fills a volume.
pub(super) struct Download {
    namespace: String,
    operation_id: String,
    patience: Duration,
}

impl Download {
    /// That of an operation of a restore.
    pub(super) fn new(restore: &RestoreContext<'_>, operation_id: String) -> Self {
        let asked = restore.restore.spec.item_operation_timeout.to_std();
        let patience = if asked.is_zero() { FOR_DATA } else { asked };
        let namespace = metadata::namespace(restore.restore).to_owned();
        Self { namespace, operation_id, patience: patience + restore.resource_timeout }
    }

    /// Waits until the data is there; false when it never will be, which the operation tells of.
    async fn has_come(&self, cluster: &Cluster) -> Result<bool, Error> {
        let selector = format!("{}={}", labels::ASYNC_OPERATION_ID, self.operation_id);
        let mut pages = cluster.list_pages(&types::DATA_DOWNLOADS, Some(&self.namespace), Some(&selector), 2).boxed();
        let Some(found) = pages.try_next().await?.and_then(|page| page.items.first().map(RawItem::detach)) else {
            return Ok(false);
        };
        let phase = |download: &Value| DataMovePhase::from(text(download, "/status/phase"));
        let has_ended = |download: Option<&Value>| download.is_none_or(|download| phase(download).is_terminal());
        let item = types::DATA_DOWNLOADS.item(Some(&self.namespace), found.name());
        let download = cluster.wait_until(item, self.patience, has_ended).await?;
        Ok(download.is_some_and(|download| phase(&download) == DataMovePhase::Completed))
    }
}

/// A claim whose volume is to come.
struct Expected {
    cluster: Cluster,
    journal: Journal,
    namespace: String,
    claim: String,
    old: PvInfo,
    download: Option<Download>,
    patience: Duration,
}

/// Waits in the background for the new volume of a claim that was made, which is to get what the old one had.
pub(super) fn expect(
    restore: &RestoreContext<'_>,
    target: &Target<'_>,
    created: &RawItem,
    old: PvInfo,
    download: Option<Download>,
) {
    let class = created.to_value().map(|claim| text(&claim, "/spec/storageClassName").to_owned());
    let expected = Expected {
        cluster: restore.cluster.clone(),
        journal: restore.journal.clone(),
        namespace: target.namespace().unwrap_or_default().to_owned(),
        claim: target.name.clone(),
        old,
        download,
        patience: restore.resource_timeout,
    };
    lock(restore.tasks).spawn(expected.follow(class.unwrap_or_default()).in_current_span());
}

impl Expected {
    async fn follow(self, class: String) {
        let given_back = async { self.give_back(&class).await.map_err(|problem| problem.to_string()) };
        if let Err(problem) = or_told(given_back, |fault| Err(fault.to_owned())).await {
            let entry = self.journal.warning().namespace(Some(&self.namespace));
            let claim = format!("{}/{}", self.namespace, self.claim);
            entry.message(&format!("the new volume of claim {claim} does not have what the old one had: {problem}"));
        }
    }

    async fn give_back(&self, class: &str) -> Result<(), Error> {
        let class =
            if class.is_empty() { None } else { self.cluster.get(types::STORAGE_CLASSES.item(None, class)).await? };
        let class = class.unwrap_or_default();
        match &self.download {
            // A data mover may leave another policy than that of the class.
            Some(download) if !download.has_come(&self.cluster).await? => return Ok(()),
            None if self.old.labels.is_empty() && text(&class, "/reclaimPolicy") == self.old.reclaim_policy => {
                return Ok(());
            }
            _ => {}
        }
        let waits_for_pod = text(&class, "/volumeBindingMode") == "WaitForFirstConsumer";
        let patience = if waits_for_pod { FOR_CONSUMER.min(self.patience) } else { self.patience };
        let bound = |claim: Option<&Value>| claim.is_none_or(|claim| text(claim, "/status/phase") == "Bound");
        let waited = self
            .cluster
            .wait_until(types::PERSISTENT_VOLUME_CLAIMS.item(Some(&self.namespace), &self.claim), patience, bound)
            .await;
        let claim = match waited {
            Err(Error::TimedOut { .. }) if waits_for_pod => None,
            waited => waited?,
        };
        // A claim that is gone, or that no pod uses yet, has no volume to change.
        let Some(volume) = claim.map(|claim| text(&claim, "/spec/volumeName").to_owned()) else {
            return Ok(());
        };
        let spec = match self.old.reclaim_policy.as_str() {
            "" => json!({}),
            policy => json!({"persistentVolumeReclaimPolicy": policy}),
        };
        self.change(&volume, &json!({"metadata": {"labels": self.old.labels}, "spec": spec})).await
    }

    /// Changes a volume, and again while the trouble with that may pass: the change says the same however often it is made.
    async fn change(&self, volume: &str, patch: &Value) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            match self.cluster.merge_patch(types::PERSISTENT_VOLUMES.item(None, volume), patch).await {
                Err(error) if error.is_retryable() && begin.elapsed() < OUTAGE => tokio::time::sleep(PAUSE).await,
                changed => return changed.map(drop),
            }
        }
    }
}

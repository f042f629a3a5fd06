//! A volume that is made anew for a claim gets the labels and the reclaim policy of the old one.

use std::time::Duration;

use serde_json::{Value, json};
use velero_api::records::PvInfo;
use velero_cluster::{Cluster, Error, RawItem, types};
use velero_plugin::item::text;

use super::super::restore_context::RestoreContext;
use crate::restore::Target;
use crate::{Journal, lock};

/// How long a volume is waited for that is made only when a pod needs it.
const FOR_CONSUMER: Duration = Duration::from_secs(30);

/// A claim whose volume is to come.
struct Expected {
    cluster: Cluster,
    journal: Journal,
    namespace: String,
    claim: String,
    old: PvInfo,
    patience: Duration,
}

/// Waits in the background for the new volume of a claim that was made, if the old one is known.
pub(super) fn expect(restore: &RestoreContext<'_>, target: &Target<'_>, created: &RawItem) {
    let original = target.item.original.as_deref().unwrap_or_default();
    let Some(old) = restore.volumes.old_volume(original, &target.item.name) else {
        return;
    };
    let class = created.to_value().map(|claim| text(&claim, "/spec/storageClassName").to_owned());
    let expected = Expected {
        cluster: restore.cluster.clone(),
        journal: restore.journal.clone(),
        namespace: target.namespace().unwrap_or_default().to_owned(),
        claim: target.name.clone(),
        old,
        patience: restore.resource_timeout,
    };
    lock(restore.tasks).spawn(expected.follow(class.unwrap_or_default()));
}

impl Expected {
    async fn follow(self, class: String) {
        if let Err(problem) = self.give_back(&class).await {
            let entry = self.journal.warning().namespace(Some(&self.namespace));
            let claim = format!("{}/{}", self.namespace, self.claim);
            entry.message(&format!("the new volume of claim {claim} does not have what the old one had: {problem}"));
        }
    }

    async fn give_back(&self, class: &str) -> Result<(), Error> {
        let class =
            if class.is_empty() { None } else { self.cluster.get(types::STORAGE_CLASSES.item(None, class)).await? };
        let class = class.unwrap_or_default();
        if self.old.labels.is_empty() && text(&class, "/reclaimPolicy") == self.old.reclaim_policy {
            return Ok(());
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
        let patch = json!({"metadata": {"labels": self.old.labels}, "spec": spec});
        self.cluster.merge_patch(types::PERSISTENT_VOLUMES.item(None, &volume), &patch).await?;
        Ok(())
    }
}

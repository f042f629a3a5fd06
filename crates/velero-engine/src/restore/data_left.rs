//! Says which data does not come back.

use serde_json::Value;

use super::item::Item;
use super::run::Run;
use crate::volumes::LeftData;

impl Run {
    /// Says which data does not come back with a claim or a pod that was made.
    pub(super) fn tell_of_data_left(&self, item: &Item) {
        let original = item.original.as_deref().unwrap_or_default();
        let without = |what: &str| {
            let remedy = "restore the backup with Velero to get the data";
            let message = format!("{what}; it comes without the data: {remedy}");
            let entry = self.journal.error().resource(&item.resource).name(&item.name);
            entry.namespace(item.target.as_deref()).message(&message);
        };
        match &*item.resource {
            "persistentvolumeclaims" => {
                let claim = self.read(item).ok();
                if let Some(what) = claim.and_then(|claim| self.volumes.left_of_claim(original, &claim)) {
                    without(&format!("the data of claim {original}/{} is in {what}", item.name));
                }
            }
            "pods" => {
                for (volume, what) in self.volumes.left_of_pod(original, &item.name) {
                    without(&format!("the data of volume {volume} of pod {original}/{} is in {what}", item.name));
                }
            }
            _ => {}
        }
    }

    /// Says of which claim past work holds the data, if nothing else does and the claim is restored.
    pub(super) fn tell_of_work(&self, work: &Value) {
        let left = self.volumes.left_by_work(work).filter(|left| self.plan.scope.admits(Some(left.claim.0)));
        if let Some(LeftData { claim: (namespace, claim), place }) = left {
            self.journal
                .error()
                .namespace(Some(self.plan.scope.target(namespace)))
                .message(&format!("the data of claim {namespace}/{claim} is in {place}; it comes without the data"));
        }
    }
}

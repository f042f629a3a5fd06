//! Says which data does not come back.

use serde_json::Value;

use super::item::Item;
use super::run::Run;
use crate::volumes::LeftData;

impl Run {
    /// Says which data does not come back with a claim or a pod that was made.
    pub(super) fn tell_of_data_left(&self, item: &Item) {
        let original = item.original.as_deref().unwrap_or_default();
        let without = |of: &str, place: &str| {
            let remedy = remedy(place);
            let message = format!("the data of {of} is in {place}; it comes without the data: {remedy}");
            let entry = self.journal.error().resource(&item.resource).name(&item.name);
            entry.namespace(item.target.as_deref()).message(&message);
        };
        match &*item.resource {
            "persistentvolumeclaims" => {
                let claim = self.read(item).ok();
                if let Some(what) = claim.and_then(|claim| self.volumes.left_of_claim(original, &claim)) {
                    without(&format!("claim {original}/{}", item.name), what);
                }
            }
            "pods" => {
                for (volume, what) in self.volumes.left_of_pod(original, &item.name) {
                    without(&format!("volume {volume} of pod {original}/{}", item.name), what);
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

/// What to do about data that is somewhere else, or nowhere.
fn remedy(place: &str) -> &'static str {
    match place.starts_with("no ") {
        true => "restore another backup to get the data",
        false => "restore the backup with Velero to get the data",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_for_data_that_is_nowhere() {
        for (place, expected) in [
            ("no snapshot, for that of the backup failed", "another backup"),
            ("a restic repository, which only Velero up to 1.18 can restore", "with Velero"),
        ] {
            assert!(remedy(place).contains(expected), "{place}");
        }
    }
}

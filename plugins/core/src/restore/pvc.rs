//! Claims are bound anew, and bring their volume. One that the cluster made for an ephemeral volume of a pod is made by the
//! cluster again: a pod does not start with a claim that somebody else has made.

use std::sync::OnceLock;

use async_trait::async_trait;
use serde_json::Value;
use velero_api::annotations;
use velero_api::records::PodVolumeInfo;
use velero_plugin::item::{elements, name, namespace, object_mut, text};
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use crate::persistent_volume_claim::bound_volume;

/// Annotations by which the old cluster, or an earlier backup, remembered what it did with a claim.
const PAST: [&str; 7] = [
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
    annotations::VOLUME_SNAPSHOT_NAME,
    annotations::DATA_UPLOAD_NAME,
];

/// Drops what ties a claim to its past, and adds the volume it was bound to to the restore.
#[derive(Default)]
pub struct RestoreAction {
    copies: OnceLock<Vec<PodVolumeInfo>>,
}

impl RestoreAction {
    /// Whether a claim is that of an ephemeral volume whose data comes back with its pod.
    fn comes_with_pod(&self, claim: &Value) -> bool {
        let mut owners = elements(claim, "/metadata/ownerReferences").filter(|owner| owner["controller"] == true);
        let Some(pod) = owners.find(|owner| text(owner, "/kind") == "Pod").map(|owner| text(owner, "/name")) else {
            return false;
        };
        let is_it = |copy: &PodVolumeInfo| {
            (copy.pod_namespace.as_str(), copy.pod_name.as_str()) == (namespace(claim), pod)
                && format!("{pod}-{}", copy.volume_name) == name(claim)
        };
        self.copies.get().is_some_and(|copies| copies.iter().any(is_it))
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/pvc"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["persistentvolumeclaims"]))
    }

    fn fills_volumes(&self, copies: &[PodVolumeInfo]) {
        self.copies.get_or_init(|| copies.to_vec());
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        if self.comes_with_pod(input.item_from_backup) {
            return Ok(RestoreItemOutcome::skipped());
        }
        // Only the item of the backup still says whether it was bound.
        let additional_items = bound_volume(input.item_from_backup).into_iter().collect();
        Ok(RestoreItemOutcome { additional_items, ..RestoreItemOutcome::changed(input.item, drop_past) })
    }
}

fn drop_past(claim: &mut Value) {
    if let Some(annotations) = object_mut(claim, "/metadata/annotations") {
        annotations.retain(|key, _| !PAST.contains(&key.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_api::v1::{Restore, RestoreSpec};

    use super::*;

    #[test]
    fn each_annotation_of_the_past_goes_and_others_stay() {
        for key in PAST {
            let mut claim = json!({"metadata": {"annotations": {key: "yes", "keep": "me"}}});
            drop_past(&mut claim);
            assert_eq!(claim, json!({"metadata": {"annotations": {"keep": "me"}}}), "{key}");
        }
        assert_eq!(RestoreItemOutcome::changed(&json!({"metadata": {}}), drop_past).updated_item, None);
    }

    #[test]
    fn the_volume_comes_from_the_claim_in_the_backup() {
        let restore = Restore::new("velero", "r1", RestoreSpec::default());
        let item = json!({"metadata": {"name": "data"}, "spec": {}});
        for (phase, volume, expected) in
            [("Bound", "pv-1", Some("pv-1")), ("Pending", "pv-1", None), ("Lost", "pv-1", None), ("Bound", "", None)]
        {
            let from_backup =
                json!({"metadata": {"name": "data"}, "spec": {"volumeName": volume}, "status": {"phase": phase}});
            let input = RestoreItemInput { item: &item, item_from_backup: &from_backup, restore: &restore };
            let outcome = futures::executor::block_on(RestoreAction::default().execute(input)).unwrap();
            let names: Vec<_> = outcome.additional_items.iter().map(|item| item.name.as_str()).collect();
            assert_eq!(names, Vec::from_iter(expected), "{phase} {volume}");
        }
    }
    #[test]
    fn the_claim_of_an_ephemeral_volume_is_left_to_the_pod_that_brings_its_data_back() {
        let owned = |kind: &str, pod: &str| {
            let owners = json!([{"kind": kind, "name": pod, "controller": true}]);
            json!({"metadata": {"name": "web-data", "namespace": "shop", "ownerReferences": owners}})
        };
        let copy = |pod: &str, volume: &str| PodVolumeInfo {
            pod_namespace: "shop".to_owned(),
            pod_name: pod.to_owned(),
            volume_name: volume.to_owned(),
            ..PodVolumeInfo::default()
        };
        for (claim, copy, expected) in [
            (owned("Pod", "web"), copy("web", "data"), true),
            (owned("Pod", "web"), copy("web", "other"), false),
            (owned("Pod", "web"), copy("db", "data"), false),
            (owned("StatefulSet", "web"), copy("web", "data"), false),
            (json!({"metadata": {"name": "web-data", "namespace": "shop"}}), copy("web", "data"), false),
        ] {
            let action = RestoreAction::default();
            assert!(!action.comes_with_pod(&claim), "nothing is copied");
            action.fills_volumes(&[copy]);
            assert_eq!(action.comes_with_pod(&claim), expected, "{claim}");
        }
    }
}

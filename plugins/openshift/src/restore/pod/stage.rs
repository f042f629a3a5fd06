//! Pods of a stage: they hold the volumes while their data is copied, and do nothing else.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use velero_api::v1::Restore;

use crate::json::{annotation, elements, elements_mut, label, text};
use crate::names::{annotations, labels};
use crate::workflow::Work;

/// Makes a pod of a stage sleep beside its claims.
pub(super) fn adapt(pod: &mut Value, restore: &Restore) {
    let image = restore.annotation(annotations::STAGE_POD_IMAGE);
    if label(pod, labels::STAGE_POD).is_empty() || image.is_empty() {
        return;
    }
    let kept = kept_volumes(pod);
    if let Some(volumes) = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| kept.contains(text(volume, "/name")));
    }
    for container in elements_mut(pod, "/spec/containers") {
        container["image"] = image.into();
        container["command"] = json!(["sleep"]);
        container["args"] = json!(["infinity"]);
        if let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) {
            mounts.retain(|mount| kept.contains(text(mount, "/name")));
        }
    }
}

/// The volumes that are claims, without those the migration leaves out.
fn kept_volumes(pod: &Value) -> BTreeSet<String> {
    let excluded: BTreeSet<_> = annotation(pod, annotations::EXCLUDE_VOLUMES).split(',').collect();
    let claims = elements(pod, "/spec/volumes").filter(|volume| volume.get("persistentVolumeClaim").is_some());
    claims.map(|volume| text(volume, "/name")).filter(|name| !excluded.contains(name)).map(str::to_owned).collect()
}

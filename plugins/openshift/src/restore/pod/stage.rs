//! Pods of a stage: they hold the volumes while their data is copied, and do nothing else. They are marked, and may run on
//! any node.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use velero_api::v1::Restore;
use velero_plugin::item::{
    annotation, elements, elements_mut, label, list_mut, remove, set_annotation, set_label, text,
};

use crate::compat::Compat;
use crate::names::{TRUE, annotations, labels};
use crate::settings::Settings;
use crate::workflow::Work;

/// Whether a restore is the stage of a migration that copies data: its pods come as they are, owned ones too.
pub(super) fn is_copy(restore: &Restore) -> bool {
    restore.is_migration() && restore.annotation(annotations::COPY_PHASE) == "stage"
}

/// Marks a pod of a stage and frees it of what binds it to nodes.
pub(super) fn mark(pod: &mut Value) {
    for key in ["nodeSelector", "affinity"] {
        remove(pod, "/spec", key);
    }
    set_annotation(pod, annotations::COPY_PHASE, TRUE);
    set_label(pod, labels::RESTORED_STAGE_POD, TRUE);
}

/// Makes a pod of a stage sleep beside its claims.
pub(super) fn adapt(pod: &mut Value, restore: &Restore, settings: &Settings) {
    let image = restore.annotation(annotations::STAGE_POD_IMAGE);
    if label(pod, labels::STAGE_POD).unwrap_or_default().is_empty() || image.is_empty() {
        return;
    }
    if !settings.compat(Compat::StageAffinity) {
        mark(pod);
    }
    let kept = kept_volumes(pod);
    if let Some(volumes) = list_mut(pod, "/spec/volumes") {
        volumes.retain(|volume| kept.contains(text(volume, "/name")));
    }
    for container in elements_mut(pod, "/spec/containers").filter(|container| container.is_object()) {
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
    let excluded: BTreeSet<_> = annotation(pod, annotations::EXCLUDE_VOLUMES).unwrap_or_default().split(',').collect();
    let claims = elements(pod, "/spec/volumes").filter(|volume| volume.get("persistentVolumeClaim").is_some());
    claims.map(|volume| text(volume, "/name")).filter(|name| !excluded.contains(name)).map(str::to_owned).collect()
}

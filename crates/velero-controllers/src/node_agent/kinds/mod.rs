//! What differs between the kinds: one file each.

mod data_download;
mod data_upload;
mod pod_volume_backup;
mod pod_volume_restore;

use k8s_openapi::api::core::v1::ObjectReference;

/// A volume of a pod, for messages.
fn subject_of_pod(pod: &ObjectReference, volume: &str) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    format!("volume {volume:?} of pod {}/{}", text(&pod.namespace), text(&pod.name))
}

fn unknown_uploader(name: &str) -> String {
    let shown = if name.is_empty() { "restic" } else { name };
    format!("spec.uploaderType {shown:?} is not supported, only kopia is; use a version of Velero that still has it")
}

/// Whether a data mover is the one that is built in.
fn is_built_in(data_mover: &str) -> bool {
    matches!(data_mover, "" | "velero")
}

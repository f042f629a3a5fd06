//! Init containers of restore hooks, and their place in a pod.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use velero_api::annotations::restore_init_hook;

use super::text;
use crate::hooks::parse_command;
use crate::pod_volumes::is_wait_container;

/// How many bytes of a hash tell the containers of pods apart.
const SUFFIX_BYTES: usize = 4;

/// An init container of a hook lacks what every one needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid InitContainer in restore hook, it doesn't have Command, Name or Image field")]
pub struct InvalidInitContainer;

/// Checks that an init container of a hook has a name, an image and a command.
pub fn validate_init_container(container: &Value) -> Result<(), InvalidInitContainer> {
    let named = !text(&container["name"]).is_empty() && !text(&container["image"]).is_empty();
    let has_command = container["command"].as_array().is_some_and(|command| !command.is_empty());
    if named && has_command { Ok(()) } else { Err(InvalidInitContainer) }
}

/// Puts init containers before those of a pod, but behind the one that waits for its volumes.
pub fn insert_init_containers(pod: &mut Value, containers: Vec<Value>) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if containers.is_empty() {
        return;
    }
    let mut existing = match spec.remove("initContainers") {
        Some(Value::Array(existing)) => existing,
        _ => Vec::new(),
    };
    let waits = existing.first().is_some_and(is_wait_container);
    let place = usize::from(waits);
    existing.splice(place..place, containers);
    spec.insert("initContainers".to_owned(), Value::Array(existing));
}

pub(super) fn container_of_annotations(pod: &Value) -> Option<Value> {
    let metadata = &pod["metadata"];
    let get = |key: &str| Some(text(&metadata["annotations"][key])).filter(|value| !value.is_empty());
    let image = get(restore_init_hook::CONTAINER_IMAGE)?;
    let name = get(restore_init_hook::CONTAINER_NAME).map_or_else(|| default_name(metadata), str::to_owned);
    let mut container = json!({"name": name, "image": image});
    if let Some(command) = get(restore_init_hook::COMMAND) {
        container["command"] = json!(parse_command(command));
    }
    Some(container)
}

/// The name depends on the pod alone, so that a plan and the restore that follows agree.
fn default_name(metadata: &Value) -> String {
    let pod = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
    let digest = Sha256::digest(pod.as_bytes());
    let suffix: String = digest.iter().take(SUFFIX_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("velero-restore-init-{suffix}")
}

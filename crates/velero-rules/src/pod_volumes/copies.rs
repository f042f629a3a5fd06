//! Which copies a restore puts back into the volumes of a pod.

use std::collections::BTreeMap;

use serde_json::Value;
use velero_api::records::PodVolumeInfo;
use velero_api::repository::KOPIA;

/// The init containers that wait for the volumes of a restored pod, by their names now and in older versions.
const WAIT_CONTAINERS: [&str; 2] = ["restore-wait", "restic-wait"];
/// The types of volumes that are made of something else, which a copy must not be put over.
const NEVER_FILLED: [&str; 2] = ["projected", "downwardAPI"];

/// Why a copy cannot be put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyObstacle {
    /// The volume was empty, and needs nothing.
    Empty,
    /// It was made by an uploader that this version does not have.
    Uploader,
}

/// Why a copy cannot be put back; `None` when it can.
pub fn copy_obstacle(copy: &PodVolumeInfo) -> Option<CopyObstacle> {
    match copy {
        copy if copy.snapshot_handle.is_empty() => Some(CopyObstacle::Empty),
        // Before there was a choice there was restic.
        copy if copy.uploader_type != KOPIA => Some(CopyObstacle::Uploader),
        _ => None,
    }
}

/// The copies that are put back into the volumes of a pod, by the name of the volume. `namespace` is the one the pod had
/// in the backup.
pub fn copies_of_pod<'c>(
    copies: impl IntoIterator<Item = &'c PodVolumeInfo>,
    namespace: &str,
    pod: &Value,
) -> BTreeMap<&'c str, &'c PodVolumeInfo> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let volumes: Vec<&Value> = pod["spec"]["volumes"].as_array().into_iter().flatten().collect();
    let has = |copy: &PodVolumeInfo| {
        let mut volumes = volumes.iter().filter(|volume| volume["name"] == copy.volume_name.as_str());
        volumes.any(|volume| NEVER_FILLED.iter().all(|kind| volume.get(*kind).is_none()))
    };
    let is_wanted = |copy: &&PodVolumeInfo| {
        (copy.pod_namespace.as_str(), copy.pod_name.as_str()) == (namespace, name)
            && copy_obstacle(copy).is_none()
            && has(copy)
    };
    copies.into_iter().filter(is_wanted).map(|copy| (copy.volume_name.as_str(), copy)).collect()
}

/// Whether an init container is one that waits for the volumes of a restored pod.
pub fn is_wait_container(container: &Value) -> bool {
    container["name"].as_str().is_some_and(|name| WAIT_CONTAINERS.contains(&name))
}

/// The names of the init containers that wait for the volumes of a restored pod, the one of today first.
pub fn wait_containers() -> [&'static str; 2] {
    WAIT_CONTAINERS
}

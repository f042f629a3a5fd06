//! Where the kubelet keeps a volume of a pod.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use kube::{Api, ResourceExt};
use velero_api::metadata::{name, namespace, title, uid};

use crate::node_agent::agent::Agent;
use crate::node_agent::resources;
use crate::runtime::error::{Error, Result};

/// How long a volume may take to say that it is there; a server of files that is gone says nothing for ever.
const PATIENCE: Duration = Duration::from_secs(30);
/// On volumes that a CSI driver serves in place of the plugin that made them.
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

/// The folder of a volume, below that of all pods: `<UID>/volumes/<plugin>/<folder>`.
pub(super) async fn find(agent: &Agent, pod: &Pod, volume_name: &str) -> Result<PathBuf> {
    let volume = volume_of(pod, volume_name)?;
    let folder = match claim_name(pod, volume) {
        Some(claim) => folder_of_claim(agent, pod, volume_name, &claim).await?,
        None if volume.csi.is_some() => format!("{volume_name}/mount"),
        None => volume_name.to_owned(),
    };
    let below = PathBuf::from(uid(pod)).join("volumes");
    let looked = tokio::time::timeout(PATIENCE, matching(&agent.settings.host_pods, &below, &folder)).await;
    let found = looked.map_err(|_| silent(pod, volume_name, agent.node()))?;
    let found = found.map_err(|error| broken(pod, volume_name, agent.node(), &error))?;
    match found.as_slice() {
        [path] => Ok(path.clone()),
        [] => Err(failed(
            pod,
            format!(
                "volume {volume_name:?} has no folder {}/*/{folder} on node {}; only volumes that the kubelet mounts for a \
                 running pod can be copied, and the agent must see the kubelet's folder of pods",
                agent.settings.host_pods.join(&below).display(),
                agent.node(),
            ),
        )),
        several => Err(failed(pod, format!("volume {volume_name:?} has more than one folder: {several:?}"))),
    }
}

/// A volume whose folder could not be looked at: whoever looks at it waits for ever.
fn silent(pod: &Pod, volume_name: &str, node: &str) -> Error {
    let seconds = PATIENCE.as_secs();
    failed(
        pod,
        format!(
            "volume {volume_name:?} does not answer on node {node}: its folder could not be looked at within {seconds} s; see \
             that its storage, such as the server of an NFS volume, can be reached from there"
        ),
    )
}

/// A volume whose folder is there and cannot be used: its server is another one by now, or the process behind it has ended.
fn broken(pod: &Pod, volume_name: &str, node: &str, error: &io::Error) -> Error {
    failed(
        pod,
        format!(
            "volume {volume_name:?} cannot be looked at on node {node}: {error}; see that its storage can be reached from there, \
             and start the pod anew where it stays so"
        ),
    )
}

fn volume_of<'a>(pod: &'a Pod, name: &str) -> Result<&'a Volume> {
    let volumes = pod.spec.iter().filter_map(|spec| spec.volumes.as_ref()).flatten();
    let found = volumes.into_iter().find(|volume| volume.name == name);
    let volume = found.ok_or_else(|| failed(pod, format!("it has no volume {name:?}")))?;
    match volume.host_path.is_some() {
        false => Ok(volume),
        true => Err(failed(pod, format!("volume {name:?} is a hostPath, which is not copied; leave it out"))),
    }
}

fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    let claim = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.clone());
    claim.or_else(|| volume.ephemeral.as_ref().map(|_| format!("{}-{}", name(pod), volume.name)))
}

async fn folder_of_claim(agent: &Agent, pod: &Pod, volume_name: &str, claim_name: &str) -> Result<String> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(agent.client(), namespace(pod));
    let claim = resources::get(&claims, claim_name).await?;
    let bound = claim.and_then(|claim| claim.spec?.volume_name).filter(|name| !name.is_empty());
    let bound = bound.ok_or_else(|| {
        failed(pod, format!("volume {volume_name:?} uses claim {claim_name:?}, which does not exist or is not bound"))
    })?;
    let volumes: Api<PersistentVolume> = Api::all(agent.client());
    let volume = resources::get(&volumes, &bound).await?;
    let volume = volume.ok_or_else(|| {
        failed(pod, format!("volume {volume_name:?} uses PersistentVolume {bound:?}, which does not exist"))
    })?;
    let is_migrated = volume.annotations().contains_key(MIGRATED_TO);
    let spec = volume.spec.unwrap_or_default();
    if spec.volume_mode.as_deref() == Some("Block") {
        return Err(failed(
            pod,
            format!(
                "volume {volume_name:?} is a device without a file system, which cannot be copied through the pod; use \
                 snapshots and --snapshot-move-data"
            ),
        ));
    }
    Ok(if spec.csi.is_some() || is_migrated { format!("{bound}/mount") } else { bound })
}

/// The folders `<below>/*/<folder>`, relative to the one of all pods; an error of one that is there and cannot be looked at.
async fn matching(host_pods: &Path, below: &Path, folder: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let Ok(mut plugins) = tokio::fs::read_dir(host_pods.join(below)).await else { return Ok(found) };
    while let Ok(Some(plugin)) = plugins.next_entry().await {
        match tokio::fs::metadata(plugin.path().join(folder)).await {
            Ok(_) => found.push(below.join(plugin.file_name()).join(folder)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

pub(super) fn failed(pod: &Pod, problem: String) -> Error {
    Error::unmet("Pod", &title(pod), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_does_not_answer_is_named_with_its_pod_and_node() {
        let mut pod = Pod::default();
        (pod.metadata.namespace, pod.metadata.name) = (Some("shop".to_owned()), Some("web".to_owned()));
        let said = silent(&pod, "data", "n1").to_string();
        for word in ["shop/web", "volume \"data\"", "node n1", "NFS"] {
            assert!(said.contains(word), "{said}");
        }
    }

    #[tokio::test]
    async fn a_folder_is_found_below_whatever_plugin_made_it() {
        let root = tempfile::tempdir().unwrap();
        let below = Path::new("uid/volumes");
        for folder in ["kubernetes.io~empty-dir/data", "kubernetes.io~csi/pv-1/mount", "a/twice", "b/twice"] {
            std::fs::create_dir_all(root.path().join(below).join(folder)).unwrap();
        }
        for (folder, expected) in [
            ("data", vec!["uid/volumes/kubernetes.io~empty-dir/data"]),
            ("pv-1/mount", vec!["uid/volumes/kubernetes.io~csi/pv-1/mount"]),
            ("other", vec![]),
            ("twice", vec!["uid/volumes/a/twice", "uid/volumes/b/twice"]),
        ] {
            let mut found = matching(root.path(), below, folder).await.unwrap();
            found.sort();
            assert_eq!(found, expected.into_iter().map(PathBuf::from).collect::<Vec<_>>(), "{folder}");
        }
        assert!(matching(root.path(), Path::new("nobody/volumes"), "data").await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_folder_that_is_there_and_cannot_be_looked_at_is_named_with_the_reason() {
        let (root, below) = (tempfile::tempdir().unwrap(), Path::new("uid/volumes"));
        let plugin = root.path().join(below).join("kubernetes.io~csi/pv-1");
        std::fs::create_dir_all(&plugin).unwrap();
        // Stands for a mount whose server is gone.
        std::os::unix::fs::symlink("mount", plugin.join("mount")).unwrap();
        let error = matching(root.path(), below, "pv-1/mount").await.unwrap_err();
        let (said, reason) = (broken(&Pod::default(), "data", "n1", &error).to_string(), error.to_string());
        for word in ["volume \"data\"", "node n1", reason.as_str(), "start the pod anew"] {
            assert!(said.contains(word), "{said}");
        }
        std::fs::write(root.path().join(below).join("file"), "").unwrap();
        assert!(matching(root.path(), below, "other").await.unwrap().is_empty(), "a file holds no folder");
    }
}

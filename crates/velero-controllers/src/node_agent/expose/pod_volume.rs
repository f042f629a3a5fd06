//! The volume of a pod on this node, shown to the mover by the folder in which the kubelet has mounted it.

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::Api;
use serde_json::json;
use velero_cluster::types::PODS;

use super::{claims, host_path};
use crate::node_agent::agent::Agent;
use crate::node_agent::pod::rights::Access;
use crate::node_agent::pod::template::{Attachment, Mover, Placement};
use crate::node_agent::resources;
use crate::node_agent::transfer::{Made, Owner};
use crate::runtime::error::{Error, Result};

/// A volume of a pod, and what is done with it.
pub(crate) struct PodVolume<'a> {
    pub(crate) owner: &'a Owner,
    pub(crate) label: &'static str,
    pub(crate) access: Access,
    pub(crate) pod: &'a ObjectReference,
    pub(crate) volume: &'a str,
    /// The size of what is restored; nothing where it is not known.
    pub(crate) snapshot_size: i64,
}

/// The pod that a reference means; an error where it is gone or another one has its name.
pub(crate) async fn referred_pod(agent: &Agent, reference: &ObjectReference) -> Result<Option<Pod>> {
    let namespace = reference.namespace.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(agent.client(), namespace);
    let pod = resources::get(&pods, reference.name.as_deref().unwrap_or_default()).await?;
    let wanted = reference.uid.as_deref().filter(|uid| !uid.is_empty());
    Ok(pod.filter(|pod| wanted.is_none() || wanted == pod.metadata.uid.as_deref()))
}

impl PodVolume<'_> {
    /// Makes the mover.
    pub(crate) async fn expose(&self, agent: &Agent) -> Result<Made> {
        let pod = self.pod_on_this_node(agent).await?;
        let folder = host_path::find(agent, &pod, self.volume).await?;
        let host_pods = agent.inherited().await?.host_pods.clone();
        let folder = std::path::Path::new(&host_pods).join(folder);
        let cache_claim = match self.access {
            Access::Read => None,
            Access::Write => claims::cache(agent, self.owner, self.snapshot_size, Some(agent.node())).await?,
        };
        let mover = Mover {
            owner: self.owner,
            label: self.label,
            command: ["pod-volume", if self.access == Access::Read { "backup" } else { "restore" }],
            flag: if self.access == Access::Read { "pod-volume-backup" } else { "pod-volume-restore" },
            access: self.access,
            volume: json!({ "hostPath": { "path": folder, "type": "Directory" } }),
            attachment: Attachment::HostFolder,
            tells_mode: false,
            cache_claim,
            is_privileged: agent.config.privileged_fs_backup,
            leaves_labels: false,
            resource_timeout: agent.settings.resource_timeout,
            placement: Placement::Node(agent.node().to_owned()),
        };
        mover.create(agent).await?;
        Ok(Made::Done)
    }

    /// Removes the mover and its cache.
    pub(crate) async fn clean_up(&self, agent: &Agent) -> Result<Made> {
        let cluster = agent.objects.cluster();
        let item = PODS.item(Some(&self.owner.namespace), &self.owner.name);
        let pod_is_gone = resources::delete_owned(cluster, item, &self.owner.uid).await?;
        let cache_is_gone = claims::remove(agent, self.owner, &claims::cache_name(self.owner)).await?;
        Ok(if pod_is_gone && cache_is_gone { Made::Done } else { Made::NotYet(claims::LOOK_AGAIN) })
    }

    async fn pod_on_this_node(&self, agent: &Agent) -> Result<Pod> {
        let name = |field: &Option<String>| field.clone().unwrap_or_default();
        let title = format!("{}/{}", name(&self.pod.namespace), name(&self.pod.name));
        let pod = referred_pod(agent, self.pod).await?;
        let pod = pod.ok_or_else(|| Error::unmet("Pod", &title, "it is gone, or another pod has its name"))?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        if node != agent.node() {
            let problem = format!("it is on node {node:?}, not on {:?}; its volumes are mounted there", agent.node());
            return Err(host_path::failed(&pod, problem));
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        if self.access == Access::Read && phase != "Running" {
            let problem = format!("it is {phase}; only volumes of running pods can be copied");
            return Err(host_path::failed(&pod, problem));
        }
        Ok(pod)
    }
}

//! What happens once, before the agent takes any work.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use velero_api::metadata::{name, title, uid};
use velero_cluster::{Error as ClusterError, list_all};
use velero_rules::node_agent_config::NodeAgentConfig;
use velero_rules::repository_config;

use crate::node_agent::resources;
use crate::node_agent::settings::Settings;
use crate::runtime::error::{Error, Result};
use crate::runtime::objects::Objects;

/// On pods that the kubelet has from a file: the name of their folder.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The labels of agents. Those of before Velero 1.10 take all that is to be copied on their node, for restic or not.
const OF_AGENTS: [&str; 2] = ["role=node-agent", "name=restic"];
/// How long an agent that is just ending may take.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(40);
/// How often the folder of the pods is compared with the pods that run.
const HOST_PODS_TRIES: usize = 3;
/// How much of a repository a restore keeps at hand unless configured otherwise, in mebibytes.
const DEFAULT_CACHE_LIMIT: i64 = 5000;
/// The most of that: a pebibyte, so that it can be counted in bytes.
const MOST_CACHE_LIMIT: i64 = 1 << 30;

/// Refuses to run beside another agent of the same namespace on the same node: both would take the same work.
pub(crate) async fn check_no_other(client: &Client, settings: &Settings) -> Result<()> {
    let begun = std::time::Instant::now();
    loop {
        let Some(other) = other_agent(client, settings).await? else { return Ok(()) };
        if begun.elapsed() >= PATIENCE_WITH_OTHERS || other.metadata.deletion_timestamp.is_none() {
            let problem = format!(
                "it is a node agent of namespace {:?} and runs on node {:?} already; two of them would take each other's \
                 work. Remove it, or run this one in another namespace",
                settings.namespace, settings.node_name
            );
            return Err(Error::unmet("Pod", name(&other), problem));
        }
        tracing::info!(pod = name(&other), "Waiting for the agent before this one to end");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn other_agent(client: &Client, settings: &Settings) -> Result<Option<Pod>> {
    // A pod is called as its host, unless it is in the network of its node.
    let own = std::env::var("HOSTNAME").unwrap_or_default();
    let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let fields = format!("spec.nodeName={}", settings.node_name);
    let api: Api<Pod> = Api::namespaced(client.clone(), &settings.namespace);
    let mut found: Vec<Pod> = Vec::new();
    for labels in OF_AGENTS {
        found.extend(pods(&api, labels, &fields).await?);
    }
    let runs = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let in_network_of_node = pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
        let is_own = name(pod) == own || is_pod && in_network_of_node && own == settings.node_name;
        matches!(phase, Some("Running" | "Pending")) && !is_own
    };
    Ok(found.into_iter().find(runs))
}

/// Refuses a folder that does not hold the volumes of the pods of this node; without any, nothing can be copied through
/// pods, and moved snapshots do not need it.
pub(crate) async fn check_host_pods(client: &Client, settings: &Settings) -> Result<()> {
    let folder = settings.host_pods.display();
    let fields = format!("spec.nodeName={},status.phase=Running", settings.node_name);
    let mut tries = 0;
    loop {
        let running = pods(&Api::all(client.clone()), "", &fields).await?;
        let folders = match folders(&settings.host_pods).await {
            Ok(folders) => folders,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                tracing::warn!(%folder, "The folder does not exist, so volumes cannot be copied through pods");
                return Ok(());
            }
            Err(error) => return Err(host_pods(format!("{folder} cannot be read: {error}"))),
        };
        let Some(pod) = running.iter().find(|pod| !folders.contains(folder_of(pod))) else { return Ok(()) };
        tries += 1;
        if tries == HOST_PODS_TRIES {
            return Err(host_pods(format!(
                "{folder} has no folder {:?} of pod {}, which runs on this node; it must be the folder `pods` below the \
                 kubelet's root directory (`velero install --kubelet-root-dir`)",
                folder_of(pod),
                title(pod),
            )));
        }
        // The pod may have ended just now.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn folders(host_pods: &Path) -> std::io::Result<BTreeSet<String>> {
    let mut entries = tokio::fs::read_dir(host_pods).await?;
    let mut folders = BTreeSet::new();
    while let Some(entry) = entries.next_entry().await? {
        folders.insert(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(folders)
}

fn folder_of(pod: &Pod) -> &str {
    let mirror = pod.annotations().get(MIRROR).map(String::as_str);
    mirror.unwrap_or_else(|| uid(pod))
}

fn host_pods(problem: String) -> Error {
    Error::Setting { flag: "host-pods", problem }
}

async fn pods(api: &Api<Pod>, labels: &str, fields: &str) -> Result<Vec<Pod>> {
    let found = list_all(api, &ListParams::default().labels(labels).fields(fields)).await;
    Ok(found.map_err(|error| ClusterError::from_kube("list pods", error))?.items)
}

/// Reads the node; an error where there is none of that name.
pub(crate) async fn node(client: &Client, name: &str) -> Result<Node> {
    let found = resources::get(&Api::<Node>::all(client.clone()), name).await?;
    let problem = || format!("there is no node {name:?} in the cluster; give the name that `kubectl get nodes` shows");
    found.ok_or_else(|| Error::Setting { flag: "node-name", problem: problem() })
}

/// Reads the ConfigMap of the agents; nothing means the defaults.
pub(crate) async fn config(objects: &Objects, name: &str) -> Result<NodeAgentConfig> {
    if name.is_empty() {
        return Ok(NodeAgentConfig::default());
    }
    let wrong = |problem: String| Error::Setting { flag: "node-agent-configmap", problem };
    let missing = || wrong(format!("ConfigMap {name:?} does not exist in namespace {:?}", objects.namespace()));
    let found = objects.config_map(name).await?.ok_or_else(missing)?;
    let config = NodeAgentConfig::parse(&found.data.unwrap_or_default());
    let mut config = config.map_err(|error| wrong(format!("ConfigMap {name:?}: {error}")))?;
    for key in &config.unknown {
        tracing::warn!(config_map = name, key, "The key is not known and has no effect");
    }
    check_classes(&objects.cluster().client().clone(), &mut config).await?;
    Ok(config)
}

/// Does without classes that the cluster does not have, as Velero does, and says so.
async fn check_classes(client: &Client, config: &mut NodeAgentConfig) -> Result<()> {
    let name = config.priority_class_name.clone();
    if !name.is_empty() && resources::get(&Api::<PriorityClass>::all(client.clone()), &name).await?.is_none() {
        tracing::warn!(priority_class = name, "The priority class does not exist and is not used");
        config.priority_class_name.clear();
    }
    if let Some(cache) = config.cache_claim.clone() {
        let class = resources::get(&Api::<StorageClass>::all(client.clone()), &cache.storage_class).await?;
        let deletes = |class: StorageClass| class.reclaim_policy.as_deref().is_none_or(|policy| policy == "Delete");
        if !class.is_some_and(deletes) {
            let storage_class = &cache.storage_class;
            tracing::warn!(storage_class, "The storage class of cachePVC does not exist or keeps volumes: no caches");
            config.cache_claim = None;
        }
    }
    Ok(())
}

/// How many bytes of a repository a restore keeps at hand.
pub(crate) async fn cache_limit(objects: &Objects, name: &str) -> Result<i64> {
    let found = if name.is_empty() { None } else { objects.config_map(name).await? };
    if found.is_none() && !name.is_empty() {
        let flag = "--backup-repository-configmap";
        tracing::warn!(config_map = name, flag, "The ConfigMap does not exist, so caches have the usual size");
    }
    let limit = repository_config::cache_limit(&found.and_then(|found| found.data).unwrap_or_default());
    let limit = limit.map_err(|problem| Error::Setting {
        flag: "backup-repository-configmap",
        problem: format!("ConfigMap {name:?}: {problem}"),
    })?;
    let limit = limit.map_or(DEFAULT_CACHE_LIMIT, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    Ok(limit.min(MOST_CACHE_LIMIT) << 20)
}

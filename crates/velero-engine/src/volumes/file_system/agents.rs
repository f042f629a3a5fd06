//! On which nodes node agents run: nobody else can reach the volumes of the pods there.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use serde::Deserialize;
use tokio::sync::Mutex;
use velero_api::with_causes;
use velero_cluster::{Cluster, types};

/// The labels of the pods of node agents: those of today, and those of older installations.
const SELECTORS: [&str; 2] = ["role=node-agent", "name=node-agent"];
/// How long what was seen is believed.
const MEMORY: Duration = Duration::from_secs(30);
const PAGE_SIZE: u32 = 500;

/// Why nobody can reach the volumes of a pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAgent {
    /// There are no node agents at all.
    #[error(
        "there are no node agents in namespace {namespace}; install them with velero install --use-node-agent, or let a \
         snapshot save the volume"
    )]
    NotInstalled { namespace: String },
    /// There is none on that node.
    #[error(
        "no node agent runs on node {node}; look at the pods of DaemonSet node-agent in namespace {namespace}, which must \
         be allowed on that node and Running"
    )]
    NotOnNode { node: String, namespace: String },
    /// It is not known on which node the pod is.
    #[error("the pod is on no node")]
    NoNode,
    /// Nobody knows.
    #[error("the node agents of namespace {namespace} cannot be listed: {problem}")]
    Unknown { namespace: String, problem: String },
}

/// The node agents of a cluster.
pub(super) struct Agents {
    cluster: Cluster,
    namespace: String,
    seen: Mutex<Option<(Instant, Nodes)>>,
}

/// Where agents run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Nodes {
    /// Nodes with an agent that runs.
    running: HashSet<String>,
    /// Whether there is any agent, whatever its state.
    any: bool,
}

impl Agents {
    /// Those of Velero's namespace; nothing is asked yet.
    pub(super) fn new(cluster: &Cluster, namespace: &str) -> Self {
        Self { cluster: cluster.clone(), namespace: namespace.to_owned(), seen: Mutex::default() }
    }

    /// An error unless there are agents at all.
    pub(super) async fn check_any(&self) -> Result<(), NoAgent> {
        self.ask(|nodes| nodes.any).await.map(drop)
    }

    /// An error unless an agent runs on a node.
    pub(super) async fn check(&self, node: &str) -> Result<(), NoAgent> {
        let nodes = self.ask(|nodes| nodes.running.contains(node)).await?;
        match nodes.running.contains(node) {
            false if node.is_empty() => Err(NoAgent::NoNode),
            true => Ok(()),
            false => Err(NoAgent::NotOnNode { node: node.to_owned(), namespace: self.namespace.clone() }),
        }
    }

    /// Where agents run: as seen before, while that answers well; an agent may have come since.
    async fn ask(&self, is_good: impl Fn(&Nodes) -> bool) -> Result<Nodes, NoAgent> {
        let mut seen = self.seen.lock().await;
        if let Some((when, nodes)) = seen.as_ref()
            && when.elapsed() < MEMORY
            && is_good(nodes)
        {
            return Ok(nodes.clone());
        }
        let (_, nodes) = seen.insert((Instant::now(), self.list().await?));
        match nodes.any {
            true => Ok(nodes.clone()),
            false => Err(NoAgent::NotInstalled { namespace: self.namespace.clone() }),
        }
    }

    async fn list(&self) -> Result<Nodes, NoAgent> {
        let unknown = |error: &dyn std::error::Error| NoAgent::Unknown {
            namespace: self.namespace.clone(),
            problem: with_causes(error),
        };
        let mut nodes = Nodes::default();
        for selector in SELECTORS {
            let pages = self.cluster.list_pages(&types::PODS, Some(&self.namespace), Some(selector), PAGE_SIZE);
            let mut pages = pages.boxed();
            while let Some(page) = pages.try_next().await.map_err(|error| unknown(&error))? {
                for pod in &page.items {
                    nodes.add(serde_json::from_slice(pod.as_bytes()).map_err(|error| unknown(&error))?);
                }
            }
        }
        Ok(nodes)
    }
}

impl Nodes {
    fn add(&mut self, pod: AgentPod) {
        self.any = true;
        let is_running = pod.status.phase == "Running" && pod.metadata.deletion_timestamp.is_none();
        if is_running && !pod.spec.node_name.is_empty() {
            self.running.insert(pod.spec.node_name);
        }
    }
}

/// The part of a pod that tells where an agent runs.
#[derive(Deserialize, Default)]
#[serde(default)]
struct AgentPod {
    metadata: AgentMetadata,
    spec: AgentSpec,
    status: AgentStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AgentMetadata {
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AgentSpec {
    node_name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AgentStatus {
    phase: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_agent_counts_on_the_node_on_which_it_runs() {
        let mut nodes = Nodes::default();
        let pod = |node: &str, phase: &str, going: Option<&str>| -> AgentPod {
            let pod = json!({"metadata": {"deletionTimestamp": going}, "spec": {"nodeName": node}, "status": {"phase": phase}});
            serde_json::from_value(pod).unwrap()
        };
        for (node, phase, going) in [
            ("a", "Running", None),
            ("b", "Pending", None),
            ("c", "Running", Some("2026-01-01T00:00:00Z")),
            ("", "Running", None),
        ] {
            nodes.add(pod(node, phase, going));
        }
        assert_eq!((nodes.running, nodes.any), (HashSet::from(["a".to_owned()]), true));
        let none: AgentPod = serde_json::from_value(json!({})).unwrap();
        let mut only_broken = Nodes::default();
        only_broken.add(none);
        assert!(only_broken.any && only_broken.running.is_empty());
    }
}

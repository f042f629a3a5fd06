//! On which nodes node agents run: nobody else can reach the volumes of the pods there.

use std::collections::{HashMap, HashSet};
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
/// How long an agent is waited for that is being started again.
pub(super) const BACK_OFF: Duration = Duration::from_secs(60);
/// How long a restored pod waits for an agent that has not run yet: the node of both is new, and has to fetch the image first.
pub(super) const FIRST_START: Duration = Duration::from_secs(300);
/// How often it is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How many looks in a row must find an agent running that was seen not to: one that ends again and again runs in between.
const STEADY: u32 = 5;
/// The container of an agent, beside which a pod may have others.
const CONTAINER: &str = "node-agent";
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
    /// The one on that node does not come up.
    #[error(
        "node agent {pod} on node {node} does not run: {problem}. Its log says why, often a value of its ConfigMap: kubectl -n \
         {namespace} logs {pod} --previous"
    )]
    Broken { pod: String, node: String, namespace: String, problem: String },
    /// The one on that node is still being started.
    #[error(
        "node agent {pod} on node {node} has not started yet: {problem}. Its events say why: kubectl -n {namespace} \
         describe pod {pod}"
    )]
    NotStarted { pod: String, node: String, namespace: String, problem: String },
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
    /// How long one is waited for that has not run yet.
    first_start: Duration,
    seen: Mutex<Option<(Instant, Nodes)>>,
    /// Nodes whose agents were waited for in vain.
    given_up: Mutex<HashSet<String>>,
}

/// Where agents run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Nodes {
    /// Nodes with an agent that runs.
    running: HashSet<String>,
    /// Nodes with an agent that does not run, or not yet.
    idle: HashMap<String, IdleAgent>,
    /// Whether there is any agent, whatever its state.
    any: bool,
}

/// An agent whose container does not run, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct IdleAgent {
    pod: String,
    problem: String,
    /// Whether it has not run yet.
    is_new: bool,
}

impl Agents {
    /// Those of Velero's namespace, which may take that long to run for the first time; nothing is asked yet.
    pub(super) fn new(cluster: &Cluster, namespace: &str, first_start: Duration) -> Self {
        let (cluster, namespace) = (cluster.clone(), namespace.to_owned());
        Self { cluster, namespace, first_start, seen: Mutex::default(), given_up: Mutex::default() }
    }

    /// An error unless there are agents at all.
    pub(super) async fn check_any(&self) -> Result<(), NoAgent> {
        self.ask(|nodes| nodes.any).await.map(drop)
    }

    /// An error unless an agent runs on a node. One that is being started is waited for a while, once.
    pub(super) async fn check(&self, node: &str) -> Result<(), NoAgent> {
        let (begun, mut patience) = (Instant::now(), Duration::ZERO);
        let (own, namespace) = (node.to_owned(), self.namespace.clone());
        let mut looks_left = 0;
        loop {
            let nodes = self.ask(|nodes| looks_left == 0 && nodes.running.contains(node)).await?;
            let idle = match nodes.idle.get(node) {
                _ if nodes.running.contains(node) && looks_left == 0 => return Ok(()),
                _ if nodes.running.contains(node) => {
                    looks_left -= 1;
                    tokio::time::sleep(LOOK_AGAIN).await;
                    continue;
                }
                _ if node.is_empty() => return Err(NoAgent::NoNode),
                None => return Err(NoAgent::NotOnNode { node: own, namespace }),
                Some(idle) => idle,
            };
            // One that ends at its first start has what is left of the time for that.
            patience = patience.max(if idle.is_new { self.first_start } else { BACK_OFF });
            let mut given_up = self.given_up.lock().await;
            if given_up.contains(node) || begun.elapsed() >= patience {
                given_up.insert(own.clone());
                return Err(idle.clone().given_up(own, namespace));
            }
            drop(given_up);
            looks_left = STEADY;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Where agents run: as seen before, while that answers well; an agent may have come since. Many who wait share a look.
    async fn ask(&self, is_good: impl Fn(&Nodes) -> bool) -> Result<Nodes, NoAgent> {
        let mut seen = self.seen.lock().await;
        if let Some((when, nodes)) = seen.as_ref()
            && nodes.any
            && (when.elapsed() < LOOK_AGAIN || when.elapsed() < MEMORY && is_good(nodes))
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
        let (node, phase) = (pod.spec.node_name, pod.status.phase);
        let is_new = phase == "Pending";
        if !is_new && phase != "Running" || pod.metadata.deletion_timestamp.is_some() || node.is_empty() {
            return;
        }
        // A pod is Running too while its container ends again and again.
        let own = pod.status.container_statuses.into_iter().filter(|container| container.name == CONTAINER);
        let stopped = own.map(|container| container.state).find_map(|state| state.waiting.or(state.terminated));
        let problem = match stopped {
            None if is_new => phase,
            None => {
                self.running.insert(node);
                return;
            }
            Some(AgentWaits { reason, message }) if message.is_empty() => reason,
            Some(AgentWaits { reason, message }) => format!("{reason}: {message}"),
        };
        self.idle.insert(node, IdleAgent { pod: pod.metadata.name, problem, is_new });
    }
}

impl IdleAgent {
    /// What is said when it was waited for in vain.
    fn given_up(self, node: String, namespace: String) -> NoAgent {
        let Self { pod, problem, is_new } = self;
        match is_new {
            true => NoAgent::NotStarted { pod, node, namespace, problem },
            false => NoAgent::Broken { pod, node, namespace, problem },
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
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AgentSpec {
    node_name: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AgentStatus {
    phase: String,
    container_statuses: Vec<AgentContainer>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AgentContainer {
    name: String,
    state: AgentState,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AgentState {
    waiting: Option<AgentWaits>,
    terminated: Option<AgentWaits>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AgentWaits {
    reason: String,
    message: String,
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
            ("b", "Failed", None),
            ("c", "Running", Some("2026-01-01T00:00:00Z")),
            ("d", "Pending", Some("2026-01-01T00:00:00Z")),
            ("", "Running", None),
            ("", "Pending", None),
        ] {
            nodes.add(pod(node, phase, going));
        }
        assert_eq!((nodes.running, nodes.any), (HashSet::from(["a".to_owned()]), true));
        assert!(nodes.idle.is_empty());
        let none: AgentPod = serde_json::from_value(json!({})).unwrap();
        let mut only_broken = Nodes::default();
        only_broken.add(none);
        assert!(only_broken.any && only_broken.running.is_empty());
    }

    #[test]
    fn an_agent_that_ends_again_and_again_does_not_run_though_its_pod_is_running() {
        let mut nodes = Nodes::default();
        let mut add = |node: &str, state: serde_json::Value| {
            let pod = json!({"metadata": {"name": format!("agent-{node}")}, "spec": {"nodeName": node},
                "status": {"phase": "Running", "containerStatuses": [{"name": "node-agent", "state": state}]}});
            nodes.add(serde_json::from_value(pod).unwrap());
        };
        add("good", json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}));
        add("bad", json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}));
        add("ended", json!({"terminated": {"reason": "Error", "exitCode": 1}}));
        assert_eq!(nodes.running, HashSet::from(["good".to_owned()]));
        let broken = |node: &str, problem: &str| {
            (node.to_owned(), IdleAgent { pod: format!("agent-{node}"), problem: problem.to_owned(), is_new: false })
        };
        let expected = [broken("bad", "CrashLoopBackOff: back-off 10s"), broken("ended", "Error")];
        assert_eq!(nodes.idle, HashMap::from(expected));
    }

    #[test]
    fn an_agent_that_is_pending_on_its_node_is_being_started() {
        let mut nodes = Nodes::default();
        let pulling = json!([{"name": "node-agent", "state": {"waiting": {"reason": "ContainerCreating"}}}]);
        for (node, statuses) in [("fresh", json!([])), ("pulls", pulling)] {
            let pod = json!({"metadata": {"name": format!("agent-{node}")}, "spec": {"nodeName": node},
                "status": {"phase": "Pending", "containerStatuses": statuses}});
            nodes.add(serde_json::from_value(pod).unwrap());
        }
        let new = |node: &str, problem: &str| {
            (node.to_owned(), IdleAgent { pod: format!("agent-{node}"), problem: problem.to_owned(), is_new: true })
        };
        assert!(nodes.running.is_empty());
        assert_eq!(nodes.idle, HashMap::from([new("fresh", "Pending"), new("pulls", "ContainerCreating")]));
        let said = nodes.idle["pulls"].clone().given_up("pulls".to_owned(), "velero".to_owned()).to_string();
        assert!(said.contains("kubectl -n velero describe pod agent-pulls"), "{said}");
    }

    #[test]
    fn another_container_of_the_pod_of_an_agent_may_wait() {
        let pod = json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running", "containerStatuses": [
            {"name": "sidecar", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
            {"name": "node-agent", "state": {"running": {}}}]}});
        let mut nodes = Nodes::default();
        nodes.add(serde_json::from_value(pod).unwrap());
        assert_eq!((nodes.running.len(), nodes.idle.len()), (1, 0));
    }
}

//! On which nodes node agents run: nobody else can reach the volumes of the pods there.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use tokio::sync::Mutex;
use velero_api::with_causes;
use velero_cluster::{Cluster, types};
use velero_rules::agent_pods::{IdleAgent, Nodes, SELECTORS};

use crate::lock;

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
/// How long a node may be without its agent before nobody waits any longer for what that has taken: agents are brought up
/// to date, and a pod that moves data goes on meanwhile.
const LOST: Duration = Duration::from_secs(900);
/// How often it is looked whether it still runs.
const STILL_THERE: Duration = Duration::from_secs(30);
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
    /// Nobody hears of that node any more.
    #[error(
        "node {node} does not answer, so node agent {pod} there can start nothing that copies; see that the node is up and its \
         kubelet runs: kubectl describe node {node}"
    )]
    Silent { pod: String, node: String },
    /// It is not known on which node the pod is.
    #[error("the pod is on no node")]
    NoNode,
    /// Nobody knows.
    #[error("the node agents of namespace {namespace} cannot be listed: {problem}")]
    Unknown { namespace: String, problem: String },
}

impl NoAgent {
    /// What is said of an agent that was waited for in vain.
    fn of(idle: IdleAgent, node: String, namespace: String) -> Self {
        let IdleAgent { pod, problem, is_new, is_silent, .. } = idle;
        match is_new {
            _ if is_silent => Self::Silent { pod, node },
            true => Self::NotStarted { pod, node, namespace, problem },
            false => Self::Broken { pod, node, namespace, problem },
        }
    }
}

/// Since when nodes are without their agents, and when that was seen last.
#[derive(Default)]
struct Away(HashMap<String, (Instant, Instant)>);

impl Away {
    /// Notes a look; how long the agent of a node has been away by now.
    fn note(&mut self, node: &str, is_away: bool, now: Instant) -> Duration {
        if !is_away {
            self.0.remove(node);
            return Duration::ZERO;
        }
        let (since, looked) = self.0.entry(node.to_owned()).or_insert((now, now));
        // Between looks that are far apart it may have been there.
        if now.duration_since(*looked) >= LOST {
            *since = now;
        }
        *looked = now;
        now.duration_since(*since)
    }
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
    away: std::sync::Mutex<Away>,
}

impl Agents {
    /// Those of Velero's namespace, which may take that long to run for the first time; nothing is asked yet.
    pub(super) fn new(cluster: &Cluster, namespace: &str, first_start: Duration) -> Self {
        let (cluster, namespace) = (cluster.clone(), namespace.to_owned());
        let (seen, given_up, away) = Default::default();
        Self { cluster, namespace, first_start, seen, given_up, away }
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
                return Err(NoAgent::of(idle.clone(), own, namespace));
            }
            drop(given_up);
            looks_left = STEADY;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends when no agent has run on a node for long, and says why: nobody is left who could end what one has taken.
    pub(super) async fn lost(&self, node: &str) -> NoAgent {
        loop {
            let missing = self.missing(node).await;
            let away = lock(&self.away).note(node, missing.is_some(), Instant::now());
            if let Some(missing) = missing.filter(|_| away >= LOST) {
                return missing;
            }
            tokio::time::sleep(STILL_THERE).await;
        }
    }

    /// Why no agent runs on a node just now; nothing where one does, or where nobody can tell.
    async fn missing(&self, node: &str) -> Option<NoAgent> {
        let (own, namespace) = (node.to_owned(), self.namespace.clone());
        match self.ask(|nodes| nodes.running.contains(node)).await {
            Ok(nodes) if node.is_empty() || nodes.running.contains(node) => None,
            Ok(mut nodes) => Some(match nodes.idle.remove(node) {
                Some(idle) => NoAgent::of(idle, own, namespace),
                None => NoAgent::NotOnNode { node: own, namespace },
            }),
            Err(NoAgent::Unknown { .. }) => None,
            Err(missing) => Some(missing),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_away_since_it_was_last_seen_to_run() {
        let (mut away, begun) = (Away::default(), Instant::now());
        for (second, node, is_away, expected) in [
            (0, "a", true, 0),
            (600, "a", true, 600),
            (610, "b", true, 0),
            (630, "a", false, 0),
            (660, "a", true, 0),
            (1400, "a", true, 740),
            (2300, "a", true, 0),
            (2330, "a", true, 30),
        ] {
            let found = away.note(node, is_away, begun + Duration::from_secs(second));
            assert_eq!(found, Duration::from_secs(expected), "{node} at {second}");
        }
    }

    #[test]
    fn what_keeps_an_agent_is_found_in_its_log_or_before_it_has_one_in_its_events() {
        for (is_new, remedy) in [(true, "kubectl -n velero describe pod agent-a"), (false, "logs agent-a --previous")] {
            let (pod, problem) = ("agent-a".to_owned(), "ContainerCreating".to_owned());
            let idle = IdleAgent { pod, problem, is_new, ..IdleAgent::default() };
            let said = NoAgent::of(idle, "a".to_owned(), "velero".to_owned()).to_string();
            assert!(said.contains(remedy) && said.contains("ContainerCreating"), "{said}");
        }
        let idle = IdleAgent { pod: "agent-a".to_owned(), is_silent: true, ..IdleAgent::default() };
        let said = NoAgent::of(idle, "a".to_owned(), "velero".to_owned()).to_string();
        assert!(said.starts_with("node a does not answer") && said.contains("kubectl describe node a"), "{said}");
    }
}

//! The pods of node agents: on which nodes one runs, and why others do not.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::Deserialize;

/// The labels of the pods of node agents: those of today, and those of older installations.
pub const SELECTORS: [&str; 2] = ["role=node-agent", "name=node-agent"];
/// The container of an agent, beside which a pod may have others.
const CONTAINER: &str = "node-agent";
/// What the kubelet calls the pause before it starts a container again.
const PAUSE: &str = "CrashLoopBackOff";
/// What keeps an agent from which nobody hears.
const SILENT: &str = "its node, which does not answer";

/// Where agents run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Nodes with an agent that runs.
    pub running: HashSet<String>,
    /// Nodes with an agent that does not run, or not yet.
    pub idle: HashMap<String, IdleAgent>,
    /// Whether there is any agent, whatever its state.
    pub any: bool,
}

/// An agent whose container does not run, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdleAgent {
    /// The name of its pod.
    pub pod: String,
    /// What keeps it.
    pub problem: String,
    /// Whether it has not run yet.
    pub is_new: bool,
    /// Whether it ran when its node was last heard of.
    pub is_silent: bool,
    /// Since when the kubelet waits to start it again, after it has ended several times.
    pub pauses_since: Option<Timestamp>,
}

impl Nodes {
    /// Adds the pod of an agent.
    pub fn add(&mut self, pod: AgentPod) {
        self.any = true;
        let is_silent = is_silent(&pod.status.conditions);
        let (node, phase) = (pod.spec.node_name, pod.status.phase);
        let is_new = phase == "Pending";
        if !is_new && phase != "Running" || pod.metadata.deletion_timestamp.is_some() || node.is_empty() {
            return;
        }
        // A pod is Running too while its container ends again and again.
        let own = pod.status.container_statuses.into_iter().find(|container| container.name == CONTAINER);
        let Container { state, last_state, .. } = own.unwrap_or_default();
        let Some(stopped) = state.waiting.or(state.terminated) else {
            match is_new {
                true => _ = self.idle.insert(node, IdleAgent::new(pod.metadata.name, phase, is_new)),
                false if is_silent => {
                    let idle = IdleAgent::new(pod.metadata.name, SILENT.to_owned(), is_new);
                    self.idle.insert(node, IdleAgent { is_silent, ..idle });
                }
                false => _ = self.running.insert(node),
            }
            return;
        };
        let ended = last_state.terminated.filter(|_| stopped.reason == PAUSE);
        let pauses_since = ended.and_then(|ended| ended.finished_at?.parse::<Timestamp>().ok());
        let idle = IdleAgent::new(pod.metadata.name, stopped.in_words(), is_new);
        self.idle.insert(node, IdleAgent { pauses_since, ..idle });
    }
}

impl IdleAgent {
    fn new(pod: String, problem: String, is_new: bool) -> Self {
        Self { pod, problem, is_new, is_silent: false, pauses_since: None }
    }
}

/// Whether the node of a pod does not answer any more: its controller says then that the pod is not ready, and leaves what
/// the kubelet has said of the containers as it was.
fn is_silent(conditions: &[Condition]) -> bool {
    let is = |kind: &str, status: &str| conditions.iter().any(|found| found.kind == kind && found.status == status);
    is("Ready", "False") && is("ContainersReady", "True")
}

/// The part of a pod that tells where an agent runs.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct AgentPod {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<Container>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    state: State,
    last_state: State,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct State {
    waiting: Option<Stopped>,
    terminated: Option<Stopped>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Stopped {
    reason: String,
    message: String,
    finished_at: Option<String>,
}

impl Stopped {
    fn in_words(self) -> String {
        let Self { reason, message, .. } = self;
        if message.is_empty() { reason } else { format!("{reason}: {message}") }
    }
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
            (node.to_owned(), IdleAgent::new(format!("agent-{node}"), problem.to_owned(), false))
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
            (node.to_owned(), IdleAgent::new(format!("agent-{node}"), problem.to_owned(), true))
        };
        assert!(nodes.running.is_empty());
        assert_eq!(nodes.idle, HashMap::from([new("fresh", "Pending"), new("pulls", "ContainerCreating")]));
    }

    #[test]
    fn an_agent_that_the_kubelet_does_not_start_again_for_now_waits_since_it_ended() {
        let (mut nodes, ended) = (Nodes::default(), "2026-01-01T00:05:00Z");
        for (node, reason) in [("loops", "CrashLoopBackOff"), ("pulls", "ImagePullBackOff")] {
            let last = json!({"terminated": {"reason": "Error", "exitCode": 1, "finishedAt": ended}});
            let container = json!({"name": "node-agent", "state": {"waiting": {"reason": reason}}, "lastState": last});
            let pod =
                json!({"spec": {"nodeName": node}, "status": {"phase": "Running", "containerStatuses": [container]}});
            nodes.add(serde_json::from_value(pod).unwrap());
        }
        assert_eq!(nodes.idle["loops"].pauses_since, ended.parse().ok());
        assert_eq!(nodes.idle["pulls"].pauses_since, None);
    }

    #[test]
    fn an_agent_whose_node_does_not_answer_does_not_run() {
        for (ready, containers_ready, is_silent) in
            [("True", "True", false), ("False", "False", false), ("False", "True", true)]
        {
            let conditions = json!([
                {"type": "Ready", "status": ready}, {"type": "ContainersReady", "status": containers_ready},
            ]);
            let pod = json!({"metadata": {"name": "agent"}, "spec": {"nodeName": "a"}, "status": {"phase": "Running",
                "conditions": conditions, "containerStatuses": [{"name": "node-agent", "state": {"running": {}}}]}});
            let mut nodes = Nodes::default();
            nodes.add(serde_json::from_value(pod).unwrap());
            assert_eq!(nodes.running.is_empty(), is_silent, "{ready} {containers_ready}");
            assert_eq!(nodes.idle.get("a").is_some_and(|idle| idle.is_silent), is_silent, "{ready} {containers_ready}");
        }
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

//! Whether there is a node agent that could take a transfer: where none runs, nobody would ever say what became of it.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;
use velero_cluster::{Cluster, types};
use velero_plugin::{Error, Result};
use velero_rules::agent_pods::{IdleAgent, Nodes, SELECTORS};

/// How long none may run before what waits for one is given up: agents are brought up to date, and fetch their images.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long none may run before what one has taken is given up: the pod that moves the data goes on meanwhile.
const PATIENCE_WITH_TAKEN: Duration = Duration::from_secs(900);
/// How long the kubelet waits at least before it starts an agent again that will not come up by itself. That long it waits
/// only for one that has ended several times.
const LONG_PAUSE: SignedDuration = SignedDuration::from_secs(60);
/// How long many who ask share a look.
const SHARED: Duration = Duration::from_secs(5);
/// How long a look may take. It comes on top of the question about a transfer, and a transfer is given up of which nobody
/// hears in time.
const LOOK: Duration = Duration::from_secs(20);
const PAGE_SIZE: u32 = 500;

/// The node agents of a server's namespace, and since when none of them runs. It is kept for as long as the server lives:
/// that none runs at one moment says little.
#[derive(Default)]
pub struct NodeAgents {
    seen: Mutex<Option<Seen>>,
}

/// What was seen last.
struct Seen {
    looked: Instant,
    missing: Option<Missing>,
}

/// No node agent runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    /// Why, and what to do.
    pub(super) why: String,
    /// When that was seen first.
    since: Instant,
    /// Whether all that are there have ended several times.
    is_broken: bool,
}

/// A moment, on two clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// On the one that this machine shares with others; it may jump.
    by_clock: Timestamp,
    /// On the one that never jumps.
    steady: Instant,
}

impl Moment {
    /// This moment.
    pub(super) fn now() -> Self {
        Self { by_clock: Timestamp::now(), steady: Instant::now() }
    }
}

impl NodeAgents {
    /// What is wrong where no node agent runs; nothing where one does, or where nobody can tell.
    pub(super) async fn missing(&self, cluster: &Cluster, namespace: &str) -> Option<Missing> {
        let mut seen = self.seen.lock().await;
        if let Some(seen) = seen.as_ref().filter(|seen| seen.looked.elapsed() < SHARED) {
            return seen.missing.clone();
        }
        let found = in_time(list(cluster, namespace)).await;
        let now = Instant::now();
        let missing = match found {
            Ok(nodes) => judge(&nodes, namespace, Timestamp::now(), earlier(seen.as_ref(), now).unwrap_or(now)),
            Err(error) => {
                tracing::debug!(namespace, %error, "The node agents cannot be listed");
                None
            }
        };
        *seen = Some(Seen { looked: now, missing: missing.clone() });
        missing
    }
}

impl Missing {
    /// Whether nobody is going to take a transfer that was made at some time.
    pub(super) fn is_for_good(&self, made: Option<Timestamp>, now: Moment) -> bool {
        let waits =
            made.and_then(|made| Duration::try_from(now.by_clock.duration_since(made)).ok()).unwrap_or_default();
        let lasts = now.steady.saturating_duration_since(self.since);
        waits >= PATIENCE && (self.is_broken || lasts >= PATIENCE)
    }

    /// Whether nobody is going to say how a transfer has ended that was taken.
    pub(super) fn is_for_good_to_taken(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= PATIENCE_WITH_TAKEN
    }
}

/// Since when none was seen to run. Between looks that are far apart one may have.
fn earlier(seen: Option<&Seen>, now: Instant) -> Option<Instant> {
    let seen = seen.filter(|seen| now.saturating_duration_since(seen.looked) < PATIENCE)?;
    seen.missing.as_ref().map(|missing| missing.since)
}

fn judge(nodes: &Nodes, namespace: &str, now: Timestamp, since: Instant) -> Option<Missing> {
    if !nodes.running.is_empty() {
        return None;
    }
    let pauses = |agent: &IdleAgent| agent.pauses_since.is_some_and(|ended| now.duration_since(ended) >= LONG_PAUSE);
    let is_broken = !nodes.idle.is_empty() && nodes.idle.values().all(pauses);
    let why = match nodes.idle.iter().min_by_key(|(node, _)| *node) {
        _ if !nodes.any => format!(
            "there are no node agents in namespace {namespace}; install them with velero install --use-node-agent, or keep the \
             snapshots with their driver (without snapshotMoveData)"
        ),
        None => format!(
            "no node agent runs in namespace {namespace}; look at DaemonSet node-agent: kubectl -n {namespace} get pods \
             -l name=node-agent"
        ),
        Some((node, IdleAgent { pod, problem, .. })) => format!(
            "no node agent runs in namespace {namespace}, {pod} on node {node} not because of {problem}; its log and its events \
             say why: kubectl -n {namespace} logs {pod} --previous, kubectl -n {namespace} describe pod {pod}"
        ),
    };
    Some(Missing { why, since, is_broken })
}

/// What a look has found; one that is not answered in time tells nothing.
async fn in_time(look: impl Future<Output = Result<Nodes>>) -> Result<Nodes> {
    let found = tokio::time::timeout(LOOK, look).await;
    found.unwrap_or_else(|_| Err(Error::Failed(format!("no answer within {LOOK:?}"))))
}

async fn list(cluster: &Cluster, namespace: &str) -> Result<Nodes> {
    let mut nodes = Nodes::default();
    for selector in SELECTORS {
        let mut pages = cluster.list_pages(&types::PODS, Some(namespace), Some(selector), PAGE_SIZE).boxed();
        while let Some(page) = pages.try_next().await? {
            for pod in &page.items {
                // One that cannot be read is there all the same.
                nodes.add(serde_json::from_slice(pod.as_bytes()).unwrap_or_default());
            }
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOON: &str = "2026-01-01T12:00:00Z";

    fn noon() -> Timestamp {
        NOON.parse().unwrap()
    }

    fn nodes(states: &[serde_json::Value]) -> Nodes {
        let mut nodes = Nodes::default();
        for (number, state) in states.iter().enumerate() {
            let last = json!({"terminated": {"reason": "Error", "finishedAt": NOON}});
            let container = json!({"name": "node-agent", "state": state, "lastState": last});
            let pod = json!({"metadata": {"name": format!("agent-{number}")}, "spec": {"nodeName": format!("n{number}")},
                "status": {"phase": "Running", "containerStatuses": [container]}});
            nodes.add(serde_json::from_value(pod).unwrap());
        }
        nodes
    }

    #[test]
    fn a_transfer_is_given_up_when_no_agent_has_run_for_as_long_as_one_may_take_to_come() {
        let (begun, patience) = (Instant::now(), SignedDuration::from_secs(300));
        let later = |seconds| Moment {
            by_clock: noon() + SignedDuration::from_secs(600),
            steady: begun + Duration::from_secs(seconds),
        };
        let (old, young) = (Some(noon()), Some(noon() + patience + SignedDuration::from_secs(1)));
        let none = judge(&Nodes::default(), "velero", noon(), begun).unwrap();
        assert!(none.why.starts_with("there are no node agents in namespace velero; install them"), "{}", none.why);
        for (made, seconds, expected) in [(old, 299, false), (old, 300, true), (young, 300, false), (None, 900, false)]
        {
            assert_eq!(none.is_for_good(made, later(seconds)), expected, "{made:?} {seconds}");
        }
        for (seconds, expected) in [(300, false), (899, false), (900, true)] {
            assert_eq!(none.is_for_good_to_taken(later(seconds).steady), expected, "taken, {seconds}");
        }
    }

    #[test]
    fn one_agent_that_runs_is_enough_and_those_that_do_not_are_named() {
        let (runs, loops) = (json!({"running": {}}), json!({"waiting": {"reason": "CrashLoopBackOff"}}));
        let begun = Instant::now();
        assert_eq!(judge(&nodes(&[runs, loops.clone()]), "velero", noon(), begun), None);
        let pulls = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        let found = judge(&nodes(&[pulls, loops]), "velero", noon(), begun).unwrap();
        for piece in ["no node agent runs", "agent-0 on node n0", "ImagePullBackOff: no such image"] {
            assert!(found.why.contains(piece), "{}", found.why);
        }
    }

    #[test]
    fn agents_that_end_again_and_again_are_not_waited_for_and_those_that_ended_just_now_are() {
        let loops = nodes(&[json!({"waiting": {"reason": "CrashLoopBackOff"}})]);
        let begun = Instant::now();
        let now = |seconds| noon() + SignedDuration::from_secs(seconds);
        for (seconds, expected) in [(59, false), (60, true)] {
            let found = judge(&loops, "velero", now(seconds), begun).unwrap();
            let moment = Moment { by_clock: now(300), steady: begun };
            assert_eq!(found.is_for_good(Some(noon()), moment), expected, "{seconds}");
        }
        let ended = nodes(&[json!({"terminated": {"reason": "Error"}})]);
        assert!(!judge(&ended, "velero", now(600), begun).unwrap().is_broken);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_is_not_answered_leaves_time_to_say_how_far_a_transfer_is() {
        let begun = tokio::time::Instant::now();
        assert!(in_time(std::future::pending()).await.is_err());
        // Who asks about an operation waits for 90 seconds.
        assert!(begun.elapsed() <= Duration::from_secs(30));
        assert_eq!(in_time(async { Ok(Nodes::default()) }).await.unwrap(), Nodes::default());
    }

    #[test]
    fn what_was_seen_long_ago_does_not_count() {
        let begun = Instant::now();
        let seen = Seen { looked: begun, missing: judge(&Nodes::default(), "velero", noon(), begun) };
        assert_eq!(earlier(Some(&seen), begun + Duration::from_secs(10)), Some(begun));
        assert_eq!(earlier(Some(&seen), begun + PATIENCE), None);
        assert_eq!(earlier(None, begun), None);
        let runs = Seen { looked: begun, missing: None };
        assert_eq!(earlier(Some(&runs), begun), None);
    }
}

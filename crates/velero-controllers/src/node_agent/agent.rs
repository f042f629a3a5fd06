//! What all parts of the agent share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use velero_rules::node_agent_config::NodeAgentConfig;

use crate::node_agent::metrics::NodeMetrics;
use crate::node_agent::pod::inherited::{Inherited, InheritedPod};
use crate::node_agent::preparing::Preparing;
use crate::node_agent::settings::Settings;
use crate::node_agent::slots::Slots;
use crate::runtime::error::Result;
use crate::runtime::lock::lock;
use crate::runtime::objects::Objects;

/// What all parts of the agent share.
pub(crate) struct Agent {
    pub(crate) settings: Settings,
    pub(crate) config: NodeAgentConfig,
    /// How many bytes of a repository a restore may keep at hand.
    pub(crate) cache_limit: i64,
    pub(crate) objects: Objects,
    pub(crate) slots: Slots,
    pub(crate) preparing: Preparing,
    pub(crate) metrics: NodeMetrics,
    pub(crate) inherited_pod: InheritedPod,
    pub(crate) awaited_pods: AwaitedPods,
    /// Held while one is counted and taken, so that two do not take the last place.
    pub(crate) accepting: tokio::sync::Mutex<()>,
    /// Cancelled when the process is to end.
    pub(crate) stop: CancellationToken,
}

/// A shared agent.
pub(crate) type SharedAgent = Arc<Agent>;

impl Agent {
    pub(crate) fn node(&self) -> &str {
        &self.settings.node_name
    }

    /// What movers have from the DaemonSet, as it is now.
    pub(crate) async fn inherited(&self) -> Result<Arc<Inherited>> {
        self.inherited_pod.get(&self.objects, &self.settings).await
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.objects.cluster().client().clone()
    }
}

/// The PodVolumeRestores that wait for a pod, by its namespace and name.
#[derive(Default)]
pub(crate) struct AwaitedPods(Mutex<HashMap<(String, String), HashSet<String>>>);

impl AwaitedPods {
    /// Has a restore looked at when that pod changes.
    pub(crate) fn wait(&self, namespace: &str, pod: &str, restore: &str) {
        let key = (namespace.to_owned(), pod.to_owned());
        lock(&self.0).entry(key).or_default().insert(restore.to_owned());
    }

    /// A restore waits no longer.
    pub(crate) fn stop_waiting(&self, restore: &str) {
        lock(&self.0).retain(|_, restores| {
            restores.remove(restore);
            !restores.is_empty()
        });
    }

    /// Those who wait for a pod.
    pub(crate) fn of(&self, pod: &(String, String)) -> Vec<String> {
        lock(&self.0).get(pod).into_iter().flatten().cloned().collect()
    }
}

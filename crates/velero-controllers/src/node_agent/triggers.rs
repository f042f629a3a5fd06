//! What wakes a reconciler beside the change of its object: its pod, a slot, a report, the pod whose volume is restored.
//!
//! Watches carry metadata only and nothing of them is kept, so that an idle agent stays small.

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use velero_cluster::{Cluster, watched};

/// Makes triggers for the objects of one kind.
#[derive(Clone)]
pub(crate) struct TriggerSource(UnboundedSender<String>);

/// Has one object looked at.
#[derive(Clone)]
pub(crate) struct Trigger {
    source: TriggerSource,
    name: String,
}

/// A source, and the names of the objects that are to be looked at.
pub(crate) fn channel() -> (TriggerSource, UnboundedReceiver<String>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (TriggerSource(sender), receiver)
}

impl TriggerSource {
    /// The trigger of the object of that name.
    pub(crate) fn trigger(&self, name: &str) -> Trigger {
        Trigger { source: self.clone(), name: name.to_owned() }
    }
}

impl Trigger {
    /// Has the object looked at; nobody is left to do so when the process ends.
    pub(crate) fn pull(&self) {
        let _ = self.source.0.send(self.name.clone());
    }
}

/// The names of pods with a label, whenever one of them changes. They are those of the objects they work for.
pub(crate) fn labelled_pods(cluster: &Cluster, namespace: &str, label: &str) -> impl Stream<Item = String> + use<> {
    let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(cluster.client().clone(), namespace);
    changes(api, watcher::Config::default().labels(label)).map(|pod| pod.name_any())
}

/// Namespace and name of the pods of a node, whenever one of them changes.
pub(crate) fn pods_of_node(cluster: &Cluster, node: &str) -> impl Stream<Item = (String, String)> + use<> {
    let api: Api<PartialObjectMeta<Pod>> = Api::all(cluster.client().clone());
    let of_node = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    changes(api, of_node).map(|pod| (pod.namespace().unwrap_or_default(), pod.name_any()))
}

fn changes(
    api: Api<PartialObjectMeta<Pod>>,
    config: watcher::Config,
) -> impl Stream<Item = PartialObjectMeta<Pod>> + use<> {
    let changes = watched(api, config.page_size(100)).touched_objects();
    changes.filter_map(async |change| match change {
        Ok(pod) => Some(pod),
        Err(error) => {
            tracing::warn!(%error, "The watch of pods failed and is begun again");
            None
        }
    })
}

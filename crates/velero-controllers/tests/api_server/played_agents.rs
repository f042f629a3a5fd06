//! The test in the part of the node agents: pods that are said to run, and objects whose status is written as an agent would.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use velero_api::resource::VeleroResource;
use velero_api::v1::{BackupRepository, PodVolumeBackup, PodVolumeRestore};
use velero_testkit::TestCluster;
use velero_testkit::harness::unique_name;

use crate::support::{PATIENCE, api};

/// What an agent makes of the transfer of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Completed,
    Failed,
    Canceled,
    /// Somebody removes the object.
    Removed,
    /// Nothing.
    Never,
}

/// Nodes with agents, for as long as the test runs.
pub(crate) struct Nodes {
    cluster: TestCluster,
    pub(crate) with_agent: String,
    pub(crate) without_agent: String,
}

impl Nodes {
    /// Two nodes on which nothing is scheduled, and an agent that is said to run on one of them.
    pub(crate) async fn new(cluster: &TestCluster) -> Self {
        let nodes = Self {
            cluster: cluster.clone(),
            with_agent: unique_name("with-agent"),
            without_agent: unique_name("without-agent"),
        };
        let api: Api<Node> = Api::all(cluster.client.clone());
        for name in [&nodes.with_agent, &nodes.without_agent] {
            let node = json!({"metadata": {"name": name}, "spec": {"unschedulable": true}});
            api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        }
        let labels = json!({"role": "node-agent", "name": "node-agent"});
        let metadata = json!({"name": "node-agent-x", "labels": labels});
        let spec = json!({"nodeName": nodes.with_agent, "containers": [{"name": "node-agent", "image": "none"}]});
        running_pod(cluster, &cluster.namespace, json!({"metadata": metadata, "spec": spec})).await;
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "velero", "image": "example.com/velero:v1"}]}});
        let server = json!({"metadata": {"name": "velero"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
        let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        deployments.create(&PostParams::default(), &serde_json::from_value(server).unwrap()).await.unwrap();
        nodes
    }

    pub(crate) async fn remove(self) {
        let api: Api<Node> = Api::all(self.cluster.client.clone());
        for name in [&self.with_agent, &self.without_agent] {
            let _ = api.delete(name, &DeleteParams::default()).await;
        }
    }

    /// A namespace for pods.
    pub(crate) async fn shop(&self) -> Shop {
        let namespace = unique_name("shop");
        let namespaces: Api<Namespace> = Api::all(self.cluster.client.clone());
        let object = json!({"metadata": {"name": namespace}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        Shop { cluster: self.cluster.clone(), namespace }
    }
}

/// A namespace with pods that are said to run.
pub(crate) struct Shop {
    pub(crate) cluster: TestCluster,
    pub(crate) namespace: String,
}

impl Shop {
    /// A pod on a node that asks for copies of its volumes, which are all of type emptyDir.
    pub(crate) async fn pod(&self, name: &str, node: &str, volumes: &[&str]) -> Pod {
        let mounts: Vec<Value> =
            volumes.iter().map(|volume| json!({"name": volume, "mountPath": format!("/{volume}")})).collect();
        let all: Vec<Value> = volumes.iter().map(|volume| json!({"name": volume, "emptyDir": {}})).collect();
        let pod = json!({
            "metadata": {"name": name, "annotations": {"backup.velero.io/backup-volumes": volumes.join(",")}},
            "spec": {"nodeName": node, "automountServiceAccountToken": false, "volumes": all,
                "nodeSelector": {"example.com/never": "true"},
                "containers": [{"name": "main", "image": "none", "volumeMounts": mounts}]},
        });
        running_pod(&self.cluster, &self.namespace, pod).await
    }

    /// A volume that only the claim of that name in that namespace can have.
    pub(crate) async fn volume_for(&self, namespace: &str, claim: &str) {
        let volume = json!({
            "metadata": {"name": format!("{namespace}-{claim}")},
            "spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "nfs": {"server": "nowhere", "path": "/"}, "claimRef": {"namespace": namespace, "name": claim}},
        });
        let volumes: Api<PersistentVolume> = Api::all(self.cluster.client.clone());
        volumes.create(&PostParams::default(), &serde_json::from_value(volume).unwrap()).await.unwrap();
    }

    /// The same with a volume `data` that is a claim of the pod's name, bound by hand. The name is a label of the pod too.
    pub(crate) async fn pod_with_claim(&self, name: &str, node: &str) -> Pod {
        let (client, namespace) = (&self.cluster.client, &self.namespace);
        self.volume_for(namespace, name).await;
        let claim = json!({
            "metadata": {"name": name},
            "spec": {"resources": {"requests": {"storage": "1Mi"}}, "accessModes": ["ReadWriteOnce"], "storageClassName": ""},
        });
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
        claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
        let is_bound = |claim: Option<&PersistentVolumeClaim>| {
            claim.and_then(|claim| claim.status.as_ref()?.phase.as_deref()) == Some("Bound")
        };
        let bound = tokio::time::timeout(PATIENCE, await_condition(claims, name, is_bound)).await;
        bound.expect("the claim is not bound").unwrap();
        self.pod_on_claim(name, node, name).await
    }

    /// The same with a claim that is there already.
    pub(crate) async fn pod_on_claim(&self, name: &str, node: &str, claim: &str) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": name}, "annotations": {"backup.velero.io/backup-volumes": "data"}},
            "spec": {"nodeName": node, "automountServiceAccountToken": false,
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
                "nodeSelector": {"example.com/never": "true"},
                "containers": [
                    {"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                ]},
        });
        running_pod(&self.cluster, &self.namespace, pod).await
    }

    pub(crate) async fn remove(self) {
        remove_namespace(&self.cluster, &self.namespace).await;
    }
}

/// Removes a namespace, and the volumes made for its claims. Its pods have no kubelet that would let them go.
pub(crate) async fn remove_namespace(cluster: &TestCluster, namespace: &str) {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let _ = pods.delete(pod.metadata.name.as_deref().unwrap(), &at_once).await;
    }
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let _ = namespaces.delete(namespace, &DeleteParams::default()).await;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    for volume in volumes.list_metadata(&ListParams::default()).await.unwrap() {
        let name = volume.metadata.name.unwrap_or_default();
        if name.starts_with(&format!("{namespace}-")) {
            let _ = volumes.delete(&name, &DeleteParams::default()).await;
        }
    }
}

/// Makes a pod and says that it runs.
async fn running_pod(cluster: &TestCluster, namespace: &str, pod: Value) -> Pod {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), namespace);
    while accounts.get_opt("default").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let made = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status(made.metadata.name.as_deref().unwrap(), &PatchParams::default(), &running).await.unwrap()
}

/// Ends the transfers of a namespace as the volume they are for is to end, until it is dropped.
pub(crate) fn play(
    cluster: &TestCluster,
    ending: impl Fn(&str) -> Ending + Send + Sync + 'static,
) -> AbortOnDropHandle<()> {
    let cluster = cluster.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut done = BTreeSet::new();
        loop {
            for repository in api::<BackupRepository>(&cluster).list(&ListParams::default()).await.unwrap() {
                if repository.status.phase.is_none() {
                    let ready = Patch::Merge(json!({"status": {"phase": "Ready"}}));
                    let name = repository.metadata.name.unwrap();
                    let _ = api::<BackupRepository>(&cluster).patch(&name, &PatchParams::default(), &ready).await;
                }
            }
            for copy in api::<PodVolumeBackup>(&cluster).list(&ListParams::default()).await.unwrap() {
                let name = copy.metadata.name.clone().unwrap();
                let ending = ending(&copy.spec.volume);
                if copy.status.phase.is_none() && ending != Ending::Never && done.insert(name.clone()) {
                    let snapshot = format!("snapshot-of-{}", copy.spec.volume);
                    end::<PodVolumeBackup>(&cluster, &name, ending, &snapshot).await;
                }
            }
            for filling in api::<PodVolumeRestore>(&cluster).list(&ListParams::default()).await.unwrap() {
                let name = filling.metadata.name.clone().unwrap();
                let ending = ending(&filling.spec.volume);
                if filling.status.phase.is_none() && ending != Ending::Never && done.insert(name.clone()) {
                    end::<PodVolumeRestore>(&cluster, &name, ending, "").await;
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }))
}

async fn end<K: VeleroResource>(cluster: &TestCluster, name: &str, ending: Ending, snapshot: &str) {
    let api: Api<K> = api(cluster);
    let status = match ending {
        Ending::Never => return,
        Ending::Removed => return drop(api.delete(name, &DeleteParams::default()).await.unwrap()),
        Ending::Completed => {
            json!({"phase": "Completed", "snapshotID": snapshot, "progress": {"totalBytes": 4096, "bytesDone": 4096},
                "incrementalBytes": 96})
        }
        Ending::Failed => json!({"phase": "Failed", "message": "the disk is on fire"}),
        Ending::Canceled => json!({"phase": "Canceled", "message": "somebody said so"}),
    };
    api.patch(name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await.unwrap();
}

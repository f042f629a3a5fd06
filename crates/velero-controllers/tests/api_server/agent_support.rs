//! A node agent of the test's own. There is no kubelet: the test says what becomes of pods.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use velero_api::metadata::{name, uid};
use velero_api::resource::VeleroResource;
use velero_api::v1::{PodVolumeBackup, PodVolumeBackupSpec};
use velero_controllers::node_agent::{Settings, run_until};
use velero_testkit::TestCluster;
use velero_testkit::harness::unique_name;

use crate::support::{PATIENCE, api, install_definitions};

/// A node without a kubelet, the folder of its pods, and the agent that runs for it.
pub(crate) struct AgentNode {
    pub(crate) cluster: TestCluster,
    pub(crate) node: String,
    pub(crate) host_pods: TempDir,
    running: Option<(CancellationToken, JoinHandle<()>)>,
}

impl AgentNode {
    /// A node, without its agent.
    pub(crate) async fn new(cluster: &TestCluster) -> Self {
        install_definitions(cluster).await;
        let node = unique_name("node");
        let nodes: Api<Node> = Api::all(cluster.client.clone());
        let object = json!({"metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}}});
        nodes.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        for account in ["default", "velero-data-mover"] {
            let object = serde_json::from_value(json!({"metadata": {"name": account}})).unwrap();
            // It may be there already.
            let _ = accounts.create(&PostParams::default(), &object).await;
        }
        Self { cluster: cluster.clone(), node, host_pods: tempfile::tempdir().unwrap(), running: None }
    }

    pub(crate) async fn with_agent(cluster: &TestCluster) -> Self {
        let mut node = Self::new(cluster).await;
        node.start(node.settings()).await;
        node
    }

    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings {
            namespace: self.cluster.namespace.clone(),
            kubeconfig: Some(self.cluster.test_box.kubeconfig()),
            node_name: self.node.clone(),
            host_pods: self.host_pods.path().to_owned(),
            mover_image: "example.io/velero:test".to_owned(),
            ..Settings::default()
        };
        settings.metrics.metrics_address.clear();
        settings
    }

    pub(crate) async fn start(&mut self, settings: Settings) {
        let stop = CancellationToken::new();
        let running = run_until(settings, stop.clone());
        let task = tokio::spawn(async move { running.await.expect("the agent must run") });
        self.running = Some((stop, task));
    }

    /// Ends the agent, as a signal would.
    pub(crate) async fn stop(&mut self) {
        let Some((stop, task)) = self.running.take() else { return };
        stop.cancel();
        let ended = tokio::time::timeout(PATIENCE, task).await;
        ended.expect("the agent must end").expect("the agent must not panic");
    }

    pub(crate) async fn remove(mut self) {
        self.stop().await;
        let nodes: Api<Node> = Api::all(self.cluster.client.clone());
        nodes.delete(&self.node, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client.clone(), &self.cluster.namespace)
    }

    /// A pod on this node with a volume `data`, and the folder the kubelet would have made for it.
    pub(crate) async fn pod_with_volume(&self, name: &str, init: &[&str]) -> Pod {
        let container = |name: &str| json!({"name": name, "image": "example.io/app", "volumeMounts": [{"name": "data", "mountPath": "/data"}]});
        let init: Vec<Value> = init.iter().map(|name| container(name)).collect();
        let object = json!({
            "metadata": {"name": name},
            "spec": {
                "nodeName": self.node, "automountServiceAccountToken": false, "initContainers": init,
                "containers": [container("app")],
                "volumes": [{"name": "data", "emptyDir": {}}, {"name": "root", "hostPath": {"path": "/"}}],
            },
        });
        let pod = self.pods().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let folder = Path::new(uid(&pod)).join("volumes/kubernetes.io~empty-dir/data");
        std::fs::create_dir_all(self.host_pods.path().join(folder)).unwrap();
        self.set_status(name, json!({"phase": "Running"})).await;
        pod
    }

    /// Says how a pod is, as its kubelet would: what runs has a folder.
    pub(crate) async fn set_status(&self, pod: &str, status: Value) {
        let patch = json!({ "status": status });
        let pod = self.pods().patch_status(pod, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        if status["phase"] == "Running" {
            std::fs::create_dir_all(self.host_pods.path().join(uid(&pod))).unwrap();
        }
    }

    /// Ends a mover with that exit code and message.
    pub(crate) async fn end_mover(&self, mover: &Pod, exit_code: i32, message: &str) {
        let phase = if exit_code == 0 { "Succeeded" } else { "Failed" };
        let ended = json!({"exitCode": exit_code, "reason": "Completed", "message": message});
        let container = mover.spec.as_ref().unwrap().containers[0].name.clone();
        let status = json!({
            "name": container, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": ended},
        });
        self.set_status(name(mover), json!({"phase": phase, "containerStatuses": [status]})).await;
    }

    /// A backup of the volume `data` of a pod.
    pub(crate) async fn backup(&self, name: &str, pod: &Pod) -> PodVolumeBackup {
        let mut spec = PodVolumeBackupSpec {
            node: self.node.clone(),
            volume: "data".to_owned(),
            backup_storage_location: "default".to_owned(),
            uploader_type: "kopia".to_owned(),
            ..PodVolumeBackupSpec::default()
        };
        spec.pod.name = pod.metadata.name.clone();
        spec.pod.namespace = Some(self.cluster.namespace.clone());
        spec.pod.uid = pod.metadata.uid.clone();
        self.create(PodVolumeBackup::new(&self.cluster.namespace, name, spec)).await
    }

    pub(crate) async fn create<K: VeleroResource>(&self, object: K) -> K {
        api::<K>(&self.cluster).create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn patch<K: VeleroResource>(&self, name: &str, patch: Value) {
        api::<K>(&self.cluster).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until an object is as wanted.
    pub(crate) async fn until<K: VeleroResource>(&self, name: &str, wanted: impl Fn(&K) -> bool) -> K {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            match api::<K>(&self.cluster).get_opt(name).await.unwrap() {
                Some(object) if wanted(&object) => return object,
                found => assert!(tokio::time::Instant::now() < deadline, "waited in vain: {found:#?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for the mover of an object.
    pub(crate) async fn mover(&self, name: &str) -> Pod {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(pod) = self.pods().get_opt(name).await.unwrap() {
                return pod;
            }
            assert!(tokio::time::Instant::now() < deadline, "there is no mover {name}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the mover of an object is gone and nothing holds the object any more.
    pub(crate) async fn until_clean<K: VeleroResource>(&self, name: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let pod = self.pods().get_opt(name).await.unwrap();
            let object = api::<K>(&self.cluster).get_opt(name).await.unwrap();
            let is_held = object.is_some_and(|object| object.meta().finalizers.iter().flatten().next().is_some());
            if pod.is_none() && !is_held {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{name} is not cleaned up: held {is_held}, {pod:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Reports something as a mover does.
    pub(crate) async fn report<K: VeleroResource>(&self, object: &K, reason: &str, message: &str) {
        let events: Api<Event> = Api::namespaced(self.cluster.client.clone(), &self.cluster.namespace);
        let event = json!({
            "metadata": {"name": unique_name("report")},
            "involvedObject": {
                "apiVersion": K::api_version_text(), "kind": K::KIND, "name": name(object), "uid": uid(object),
                "namespace": self.cluster.namespace,
            },
            "reason": reason, "message": message, "type": "Normal",
        });
        events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
    }
}

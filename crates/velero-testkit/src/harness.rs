//! What a test calls: a running box, entered, with a client and a namespace of the test's own.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::json;

use crate::parts::client;
use crate::test_box::{BoxKind, TestBox};

/// The box tests share. `cargo xtask test` brings it up before the tests and takes it down after; a test that finds
/// none brings it up and leaves it for the next.
pub const SHARED_BOX: &str = "test";

/// The box that tests of volumes share. It is not the other one: what a test of anything else sees, such as which types
/// there are, does not depend on which tests ran before.
pub const STORAGE_BOX: &str = "test-storage";

/// The box that tests of OpenShift share.
pub const OPENSHIFT_BOX: &str = "test-openshift";

/// The kinds whose objects a server or a node agent keeps until it has cleaned up after them.
const KEPT_KINDS: [(&str, &str); 5] = [
    ("v1", "Restore"),
    ("v1", "PodVolumeBackup"),
    ("v1", "PodVolumeRestore"),
    ("v2alpha1", "DataUpload"),
    ("v2alpha1", "DataDownload"),
];

/// A cluster handed to a test.
#[derive(Clone)]
pub struct TestCluster {
    /// A client with all rights.
    pub client: Client,
    /// A namespace of this test's own; it is deleted when the test has ended.
    pub namespace: String,
    /// The box behind it.
    pub test_box: TestBox,
}

/// Runs a test against the shared API server.
pub fn cluster_test<F: Future<Output = ()>>(test: impl FnOnce(TestCluster) -> F + Send + 'static) {
    run(SHARED_BOX, BoxKind::ControlPlane, test);
}

/// Runs a test against the shared box, where pods run.
pub fn whole_box_test<F: Future<Output = ()>>(test: impl FnOnce(TestCluster) -> F + Send + 'static) {
    run(SHARED_BOX, BoxKind::Whole, test);
}

/// Runs a test against the shared box with storage: claims get volumes, and volumes snapshots.
pub fn storage_box_test<F: Future<Output = ()>>(test: impl FnOnce(TestCluster) -> F + Send + 'static) {
    run(STORAGE_BOX, BoxKind::Storage, test);
}

/// Runs a test against the shared box with what stands in for OpenShift.
pub fn openshift_box_test<F: Future<Output = ()>>(test: impl FnOnce(TestCluster) -> F + Send + 'static) {
    run(OPENSHIFT_BOX, BoxKind::OpenShift, test);
}

/// Runs a test inside the box of that name, bringing it up where needed.
pub fn run<F: Future<Output = ()>>(name: &str, kind: BoxKind, test: impl FnOnce(TestCluster) -> F + Send + 'static) {
    let outcome = TestBox::up(name, kind).and_then(|test_box| {
        inside(test_box, async |cluster| {
            test(cluster).await;
            Ok(())
        })
    });
    outcome.expect("the box must serve the test");
}

/// Does work inside a box that is up: in its network, with a client and a namespace for the time of the work. A panic of
/// the work goes on in the caller.
pub fn inside<T: Send + 'static, F: Future<Output = Result<T>>>(
    test_box: TestBox,
    work: impl FnOnce(TestCluster) -> F + Send + 'static,
) -> Result<T> {
    // Threads made after entering a network namespace live in it too, so the whole runtime of the work does.
    let outcome = std::thread::spawn(move || -> Result<T> {
        test_box.machine().enter_network()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let cluster = TestCluster::connect(test_box).await?;
            let result = work(cluster.clone()).await?;
            cluster.delete_namespace().await?;
            Ok(result)
        })
    })
    .join();
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl TestCluster {
    async fn connect(test_box: TestBox) -> Result<Self> {
        let client = client(&test_box.kubeconfig()).await?;
        let namespace = unique_name("test");
        let api: Api<Namespace> = Api::all(client.clone());
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.clone());
        api.create(&PostParams::default(), &object).await?;
        Ok(Self { client, namespace, test_box })
    }

    async fn delete_namespace(&self) -> Result<()> {
        self.remove_kept_objects().await;
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.delete(&self.namespace, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Removes what the server of a test keeps by finalizers: it has ended and cleans nothing up any more. The namespace would
    /// stay for as long as the box is up, and of each such namespace the controller manager lists and deletes all types again
    /// every eight seconds: with fifty of them the API server is busy with nothing else. What cannot be removed stays.
    async fn remove_kept_objects(&self) {
        // Side by side: the API server has each list wait until its copy of what etcd has is new enough.
        join_all(KEPT_KINDS.map(|(version, kind)| self.remove_kept_of(version, kind))).await;
    }

    async fn remove_kept_of(&self, version: &str, kind: &str) {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("velero.io", version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        // Where Velero was not installed there is no such kind.
        let Ok(found) = api.list_metadata(&ListParams::default()).await else { return };
        let metadata = found.items.into_iter().map(|object| object.metadata);
        let kept = metadata.filter(|metadata| metadata.finalizers.iter().flatten().next().is_some());
        for name in kept.filter_map(|metadata| metadata.name) {
            // Deleted first: a server that still runs can add no finalizer then.
            let _ = api.delete(&name, &DeleteParams::default()).await;
            let _ = api.patch(&name, &PatchParams::default(), &free).await;
        }
    }
}

/// A name no other test of this machine has.
pub fn unique_name(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

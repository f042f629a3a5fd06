//! What `velero plugin add` and `velero plugin remove` make of the server's Deployment is what the original makes of it.

use std::path::PathBuf;
use std::process::{Command, Output};

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use velero_testkit::{Edition, TestCluster, cluster_test};

fn run(program: PathBuf, cluster: &TestCluster, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(["--namespace", &cluster.namespace, "--kubeconfig"])
        .arg(cluster.test_box.kubeconfig())
        .args(arguments)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap()
}

fn ours() -> PathBuf {
    env!("CARGO_BIN_EXE_velero").into()
}

fn api(cluster: &TestCluster) -> Api<Deployment> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// A Deployment of the server as its installation makes it, but for what does not matter here.
async fn deploy(cluster: &TestCluster) {
    let labels = json!({"component": "velero", "deploy": "velero"});
    let deployment = json!({
        "metadata": {"name": "velero", "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"deploy": "velero"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [
                    {"name": "sidecar", "image": "sidecar:v1"},
                    {"name": "velero", "image": "velero:v1", "args": ["server"]},
                ]},
            },
        },
    });
    api(cluster).create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
}

/// The pod of the Deployment after each of several commands.
async fn pods_after(program: PathBuf, cluster: &TestCluster, commands: &[&[&str]]) -> Vec<Value> {
    deploy(cluster).await;
    let mut pods = Vec::new();
    for command in commands {
        let output = run(program.clone(), cluster, command);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command:?}: {told}");
        let deployment = api(cluster).get("velero").await.unwrap();
        pods.push(serde_json::to_value(deployment.spec.unwrap().template.spec).unwrap());
    }
    api(cluster).delete("velero", &DeleteParams::default()).await.unwrap();
    pods
}

#[test]
fn plugins_are_added_and_removed_as_the_original_does() {
    cluster_test(|cluster| async move {
        let commands: [&[&str]; 4] = [
            &["plugin", "add", "docker.io/velero/velero-plugin-for-aws:v1.14.3", "--confirm"],
            &["plugin", "add", "example/my_plugin.x", "--image-pull-policy", "Always", "--confirm"],
            &["plugin", "remove", "docker.io/velero/velero-plugin-for-aws:v1.14.3"],
            &["plugin", "remove", "example-my-plugin-x"],
        ];
        let theirs = pods_after(Edition::Peer.binary().unwrap(), &cluster, &commands).await;
        let ours = pods_after(ours(), &cluster, &commands).await;
        assert_eq!(ours, theirs);
        assert_eq!(theirs[1]["initContainers"].as_array().unwrap().len(), 2);
    });
}

#[test]
fn a_plugin_that_is_not_there_and_a_server_that_is_not_there_are_told() {
    cluster_test(|cluster| async move {
        let told = |arguments: &[&str]| {
            let output = run(ours(), &cluster, arguments);
            assert!(!output.status.success());
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        assert!(told(&["plugin", "add", "a/b", "--confirm"]).contains("Velero deployment not found"));
        deploy(&cluster).await;
        assert!(told(&["plugin", "remove", "absent"]).contains("init container absent not found"));
    });
}

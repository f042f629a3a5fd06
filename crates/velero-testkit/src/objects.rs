//! Builders for the objects tests need.

use serde_json::{Value, json};

use crate::parts::WORKLOAD_IMAGE;

/// A Deployment of BusyBox pods labelled `app: <name>` that run a shell command.
pub fn deployment(namespace: &str, name: &str, replicas: u32, shell: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container(name, shell)]},
            },
        },
    })
}

/// A pod that runs a shell command once.
pub fn pod(namespace: &str, name: &str, shell: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container(name, shell)]},
    })
}

/// A Service for the pods labelled `app: <name>`.
pub fn service(namespace: &str, name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": [{"port": port}]},
    })
}

/// A ConfigMap with one key.
pub fn config_map(namespace: &str, name: &str, key: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {key: value},
    })
}

/// A Namespace.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn container(name: &str, shell: &str) -> Value {
    json!({"name": name, "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", shell]})
}

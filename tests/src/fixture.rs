//! A cluster full of different things, the same every time: what the filters of both servers choose from.

use serde_json::{Value, json};
use velero_testkit::objects;

/// The namespaces of the fixture.
pub const NAMESPACES: &[&str] = &["alpha", "beta", "gamma-1", "gamma-2", "hidden", "empty"];

/// Every object, in an order in which they can be created.
pub fn objects() -> Vec<Value> {
    let mut all: Vec<Value> = NAMESPACES.iter().map(|name| namespace(name)).collect();
    all.extend(cluster_scoped());
    for name in ["alpha", "beta", "gamma-1", "gamma-2", "hidden"] {
        all.extend(namespaced(name));
    }
    all.extend(volumes());
    all.extend([
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "first"}, "spec": {"size": 1}}),
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one", "namespace": "alpha", "labels": {"tier": "front"}}}),
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "two", "namespace": "beta"}}),
    ]);
    all
}

fn namespace(name: &str) -> Value {
    let mut object = objects::namespace(name);
    object["metadata"]["labels"] = match name {
        "alpha" => json!({"team": "red"}),
        "hidden" => json!({"velero.io/exclude-from-backup": "true"}),
        _ => json!({"team": "blue"}),
    };
    object
}

fn cluster_scoped() -> Vec<Value> {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let binding = |name: &str, account: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name, "labels": {"tier": "front"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "alpha"}],
        })
    };
    vec![
        definition("Widget", "widgets", "Namespaced"),
        definition("Gadget", "gadgets", "Cluster"),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "fixture-reader", "labels": {"tier": "front"}}, "rules": rules}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "fixture-unused"}, "rules": rules}),
        binding("fixture-binding", "runner", "fixture-reader"),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "fixture-high"}, "value": 1000}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fixture-class"}, "provisioner": "kubernetes.io/no-provisioner"}),
    ]
}

fn definition(kind: &str, plural: &str, scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

fn namespaced(namespace: &str) -> Vec<Value> {
    let metadata = |name: &str, labels: Value| json!({"name": name, "namespace": namespace, "labels": labels});
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("front", json!({"tier": "front", "app": "shop"})), "data": {"a": "<b>&c"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("back", json!({"tier": "back", "app": "shop"})), "data": {"b": "2"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("secretive", json!({"velero.io/exclude-from-backup": "true"})), "data": {}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("keys", json!({"tier": "back"})), "stringData": {"key": "value"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("runner", json!({"tier": "front"}))}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata("web", json!({"tier": "front"})),
               "spec": {"clusterIP": "None", "selector": {"app": "shop"}, "ports": [{"port": 80}]}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata("closed", json!({})), "spec": {"podSelector": {}}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata("reader", json!({})),
               "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata("nightly", json!({"tier": "back"})),
               "spec": {"schedule": "0 3 * * *", "suspend": true, "jobTemplate": {"spec": {"template": {"spec":
                   {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}}}}}),
        labelled_deployment(namespace),
    ]
}

fn labelled_deployment(namespace: &str) -> Value {
    let mut deployment = objects::deployment(namespace, "web", 0, "sleep 1000");
    deployment["metadata"]["labels"]["tier"] = json!("front");
    deployment
}

/// In alpha: a pod of the account `runner` that mounts a bound claim; in beta: a claim nobody mounts.
fn volumes() -> Vec<Value> {
    let volume = |name: &str, namespace: &str, claim: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                     "hostPath": {"path": "/data"}, "claimRef": {"namespace": namespace, "name": claim}},
        })
    };
    let claim = |name: &str, namespace: &str, volume: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}},
        })
    };
    let mut pod = objects::pod("alpha", "worker", "sleep 1000");
    pod["spec"]["schedulerName"] = json!("nobody");
    pod["spec"]["serviceAccountName"] = json!("runner");
    pod["spec"]["priorityClassName"] = json!("fixture-high");
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    pod["metadata"]["labels"]["tier"] = json!("front");
    vec![
        volume("fixture-alpha", "alpha", "data"),
        volume("fixture-beta", "beta", "data"),
        claim("data", "alpha", "fixture-alpha"),
        claim("data", "beta", "fixture-beta"),
        pod,
    ]
}

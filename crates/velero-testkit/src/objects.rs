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

/// A claim for a volume of the usual class.
pub fn claim(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    })
}

/// A claim for a volume with the data of a snapshot.
pub fn claim_from_snapshot(namespace: &str, name: &str, snapshot: &str) -> Value {
    let mut claim = claim(namespace, name);
    claim["spec"]["dataSource"] =
        json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot});
    claim
}

/// The claim for a device: a volume with volumeMode Block.
pub fn for_device(mut claim: Value) -> Value {
    claim["spec"]["volumeMode"] = json!("Block");
    claim
}

/// A pod that runs a shell command once, with the volume of that claim, which is one for a device, as `/dev/data`.
pub fn pod_with_device(namespace: &str, name: &str, claim: &str, shell: &str) -> Value {
    let mut pod = pod(namespace, name, shell);
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod["spec"]["containers"][0]["volumeDevices"] = json!([{"name": "data", "devicePath": "/dev/data"}]);
    pod
}

/// A pod that runs a shell command once, with the volume of that claim at `/data`.
pub fn pod_with_claim(namespace: &str, name: &str, claim: &str, shell: &str) -> Value {
    let mut pod = pod(namespace, name, shell);
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    pod
}

/// A snapshot of the volume of that claim.
pub fn volume_snapshot(namespace: &str, name: &str, claim: &str, class: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"volumeSnapshotClassName": class, "source": {"persistentVolumeClaimName": claim}},
    })
}

/// A snapshot class whose parameters tell the driver how to misbehave: the fields of [`velero_csi_driver::Settings`].
pub fn snapshot_class(name: &str, parameters: &Value) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": name},
        "driver": velero_csi_driver::DRIVER_NAME,
        "deletionPolicy": "Delete",
        "parameters": parameters,
    })
}

fn container(name: &str, shell: &str) -> Value {
    json!({"name": name, "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", shell]})
}

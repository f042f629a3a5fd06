//! The objects of the rows. They name no namespace: that is the row's.

use serde_json::{Value, json};
use velero_testkit::objects;
use velero_testkit::parts::WORKLOAD_IMAGE;

use crate::volume_data::{claimed, empty_dir};

/// A class whose volumes come with their first pod.
pub(super) const LATE_CLASS: &str = "late";
/// Another class of the same driver.
pub(super) const OTHER_CLASS: &str = "other";
/// A class that nobody serves.
pub(super) const NO_CLASS: &str = "nobody";
/// The label that says which state a pod stays in, where that is not Running.
pub(super) const STATE: &str = "state";

/// Where volumes with data are mounted.
pub(super) const DATA_FOLDER: &str = "/volumes/";

/// Fills what can be written to, once.
const FILL: &str = r#"for volume in /volumes/*; do test -e "$volume/stamp" || test ! -w "$volume" || {
cd "$volume" && mkdir -p deep/er && echo hello > deep/er/hello && head -c 3000 /dev/urandom > random
ln -s deep/er/hello link; chmod 0640 random; touch -d '2001-02-03 04:05:06' random; touch stamp; }; done; sync"#;

/// A pod that fills its volumes and waits. The annotation asks for the volumes of that list, unless it is empty.
pub(super) fn pod(name: &str, asked: &str, volumes: &[Value]) -> Value {
    let wanted = if asked.is_empty() { json!({}) } else { json!({"backup.velero.io/backup-volumes": asked}) };
    let mut pod = objects::pod("", name, &format!("{FILL}; touch /tmp/ready; sleep 100000"));
    pod["metadata"]["annotations"] = wanted;
    pod["spec"]["volumes"] = json!(volumes);
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!(WORKLOAD_IMAGE);
    container["volumeMounts"] = json!(volumes.iter().map(mount).collect::<Vec<_>>());
    container["startupProbe"] =
        json!({"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 1, "failureThreshold": 300});
    pod
}

/// What cannot be written to lies apart from what is looked at.
fn mount(volume: &Value) -> Value {
    let name = volume["name"].as_str().unwrap_or_default();
    let folder = if is_data(volume) { "volumes" } else { "others" };
    json!({"name": name, "mountPath": format!("/{folder}/{name}"), "readOnly": folder == "others"})
}

/// Whether a volume holds data of its own.
pub(super) fn is_data(volume: &Value) -> bool {
    ["persistentVolumeClaim", "emptyDir", "ephemeral"].iter().any(|kind| volume.get(kind).is_some())
}

/// The pod, which does that instead of filling its volumes.
pub(super) fn script(pod: Value, script: &str) -> Value {
    let text = format!("{script}; touch /tmp/ready; sleep 100000");
    with(pod, "/spec/containers/0/command", json!(["sh", "-c", text]))
}

/// A pod with the claim `data` as its volume `data`.
pub(super) fn pod_with_claim(name: &str, asked: &str) -> Value {
    pod(name, asked, &[claimed("data", "data")])
}

/// A pod with a volume `scratch` of its own.
pub(super) fn pod_with_scratch(name: &str, asked: &str) -> Value {
    pod(name, asked, &[empty_dir("scratch")])
}

/// A claim of the usual class.
pub(super) fn claim(name: &str) -> Value {
    objects::claim("", name)
}

/// A claim of another class.
pub(super) fn claim_of(name: &str, class: &str) -> Value {
    with(claim(name), "/spec/storageClassName", json!(class))
}

/// A claim with a label.
pub(super) fn labelled_claim(name: &str, label: &str, value: &str) -> Value {
    with(claim(name), "/metadata/labels", json!({label: value}))
}

/// The object with a value at that place; what leads there is made.
pub(super) fn with(mut object: Value, place: &str, value: Value) -> Value {
    let mut target = &mut object;
    for part in place.split('/').skip(1) {
        let part = part.replace("~1", "/");
        target = match part.parse::<usize>() {
            Ok(index) => &mut target[index],
            Err(_) => &mut target[part],
        };
    }
    *target = value;
    object
}

/// The pod, which no node takes.
pub(super) fn pending(pod: Value) -> Value {
    let pod = with(pod, "/spec/nodeSelector", json!({"no-node": "has-this"}));
    with(pod, "/metadata/labels/state", json!("Pending"))
}

/// The pod, which ends once it has filled its volumes.
pub(super) fn succeeded(pod: Value) -> Value {
    let pod = with(pod, "/spec/containers/0/command", json!(["sh", "-c", FILL]));
    let pod = with(pod, "/spec/containers/0/startupProbe", Value::Null);
    with(pod, "/metadata/labels/state", json!("Succeeded"))
}

/// The pod, which fails once it has filled its volumes.
pub(super) fn failed(pod: Value) -> Value {
    let pod = with(succeeded(pod), "/spec/containers/0/command", json!(["sh", "-c", format!("{FILL}; exit 1")]));
    with(pod, "/metadata/labels/state", json!("Failed"))
}

/// The pod with an annotation.
pub(super) fn annotated(pod: Value, key: &str, value: &str) -> Value {
    with(pod, &format!("/metadata/annotations/{}", key.replace('/', "~1")), json!(value))
}

/// A volume of a claim that comes and goes with its pod.
pub(super) fn ephemeral(volume: &str) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}});
    json!({"name": volume, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
}

/// Volumes of the kinds that hold nothing of their own.
pub(super) fn others() -> Vec<Value> {
    vec![
        json!({"name": "map", "configMap": {"name": "settings"}}),
        json!({"name": "secret", "secret": {"secretName": "keys"}}),
        json!({"name": "projected", "projected": {"sources": [{"configMap": {"name": "settings"}}]}}),
        json!({"name": "host", "hostPath": {"path": "/usr"}}),
        json!({"name": "downward", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
    ]
}

/// What [`others`] show.
pub(super) fn behind_others() -> Vec<Value> {
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"key": "value"}});
    vec![objects::config_map("", "settings", "key", "value"), secret]
}

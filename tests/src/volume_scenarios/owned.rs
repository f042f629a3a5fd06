//! Pods that belong to controllers, which make them again after a restore unless they find them there.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use velero_testkit::machine::Machine;

use super::pods::{claim, pod_with_claim};
use super::{Again, Row, Way};

/// How many parts of a pod's name a ReplicaSet and its Deployment have added.
const ADDED: usize = 2;

/// The pod that an object is or brings with it, if any. The one of a Deployment goes by the name of the Deployment.
pub(super) fn pod_of(object: &Value) -> Option<Value> {
    let name = object["metadata"]["name"].as_str()?;
    let name = match object["kind"].as_str()? {
        "Pod" => return Some(object.clone()),
        "StatefulSet" => format!("{name}-0"),
        "Deployment" => name.to_owned(),
        _ => return None,
    };
    let mut pod = object["spec"]["template"].clone();
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    Some(pod)
}

/// The name that the table has for a pod: without what its ReplicaSet added.
pub(super) fn short_name(pod: &str) -> String {
    let parts: Vec<&str> = pod.split('-').collect();
    match parts.len() > ADDED && parts[parts.len() - 1].len() == 5 {
        true => parts[..parts.len() - ADDED].join("-"),
        false => pod.to_owned(),
    }
}

/// A pod by the name that the table has for it.
pub(super) fn find(machine: &Machine, namespace: &str, name: &str) -> Result<Value> {
    let pods = machine.items(&format!("/api/v1/namespaces/{namespace}/pods"))?;
    let is_it = |pod: &Value| pod["metadata"]["name"].as_str().is_some_and(|found| short_name(found) == name);
    pods.into_iter().find(is_it).with_context(|| format!("there is no pod {namespace}/{name}"))
}

/// What a controller makes pods like that one of.
fn template(pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["spec"]["restartPolicy"] = json!("Always");
    json!({"metadata": {"labels": pod["metadata"]["labels"], "annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]})
}

fn controller(kind: &str, further: &Value) -> Value {
    let pod = pod_with_claim("web", "data");
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": pod["metadata"]["labels"]}, "template": template(&pod)},
    });
    for (key, value) in further.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

pub(super) fn rows() -> Vec<Row> {
    let mut stateful =
        controller("StatefulSet", &json!({"serviceName": "web", "volumeClaimTemplates": [claim("data")]}));
    stateful["spec"]["template"]["spec"]["volumes"] = json!([]);
    vec![
        Row::new("of-deployment", Way::Asked, vec![claim("data"), controller("Deployment", &json!({}))])
            .restored(Again::Whole)
            .gives(&[
                "backup Completed",
                "copy web/data Completed",
                "claim data: PodVolumeBackup succeeded",
                "restore Completed",
                "web/data same",
            ]),
        Row::new("of-stateful-set", Way::Asked, vec![stateful]).restored(Again::Whole).gives(&[
            "backup Completed",
            "copy web-0/data Completed",
            "claim data-web-0: PodVolumeBackup succeeded",
            "restore Completed",
            "web-0/data same",
        ]),
    ]
}

//! A picture of the objects in a cluster, without what the API server and the controllers decide for themselves.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};
use velero_testkit::machine::Machine;

use crate::{difference, types};

/// Types whose objects come and go by themselves.
const RESTLESS: &[&str] = &[
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    // The controllers name them at random and replace those that were restored.
    "endpointslices.discovery.k8s.io",
    "endpoints",
    "componentstatuses",
    // They follow the addresses of the services.
    "ipaddresses.networking.k8s.io",
    "servicecidrs.networking.k8s.io",
    "apiservices.apiregistration.k8s.io",
];

/// Namespaces that belong to the cluster, to the servers or to the harness.
const NOT_OURS: &[&str] = &["kube-", "default", "velero", "test-"];

/// Node ports that are asked for by number lie below; those the API server picks do not.
const PICKED_NODE_PORTS: u64 = 30_086;

/// The objects of a cluster, by type, namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Picture(pub BTreeMap<String, Value>);

impl Picture {
    /// Takes the picture of all objects that tests or users made.
    pub fn take(machine: &Machine) -> Result<Self> {
        let mut objects = BTreeMap::new();
        for kind in types::all(machine)? {
            let name = kind.name();
            if RESTLESS.contains(&name.as_str()) || name.ends_with(".velero.io") {
                continue;
            }
            let found = kind.objects(machine)?.into_iter().filter(is_of_a_user);
            objects.extend(found.map(|object| (key(&object), normalised(object))));
        }
        Ok(Self(objects))
    }

    /// What differs, one line a difference; each object is named.
    pub fn differences(&self, theirs: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (key, object) in &self.0 {
            match theirs.0.get(key) {
                None => found.push(format!("only ours has {key}")),
                Some(other) => {
                    found.extend(difference::differences(object, other).into_iter().map(|line| format!("{key} {line}")))
                }
            }
        }
        found.extend(
            theirs.0.keys().filter(|key| !self.0.contains_key(*key)).map(|key| format!("only theirs has {key}")),
        );
        found
    }
}

fn key(object: &Value) -> String {
    let part = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
    [part("/apiVersion"), part("/kind"), part("/metadata/namespace"), part("/metadata/name")].join(" ")
}

fn is_of_a_user(object: &Value) -> bool {
    let metadata = &object["metadata"];
    // A controller made it for an object that was restored; what was restored itself has lost this field.
    if metadata["generateName"].is_string() {
        return false;
    }
    // Its controller decides which pods of a set stay; that they were restored is in the list of the restore.
    if object["kind"] == "Pod" && metadata["ownerReferences"][0]["kind"] == "ReplicaSet" {
        return false;
    }
    let name = metadata["name"].as_str().unwrap_or_default();
    let not_ours = |namespace: &str| NOT_OURS.iter().any(|part| namespace.starts_with(part));
    if let Some(namespace) = metadata["namespace"].as_str() {
        return !not_ours(namespace);
    }
    let from_the_server = metadata["labels"].get("kubernetes.io/bootstrapping").is_some()
        || metadata["annotations"].get("apf.kubernetes.io/autoupdate-spec").is_some()
        || name.starts_with("system")
        || name.ends_with(".velero.io");
    !(from_the_server || object["kind"] == "Namespace" && not_ours(name))
}

/// The object without what the server sets; where the value differs from run to run but has to be there, a mark stays.
fn normalised(mut object: Value) -> Value {
    let keeps_status = object["apiVersion"].as_str().is_some_and(|version| version.contains("example.com"));
    if let Some(fields) = object.as_object_mut()
        && !keeps_status
    {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(field);
        }
    }
    mark_labels(&mut object);
    match object["kind"].as_str().unwrap_or_default() {
        "Service" => service(&mut object),
        "Secret" if object["type"] == "kubernetes.io/service-account-token" => token(&mut object),
        "ConfigMap" if object["metadata"]["name"] == "kube-root-ca.crt" => object["data"] = json!("<certificate>"),
        "PersistentVolume" => drop_field(&mut object, "/spec/claimRef", "resourceVersion"),
        _ => {}
    }
    mark_identities(&mut object);
    object
}

/// The labels of a restore. What every namespace has from the controllers carries them only where the restore was faster.
fn mark_labels(object: &mut Value) {
    let from_controllers = match object["kind"].as_str() {
        Some("ConfigMap") => object["metadata"]["name"] == "kube-root-ca.crt",
        Some("ServiceAccount") => object["metadata"]["name"] == "default",
        _ => false,
    };
    let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) else { return };
    for label in ["velero.io/restore-name", "velero.io/backup-name"] {
        match labels.get_mut(label) {
            Some(_) if from_controllers => drop(labels.remove(label)),
            Some(value) => *value = json!("<name>"),
            None => {}
        }
    }
    if labels.is_empty() {
        object["metadata"]["labels"] = Value::Null;
    }
}

fn service(object: &mut Value) {
    let spec = &mut object["spec"];
    if spec["clusterIP"] != "None" && spec["clusterIP"].is_string() {
        spec["clusterIP"] = json!("<address>");
        spec["clusterIPs"] = json!("<addresses>");
    }
    let mark = |port: &mut Value| {
        if port.as_u64().is_some_and(|number| number >= PICKED_NODE_PORTS) {
            *port = json!("<port>");
        }
    };
    spec.get_mut("healthCheckNodePort").map(mark);
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        port.get_mut("nodePort").map(mark);
    }
}

/// The token and the certificate of a service account are the cluster's own.
fn token(object: &mut Value) {
    for (_, value) in object["data"].as_object_mut().into_iter().flatten() {
        *value = json!("<data>");
    }
}

fn drop_field(object: &mut Value, at: &str, field: &str) {
    if let Some(fields) = object.pointer_mut(at).and_then(Value::as_object_mut) {
        fields.remove(field);
    }
}

/// Every identity the server gave, wherever it is repeated.
fn mark_identities(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(mark_identities),
        Value::Object(fields) => {
            for (name, field) in fields {
                let identity =
                    name == "uid" || name.ends_with("controller-uid") || name.ends_with("service-account.uid");
                if identity && field.is_string() {
                    *field = json!("<identity>");
                } else {
                    mark_identities(field);
                }
            }
        }
        _ => {}
    }
}

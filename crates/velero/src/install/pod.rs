//! What the pods of the server and of the node agents have in common.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use velero_api::labels;

use super::{Installation, SECRET, SERVER, locations, network};
use crate::arguments::values::merged;

/// Where the credentials are mounted.
const CREDENTIALS_FOLDER: &str = "/credentials";
/// The variables by which libraries of the providers find them.
const CREDENTIALS_VARIABLES: [&str; 4] = [
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CREDENTIALS_FILE",
    "ALIBABA_CLOUD_CREDENTIALS_FILE",
];

/// A container and the volumes its pod has for it.
pub(super) struct Parts {
    pub(super) environment: Vec<Value>,
    pub(super) mounts: Vec<Value>,
    pub(super) volumes: Vec<Value>,
}

impl Parts {
    /// Adds a volume and the place where the container sees it.
    pub(super) fn volume(&mut self, name: &str, path: &str, source: (&str, Value)) {
        let (kind, source) = source;
        self.volumes.push(json!({ "name": name, kind: source }));
        self.mounts.push(mount(name, path));
    }

    /// Adds the credentials, where there are any.
    pub(super) fn credentials(&mut self, installation: &Installation<'_>) {
        if !locations::has_secret(installation) {
            return;
        }
        let source = json!({ "secretName": SECRET, "defaultMode": 0o444 });
        self.volume(SECRET, CREDENTIALS_FOLDER, ("secret", source));
        let file = format!("{CREDENTIALS_FOLDER}/cloud");
        self.environment.extend(CREDENTIALS_VARIABLES.map(|name| variable(name, &file)));
    }
}

/// A container that runs our binary.
pub(super) fn container(
    installation: &Installation<'_>,
    name: &str,
    arguments: &[String],
    parts: &Parts,
    resources: &Value,
) -> Value {
    let image = &installation.arguments.pod.image;
    json!({
        "name": name,
        "image": image,
        "imagePullPolicy": pull_policy(image),
        "command": ["/velero"],
        "args": arguments,
        "ports": ports(),
        "env": parts.environment,
        "volumeMounts": parts.mounts,
        "resources": resources,
    })
}

/// A variable.
pub(super) fn variable(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}

/// A variable that holds a field of the pod.
pub(super) fn field_variable(name: &str, path: &str) -> Value {
    json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
}

/// A volume seen at a path.
pub(super) fn mount(name: &str, path: &str) -> Value {
    json!({ "name": name, "mountPath": path })
}

/// The metadata of a pod: those of the installation, of the user, and its own, which win.
pub(super) fn template_metadata(
    installation: &Installation<'_>,
    own_labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
) -> Value {
    let owned = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let mut all_labels = owned(&[(labels::COMPONENT, labels::COMPONENT_VELERO)]);
    all_labels.extend(merged(&installation.arguments.pod.pod_labels));
    all_labels.extend(owned(own_labels));
    let mut annotations = owned(annotations);
    annotations.extend(merged(&installation.arguments.pod.pod_annotations));
    let mut metadata = json!({ "labels": all_labels });
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    metadata
}

/// The account the pods run as.
pub(super) fn service_account<'a>(installation: &'a Installation<'_>) -> &'a str {
    let named = installation.arguments.pod.service_account_name.as_str();
    if named.is_empty() { SERVER } else { named }
}

/// An image with a fixed tag does not change, so it need not be asked for again.
pub(super) fn pull_policy(image: &str) -> &'static str {
    match image.split(':').collect::<Vec<_>>().as_slice() {
        [_, tag] if *tag != "latest" => "IfNotPresent",
        _ => "Always",
    }
}

/// Nodes of that system only, or of any but that.
pub(super) fn node_affinity(operator: &str) -> Value {
    let expression = json!({ "key": "kubernetes.io/os", "operator": operator, "values": ["windows"] });
    let terms = json!({ "nodeSelectorTerms": [{ "matchExpressions": [expression] }] });
    json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } })
}

/// The ports of a container.
fn ports() -> Value {
    json!([{ "name": "metrics", "containerPort": network::PORT }])
}

/// The flag that switches features on; none when there are none.
pub(super) fn features(installation: &Installation<'_>) -> Option<String> {
    let names: Vec<_> = installation.arguments.server.features.iter().flat_map(|list| &list.0).collect();
    let names: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).map(String::as_str).collect();
    (!names.is_empty()).then(|| format!("--features={}", names.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_image_with_a_fixed_tag_is_kept() {
        for (image, expected) in [
            ("velero/velero:v1.18.3", "IfNotPresent"),
            ("velero/velero:latest", "Always"),
            ("velero/velero", "Always"),
            ("localhost:5000/velero:v1", "Always"),
        ] {
            assert_eq!(pull_policy(image), expected, "{image}");
        }
    }
}

//! The namespace.

use serde_json::json;

use super::{Resource, metadata};

/// What pods of the namespace may do: those that work on volumes of a node may do everything.
const POD_SECURITY: &str = "privileged";

/// The namespace of the server. One that exists is the user's.
pub(super) fn namespace(name: &str) -> Resource {
    let mut metadata = metadata(None, name);
    for mode in ["enforce", "audit", "warn"] {
        metadata["labels"][format!("pod-security.kubernetes.io/{mode}")] = json!(POD_SECURITY);
        metadata["labels"][format!("pod-security.kubernetes.io/{mode}-version")] = json!("latest");
    }
    Resource::kept(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }))
}

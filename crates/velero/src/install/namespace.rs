//! The namespace.

use serde_json::json;

use super::{Installation, Manner, Resource, metadata};

/// The label that says what pods of a namespace may do.
pub(crate) const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";
/// Pods that work on volumes of a node may do everything.
pub(crate) const PRIVILEGED: &str = "privileged";
/// A server alone needs nothing that the strictest level forbids.
pub(crate) const RESTRICTED: &str = "restricted";

/// The namespace of the server. One that exists is the user's; but one that was made for a server alone would refuse the
/// pods of node agents, so it is made theirs when they come.
pub(super) fn namespace(installation: &Installation<'_>) -> Resource {
    let mut metadata = metadata(None, installation.namespace);
    let has_agents = has_node_agents(installation);
    let level = if has_agents || installation.existing.open_namespace { PRIVILEGED } else { RESTRICTED };
    for mode in ["enforce", "audit", "warn"] {
        metadata["labels"][format!("pod-security.kubernetes.io/{mode}")] = json!(level);
        metadata["labels"][format!("pod-security.kubernetes.io/{mode}-version")] = json!("latest");
    }
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
    let opens = installation.existing.namespace && has_agents;
    Resource { object, manner: if opens { Manner::Apply } else { Manner::Keep } }
}

fn has_node_agents(installation: &Installation<'_>) -> bool {
    let agents = &installation.arguments.node_agent;
    agents.use_node_agent || agents.use_node_agent_windows
}

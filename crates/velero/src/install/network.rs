//! Who may connect to the pods: everybody to the port of metrics, health and downloads, and to that of the page where there
//! is one, nobody to any other. Where they
//! connect to themselves is not restricted: API server and stores may be anywhere.

use serde_json::{Value, json};

use super::{Installation, Resource, SERVER, deployment, metadata};

/// The port that server and node agents listen on.
pub(super) const PORT: u16 = 8085;
/// The port that the server serves the page on.
pub(crate) const WEB_PORT: u16 = 8086;
/// What that port is called.
pub(crate) const WEB_PORT_NAME: &str = "web";
/// The policy of the node agents.
const NODE_AGENT: &str = "velero-node-agent";
/// The label that node agents of all systems carry.
const ROLE: (&str, &str) = ("role", "node-agent");

/// The policies of the pods; none where flags leave them out.
pub(super) fn policies(installation: &Installation<'_>) -> Vec<Resource> {
    if are_left_out(installation) {
        return Vec::new();
    }
    let agents = installation.arguments.node_agent.use_node_agent;
    let of_agents = agents.then(|| policy(installation.namespace, NODE_AGENT, ROLE, &[PORT]));
    let ports: &[u16] = if installation.arguments.server.web { &[PORT, WEB_PORT] } else { &[PORT] };
    let of_server = policy(installation.namespace, SERVER, deployment::SELECTOR, ports);
    [of_server].into_iter().chain(of_agents).map(Resource::applied).collect()
}

/// The policies that flags leave out; none unless they do.
pub(super) fn left_out(installation: &Installation<'_>) -> Vec<Resource> {
    if !are_left_out(installation) {
        return Vec::new();
    }
    let of_server = policy(installation.namespace, SERVER, deployment::SELECTOR, &[PORT]);
    let of_agents = policy(installation.namespace, NODE_AGENT, ROLE, &[PORT]);
    [of_server, of_agents].map(Resource::applied).into()
}

fn are_left_out(installation: &Installation<'_>) -> bool {
    installation.arguments.run.network_policy.0 == Some(false)
}

fn policy(namespace: &str, name: &str, label: (&str, &str), ports: &[u16]) -> Value {
    let ports: Vec<Value> = ports.iter().map(|port| json!({ "protocol": "TCP", "port": port })).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(Some(namespace), name),
        "spec": {
            "podSelector": { "matchLabels": { label.0: label.1 } },
            "policyTypes": ["Ingress"],
            "ingress": [{ "ports": ports }],
        },
    })
}

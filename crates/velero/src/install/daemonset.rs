//! The DaemonSets of the node agents.

use serde_json::{Value, json};

use super::pod::{self, Parts};
use super::{Installation, metadata, quantity};

/// The name of the DaemonSet of the node agents.
pub(crate) const NODE_AGENTS: &str = "node-agent";

/// The operating system of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    Linux,
    Windows,
}

impl System {
    fn name(self) -> &'static str {
        match self {
            Self::Linux => NODE_AGENTS,
            Self::Windows => "node-agent-windows",
        }
    }
}

/// The DaemonSet of the node agents on nodes of that system.
pub(super) fn daemonset(installation: &Installation<'_>, system: System) -> Value {
    let labels = [("name", system.name()), ("role", "node-agent")];
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(Some(installation.namespace), system.name()),
        "spec": {
            "selector": { "matchLabels": { "name": system.name() } },
            "template": {
                "metadata": pod::template_metadata(installation, &labels, &[]),
                "spec": pod_spec(installation, system),
            },
        },
    })
}

fn pod_spec(installation: &Installation<'_>, system: System) -> Value {
    let agents = &installation.arguments.node_agent;
    let parts = parts(installation);
    let mut spec = json!({
        "serviceAccountName": pod::service_account(installation),
        "containers": [container(installation, system, &parts)],
        "volumes": parts.volumes,
    });
    match system {
        System::Linux => {
            spec["securityContext"] = json!({ "runAsUser": 0 });
            spec["affinity"] = pod::node_affinity("NotIn");
        }
        System::Windows => {
            spec["os"] = json!({ "name": "windows" });
            spec["affinity"] = pod::node_affinity("In");
            let toleration =
                |effect: &str| json!({ "key": "os", "operator": "Equal", "value": "windows", "effect": effect });
            spec["tolerations"] = json!([toleration("NoSchedule"), toleration("NoExecute")]);
        }
    }
    if !agents.node_agent_priority_class_name.is_empty() {
        spec["priorityClassName"] = json!(agents.node_agent_priority_class_name);
    }
    spec
}

fn parts(installation: &Installation<'_>) -> Parts {
    let agents = &installation.arguments.node_agent;
    let environment = vec![
        pod::field_variable("NODE_NAME", "spec.nodeName"),
        pod::field_variable("VELERO_NAMESPACE", "metadata.namespace"),
        pod::variable("VELERO_SCRATCH_DIR", "/scratch"),
    ];
    let mut parts = Parts { environment, mounts: Vec::new(), volumes: Vec::new() };
    if !agents.node_agent_disable_host_path {
        let root = agents.kubelet_root_dir.trim_end_matches('/');
        parts.volume("host-pods", "/host_pods", ("hostPath", json!({ "path": format!("{root}/pods") })));
        let plugins = json!({ "path": format!("{root}/plugins") });
        parts.volume("host-plugins", "/var/lib/kubelet/plugins", ("hostPath", plugins));
        for mount in &mut parts.mounts {
            mount["mountPropagation"] = json!("HostToContainer");
        }
    }
    parts.volume("scratch", "/scratch", ("emptyDir", json!({})));
    parts.credentials(installation);
    parts
}

fn container(installation: &Installation<'_>, system: System, parts: &Parts) -> Value {
    let agents = &installation.arguments.node_agent;
    let resources = quantity::requirements(
        [&agents.node_agent_pod_cpu_request, &agents.node_agent_pod_mem_request],
        [&agents.node_agent_pod_cpu_limit, &agents.node_agent_pod_mem_limit],
    );
    let mut container = pod::container(installation, system.name(), &arguments(installation), parts, &resources);
    if system == System::Linux {
        container["securityContext"] = json!({ "privileged": agents.privileged_node_agent });
    }
    container
}

fn arguments(installation: &Installation<'_>) -> Vec<String> {
    let mut arguments = vec!["node-agent".to_owned(), "server".to_owned()];
    arguments.extend(pod::features(installation));
    let repositories = &installation.arguments.server.flags.settings.repositories;
    let config_maps = [
        ("node-agent-configmap", installation.arguments.node_agent.node_agent_configmap.as_str()),
        ("backup-repository-configmap", repositories.backup_repository_configmap.as_str()),
    ];
    let set = config_maps.into_iter().filter(|(_, name)| !name.is_empty());
    arguments.extend(set.map(|(flag, name)| format!("--{flag}={name}")));
    arguments
}

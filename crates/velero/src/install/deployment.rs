//! The Deployment of the server.

use serde_json::{Value, json};

use super::pod::{self, Parts};
use super::{INSTALLED_BY, Installation, SERVER, locations, metadata, network, quantity, web_page};
use crate::commands::plugin::container_name;

/// The label its pods are found by.
pub(super) const SELECTOR: (&str, &str) = ("deploy", "velero");
/// How long the server may take to end the work in hand.
const GRACE_SECONDS: u32 = 60;
/// The user the image runs as, and the group that owns the volume for backups.
const USER: u32 = 65532;
/// Where an init container puts plugins.
const PLUGIN_FOLDER: &str = "/target";

/// The Deployment. One server ends before the next one starts; of several, which agree by a Lease on who works, one is
/// replaced after the other.
pub(super) fn deployment(installation: &Installation<'_>) -> Value {
    let mut metadata = metadata(Some(installation.namespace), SERVER);
    metadata["annotations"] = json!({ INSTALLED_BY: concat!("velero-rust v", env!("CARGO_PKG_VERSION")) });
    let scrape = [("prometheus.io/scrape", "true"), ("prometheus.io/port", "8085"), ("prometheus.io/path", "/metrics")];
    let mut deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "strategy": { "type": "Recreate" },
            "selector": { "matchLabels": { SELECTOR.0: SELECTOR.1 } },
            "template": {
                "metadata": pod::template_metadata(installation, &[SELECTOR], &scrape),
                "spec": pod_spec(installation),
            },
        },
    });
    if has_several(installation) {
        let spec = &mut deployment["spec"];
        spec["replicas"] = json!(installation.arguments.pod.replicas);
        spec["strategy"] = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 1 } });
        spec["template"]["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": { SELECTOR.0: SELECTOR.1 } },
        }]);
    }
    deployment
}

/// Whether there is more than one server.
pub(super) fn has_several(installation: &Installation<'_>) -> bool {
    installation.arguments.pod.replicas > 1
}

/// What keeps those who empty nodes from ending several servers at once; one server alone must not keep them from it.
pub(super) fn disruption_budget(installation: &Installation<'_>) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(Some(installation.namespace), SERVER),
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { SELECTOR.0: SELECTOR.1 } } },
    })
}

fn pod_spec(installation: &Installation<'_>) -> Value {
    let parts = parts(installation);
    let mut spec = json!({
        "restartPolicy": "Always",
        "serviceAccountName": pod::service_account(installation),
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "os": { "name": "linux" },
        "affinity": pod::node_affinity("NotIn"),
        "containers": [container(installation, &parts)],
        "volumes": parts.volumes,
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
    });
    if locations::uses_claim(installation) {
        spec["securityContext"]["fsGroup"] = json!(USER);
        spec["securityContext"]["fsGroupChangePolicy"] = json!("OnRootMismatch");
    }
    let plugins = plugin_containers(installation);
    if !plugins.is_empty() {
        spec["initContainers"] = json!(plugins);
    }
    let priority = &installation.arguments.pod.server_priority_class_name;
    if !priority.is_empty() {
        spec["priorityClassName"] = json!(priority);
    }
    spec
}

fn parts(installation: &Installation<'_>) -> Parts {
    let environment = vec![
        pod::variable("VELERO_SCRATCH_DIR", "/scratch"),
        pod::field_variable("VELERO_NAMESPACE", "metadata.namespace"),
        pod::variable("LD_LIBRARY_PATH", "/plugins"),
    ];
    let mut parts = Parts { environment, mounts: Vec::new(), volumes: Vec::new() };
    parts.volume("plugins", "/plugins", ("emptyDir", json!({})));
    parts.volume("scratch", "/scratch", ("emptyDir", json!({})));
    // Plugins put their sockets there, and nothing else in the container can be written to.
    parts.mounts.push(pod::mount("scratch", "/tmp"));
    if locations::uses_claim(installation) {
        let source = json!({ "claimName": locations::CLAIM });
        parts.volume("backups", locations::CLAIM_FOLDER, ("persistentVolumeClaim", source));
    }
    parts.credentials(installation);
    web_page::mount(&mut parts, installation);
    if installation.arguments.server.csi_snapshot_early_frequent_polling {
        parts.environment.push(pod::variable("CSI_SNAPSHOT_EARLY_FREQUENT_POLLING", "true"));
    }
    parts
}

fn container(installation: &Installation<'_>, parts: &Parts) -> Value {
    let pod = &installation.arguments.pod;
    let probe = |path: &str, period: u32, failures: u32| {
        let request = json!({ "path": path, "port": "metrics" });
        json!({ "httpGet": request, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures })
    };
    let resources = quantity::requirements(
        [&pod.velero_pod_cpu_request, &pod.velero_pod_mem_request],
        [&pod.velero_pod_cpu_limit, &pod.velero_pod_mem_limit],
    );
    let mut container = pod::container(installation, SERVER, &arguments(installation), parts, &resources);
    if let Some(ports) = container["ports"].as_array_mut().filter(|_| installation.arguments.server.web) {
        ports.push(json!({ "name": network::WEB_PORT_NAME, "containerPort": network::WEB_PORT }));
    }
    // Cleaning up what a server before it left takes its time when a store does not answer.
    container["startupProbe"] = probe("/readyz", 1, 600);
    container["readinessProbe"] = probe("/readyz", 5, 3);
    container["livenessProbe"] = probe("/healthz", 30, 5);
    container["securityContext"] = json!({
        "runAsNonRoot": true,
        "readOnlyRootFilesystem": true,
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
    });
    container
}

/// What the init container of a plugin may do: copy a file. Many images name no user, so they would run as root.
pub(crate) fn plugin_rights() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": USER,
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
    })
}

/// The init containers that bring plugins.
fn plugin_containers(installation: &Installation<'_>) -> Vec<Value> {
    let pod = &installation.arguments.pod;
    let mut names: Vec<String> = Vec::new();
    let images = pod.plugins.iter().flat_map(|list| &list.0).filter(|image| !image.is_empty());
    images
        .map(|image| {
            let taken: Vec<&str> = names.iter().map(String::as_str).collect();
            let name = container_name(image, &taken, &format!("{:05}", taken.len()));
            names.push(name.clone());
            json!({
                "name": name,
                "image": image,
                "imagePullPolicy": pod::pull_policy(&pod.image),
                "volumeMounts": [pod::mount("plugins", PLUGIN_FOLDER)],
                "securityContext": plugin_rights(),
            })
        })
        .collect()
}

/// The command line of the server.
fn arguments(installation: &Installation<'_>) -> Vec<String> {
    let flags = installation.arguments.server.flags.given.iter().map(ToString::to_string);
    let features = pod::features(installation);
    ["server".to_owned()].into_iter().chain(features).chain(flags).chain(web_page::flags(installation)).collect()
}

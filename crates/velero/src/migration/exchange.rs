//! The workloads of an installed Velero with our image: all that its owner chose stays.

use serde_json::{Value, json};

use super::plugins::{Needed, is_superfluous};
use super::version::is_of_the_original;
use super::{
    RESTIC_AGENTS, WINDOWS_AGENTS, arguments, containers, flag_values, flags, is_agent, name, server_container, text,
};
use crate::install::INSTALLED_BY;

/// The user that a restricted container of ours runs as is that of the image; this is where it may write.
const SCRATCH: &str = "scratch";
/// The port of metrics and health, unless a flag names another.
const PORT: u64 = 8085;

/// How the label of our chart begins; Velero's own has had higher numbers for years.
const OUR_CHART: &str = concat!("velero-", env!("CARGO_PKG_VERSION_MAJOR"), ".");

/// Whether a workload is one of ours: of our commands, or of our chart. One that runs the original came back by another way
/// than it went, and has kept its marks.
pub(crate) fn is_ours(workload: &Value) -> bool {
    let annotations = workload["metadata"]["annotations"].as_object();
    let is_marked = annotations.is_some_and(|annotations| annotations.contains_key(INSTALLED_BY))
        || text(workload, "/metadata/labels/helm.sh~1chart").starts_with(OUR_CHART);
    is_marked && !containers(workload, "containers").any(|container| is_of_the_original(text(container, "/image")))
}

/// A workload without what the API server adds.
pub(crate) fn cleaned(workload: &Value) -> Value {
    let mut cleaned = workload.clone();
    if let Some(object) = cleaned.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = cleaned["metadata"].as_object_mut() {
        for field in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"] {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("deployment.kubernetes.io/revision");
            annotations.remove("deprecated.daemonset.template.generation");
        }
    }
    cleaned
}

/// The Deployment of a server, with our image in it.
pub(crate) fn exchanged_server(deployment: &Value, image: &str, needed: &Needed) -> Value {
    let mut exchanged = marked(deployment);
    // Two servers of two programs must not work side by side.
    exchanged["spec"]["strategy"] = json!({ "type": "Recreate" });
    let port = server_container(deployment).map_or(PORT, |container| metrics_port(&arguments(container)));
    let pod = &mut exchanged["spec"]["template"]["spec"];
    if let Some(containers) = pod["initContainers"].as_array_mut() {
        containers.retain(|container| !is_superfluous(text(container, "/image"), needed));
        if containers.is_empty() {
            pod["initContainers"] = Value::Null;
        }
    }
    give_folder_for_sockets(pod);
    let containers = pod["containers"].as_array_mut().into_iter().flatten();
    for container in containers.filter(|container| container["name"] == super::SERVER) {
        put_image(container, image);
        let probe = |path: &str, period: u32, failures: u32| {
            let request = json!({ "path": path, "port": port });
            json!({ "httpGet": request, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures })
        };
        for (name, probe) in [
            ("startupProbe", probe("/readyz", 1, 600)),
            ("readinessProbe", probe("/readyz", 5, 3)),
            ("livenessProbe", probe("/healthz", 30, 5)),
        ] {
            if container[name].is_null() {
                container[name] = probe;
            }
        }
    }
    exchanged
}

/// The DaemonSet of node agents, with our image in it.
pub(crate) fn exchanged_agents(daemon_set: &Value, image: &str) -> Value {
    let mut exchanged = marked(daemon_set);
    let pod = &mut exchanged["spec"]["template"]["spec"];
    for container in pod["containers"].as_array_mut().into_iter().flatten() {
        if is_agent(container) {
            put_image(container, image);
        }
    }
    exchanged
}

/// Whether a DaemonSet is replaced by ours, whatever it is called: there are none for Windows, and restic is not known.
pub(crate) fn is_replaced(daemon_set: &Value) -> bool {
    let system = &daemon_set["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/os"];
    let stays = [WINDOWS_AGENTS, RESTIC_AGENTS].contains(&name(daemon_set)) || *system == "windows";
    !stays && containers(daemon_set, "containers").any(is_agent)
}

fn marked(workload: &Value) -> Value {
    let mut marked = workload.clone();
    let by = concat!("velero-rust v", env!("CARGO_PKG_VERSION"));
    match marked["metadata"]["annotations"].as_object_mut() {
        Some(annotations) => drop(annotations.insert(INSTALLED_BY.to_owned(), json!(by))),
        None => marked["metadata"]["annotations"] = json!({ INSTALLED_BY: by }),
    }
    marked
}

fn put_image(container: &mut Value, image: &str) {
    // They may stand behind the program, where its command is written next.
    let kept = flags::usable(&arguments(container));
    container["image"] = json!(image);
    container["command"] = json!(["/velero"]);
    container["args"] = json!(kept);
}

/// Our image has no folder to write to, and plugins put their sockets into /tmp.
fn give_folder_for_sockets(pod: &mut Value) {
    let has_scratch = |volume: &Value| volume["name"] == SCRATCH;
    if !pod["volumes"].as_array().is_some_and(|volumes| volumes.iter().any(has_scratch)) {
        let volume = json!({ "name": SCRATCH, "emptyDir": {} });
        match pod["volumes"].as_array_mut() {
            Some(volumes) => volumes.push(volume),
            None => pod["volumes"] = json!([volume]),
        }
    }
    let servers = pod["containers"].as_array_mut().into_iter().flatten();
    for container in servers.filter(|container| container["name"] == super::SERVER) {
        let mount = json!({ "name": SCRATCH, "mountPath": "/tmp" });
        match container["volumeMounts"].as_array_mut() {
            Some(mounts) if mounts.iter().any(|mount| mount["mountPath"] == "/tmp") => {}
            Some(mounts) => mounts.push(mount),
            None => container["volumeMounts"] = json!([mount]),
        }
    }
}

/// The port in a flag such as `--metrics-address=:8085`.
fn metrics_port(arguments: &[String]) -> u64 {
    let addresses = flag_values(arguments, "metrics-address");
    addresses.last().and_then(|address| address.rsplit(':').next()?.parse().ok()).unwrap_or(PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({
            "metadata": {"name": "velero", "resourceVersion": "1", "uid": "u", "labels": {"component": "velero"}},
            "spec": {
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
                "template": {"spec": {
                    "serviceAccountName": "own", "nodeSelector": {"a": "b"},
                    "initContainers": [
                        {"name": "aws", "image": "velero/velero-plugin-for-aws:v1.14.3"},
                        {"name": "own", "image": "example.com/own:v1"},
                    ],
                    "containers": [
                        {"name": "sidecar", "image": "s"},
                        {
                            "name": "velero", "image": "velero/velero:v1.18.3", "command": ["/velero"],
                            "args": ["server", "--features=", "--metrics-address=:9000", "--gone=1"],
                            "env": [{"name": "HTTPS_PROXY", "value": "p"}],
                        },
                    ],
                }},
            },
            "status": {"replicas": 1},
        })
    }

    #[test]
    fn a_server_keeps_all_that_its_owner_chose() {
        let exchanged = exchanged_server(&deployment(), "ours:v1", &Needed::default());
        assert!(is_ours(&exchanged) && !is_ours(&deployment()));
        assert_eq!(exchanged["spec"]["strategy"], json!({"type": "Recreate"}));
        let pod = &exchanged["spec"]["template"]["spec"];
        assert_eq!(pod["initContainers"], json!([{"name": "own", "image": "example.com/own:v1"}]));
        assert_eq!(pod["nodeSelector"], json!({"a": "b"}));
        assert_eq!(pod["containers"][0], json!({"name": "sidecar", "image": "s"}));
        let server = &pod["containers"][1];
        assert_eq!(server["image"], "ours:v1");
        assert_eq!(server["args"], json!(["server", "--features=", "--metrics-address=:9000"]));
        assert_eq!(server["env"][0]["name"], "HTTPS_PROXY");
        assert_eq!(server["readinessProbe"]["httpGet"]["port"], 9000);
        assert_eq!(server["volumeMounts"], json!([{"name": "scratch", "mountPath": "/tmp"}]));
        assert_eq!(exchanged["metadata"]["resourceVersion"], "1", "who wrote in between must be noticed");
    }

    #[test]
    fn a_server_is_asked_for_its_health_where_its_flags_say() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (given, port) in [
            ("server", 8085),
            ("server --metrics-address=:9000", 9000),
            ("server --metrics-address 0.0.0.0:9001 --log-level debug", 9001),
            ("server --metrics-address=:1 --metrics-address=:2", 2),
        ] {
            assert_eq!(metrics_port(&words(given)), port, "{given}");
        }
    }

    #[test]
    fn a_server_of_our_chart_is_ours_and_one_of_veleros_is_not() {
        let of = |chart: &str| json!({"metadata": {"name": "velero", "labels": {"helm.sh/chart": chart}}});
        assert!(is_ours(&of(concat!("velero-", env!("CARGO_PKG_VERSION")))));
        assert!(!is_ours(&of("velero-12.1.0")) && !is_ours(&of("velero-ui-0.1.0")));
    }

    #[test]
    fn a_velero_that_came_back_by_another_way_is_not_ours() {
        let running = |image: &str| {
            let mut back = exchanged_server(&deployment(), "ghcr.io/velero-rust/velero:v0.1.0", &Needed::default());
            back["spec"]["template"]["spec"]["containers"][1]["image"] = json!(image);
            is_ours(&back)
        };
        for (image, ours) in [
            ("ghcr.io/velero-rust/velero:v0.1.0", true),
            ("registry.example.com/velero:v0.1.0", true),
            ("velero/velero:v1.18.3", false),
            ("docker.io/velero/velero@sha256:ab", false),
        ] {
            assert_eq!(running(image), ours, "{image}");
        }
    }

    #[test]
    fn a_workload_is_kept_without_what_the_api_server_adds() {
        let kept = cleaned(&deployment());
        assert_eq!(kept["metadata"], json!({"name": "velero", "labels": {"component": "velero"}}));
        assert!(kept["status"].is_null() && kept["spec"] == deployment()["spec"]);
    }

    #[test]
    fn a_server_whose_command_holds_its_flags_keeps_them() {
        let mut given = deployment();
        let container = &mut given["spec"]["template"]["spec"]["containers"][1];
        container["command"] = json!(["/velero", "server", "--metrics-address", ":9000"]);
        container["args"] = json!(["--log-level=debug", "--gone=1"]);
        let exchanged = exchanged_server(&given, "ours:v1", &Needed::default());
        let server = &exchanged["spec"]["template"]["spec"]["containers"][1];
        assert_eq!(server["command"], json!(["/velero"]));
        assert_eq!(server["args"], json!(["server", "--metrics-address", ":9000", "--log-level=debug"]));
        assert_eq!(server["readinessProbe"]["httpGet"]["port"], 9000);
    }

    #[test]
    fn node_agents_are_replaced_whatever_they_are_called() {
        let agents = |name: &str, words: Value, system: &str| {
            json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
                "nodeSelector": {"kubernetes.io/os": system}, "containers": [{"name": "other"}, {"name": "agent", "args": words}],
            }}}})
        };
        let words = json!(["node-agent", "server"]);
        for (name, words, system, expected) in [
            ("node-agent", words.clone(), "linux", true),
            ("backup-agents", words.clone(), "linux", true),
            ("backup-agents", words.clone(), "windows", false),
            ("node-agent-windows", words, "linux", false),
            ("restic", json!(["restic", "server"]), "linux", false),
            ("node-agent", json!(["other"]), "linux", false),
        ] {
            assert_eq!(is_replaced(&agents(name, words, system)), expected, "{name} {system}");
        }
    }

    #[test]
    fn node_agents_get_our_image_and_keep_their_mounts() {
        let agents = json!({"metadata": {"name": "node-agent"}, "spec": {"template": {"spec": {"containers": [
            {"name": "node-agent", "image": "velero/velero:v1.18.3", "args": ["node-agent", "server", "--odd=1"], "volumeMounts": [1]},
            {"name": "other", "image": "o"},
        ]}}}});
        let exchanged = exchanged_agents(&agents, "ours:v1");
        let containers = &exchanged["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["image"], "ours:v1");
        assert_eq!(containers[0]["args"], json!(["node-agent", "server"]));
        assert_eq!((&containers[0]["volumeMounts"], &containers[1]["image"]), (&json!([1]), &json!("o")));
        assert!(is_ours(&exchanged));
    }
}

//! What movers have from the DaemonSet of the agents: image, credentials, certificates, where to look up names.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use velero_cluster::{ResourceType, types};

use crate::node_agent::settings::Settings;
use crate::runtime::error::{Error, Result};
use crate::runtime::objects::Objects;

/// The DaemonSet of the agents, and the container of the agent in it.
pub(crate) const DAEMON_SET: &str = "node-agent";
/// The account that may do what movers need and nothing else, where an installation has it.
const MOVER_ACCOUNT: &str = "velero-data-mover";
/// Volumes of the agent that show it all pods of the node: no mover gets them.
const OF_THE_AGENT_ALONE: [&str; 2] = ["host-pods", "host-plugins"];
/// The label and the annotation by which clouds give pods an identity.
const IDENTITY_LABEL: &str = "azure.workload.identity/use";
const IDENTITY_ANNOTATION: &str = "iam.amazonaws.com/role";
/// How long what was read is used: many movers start at once.
const KEPT: Duration = Duration::from_secs(10);

static DAEMON_SETS: LazyLock<ResourceType> =
    LazyLock::new(|| ResourceType::new("apps/v1", "DaemonSet", "daemonsets", true));

/// What movers have from the DaemonSet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited {
    pub(crate) image: String,
    pub(crate) service_account: String,
    pub(crate) environment: Vec<Value>,
    pub(crate) mounts: Vec<Value>,
    pub(crate) volumes: Vec<Value>,
    pub(crate) log_flags: Vec<String>,
    pub(crate) labels: Map<String, Value>,
    pub(crate) annotations: Map<String, Value>,
    /// The folder in which the kubelet keeps the volumes of pods, on the node.
    pub(crate) host_pods: String,
    /// Fields of the pod that are taken over as they are.
    pub(crate) pod: Map<String, Value>,
    /// Fields of the container that are taken over as they are.
    pub(crate) container: Map<String, Value>,
}

/// What was read last.
#[derive(Default)]
pub(crate) struct InheritedPod(tokio::sync::Mutex<Option<(Instant, Arc<Inherited>)>>);

impl InheritedPod {
    /// What movers have from the DaemonSet, as it is now.
    pub(crate) async fn get(&self, objects: &Objects, settings: &Settings) -> Result<Arc<Inherited>> {
        let mut kept = self.0.lock().await;
        if let Some((read, inherited)) = kept.as_ref()
            && read.elapsed() < KEPT
        {
            return Ok(inherited.clone());
        }
        let inherited = Arc::new(read(objects, settings).await?);
        *kept = Some((Instant::now(), inherited.clone()));
        Ok(inherited)
    }
}

async fn read(objects: &Objects, settings: &Settings) -> Result<Inherited> {
    let (cluster, namespace) = (objects.cluster(), objects.namespace());
    let found = cluster.get(DAEMON_SETS.item(Some(namespace), DAEMON_SET)).await?;
    let mut inherited = match &found {
        Some(daemon_set) => of_template(&daemon_set["spec"]["template"]),
        None => Inherited { log_flags: own_log_flags(settings), ..Inherited::default() },
    };
    if !settings.mover_image.is_empty() {
        inherited.image.clone_from(&settings.mover_image);
    }
    if inherited.image.is_empty() {
        let problem = format!(
            "it does not exist in namespace {namespace:?}, so there is no image for the pods that move data; install it \
             with `velero install --use-node-agent`, or name an image with --mover-image"
        );
        return Err(Error::unmet("DaemonSet", DAEMON_SET, problem));
    }
    if inherited.host_pods.is_empty() {
        inherited.host_pods = settings.host_pods.display().to_string();
    }
    if cluster.get(types::SERVICE_ACCOUNTS.item(Some(namespace), MOVER_ACCOUNT)).await?.is_some() {
        MOVER_ACCOUNT.clone_into(&mut inherited.service_account);
    }
    Ok(inherited)
}

fn own_log_flags(settings: &Settings) -> Vec<String> {
    let log = &settings.log;
    vec![format!("--log-level={}", log.log_level), format!("--log-format={}", log.log_format.as_str())]
}

/// The container of the agent, beside which somebody may have put others.
fn agent_container(pod: &Value) -> &Value {
    let mut containers = pod["containers"].as_array().into_iter().flatten();
    containers.find(|container| container["name"] == DAEMON_SET).unwrap_or(&pod["containers"][0])
}

fn of_template(template: &Value) -> Inherited {
    let (pod, container) = (&template["spec"], agent_container(&template["spec"]));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_shared = |item: &&Value| !OF_THE_AGENT_ALONE.contains(&item["name"].as_str().unwrap_or_default());
    let volumes = list(&pod["volumes"]);
    let host_pods = volumes.iter().find(|volume| volume["name"] == OF_THE_AGENT_ALONE[0]);
    Inherited {
        image: text(&container["image"]),
        service_account: text(&pod["serviceAccountName"]),
        environment: list(&container["env"]),
        mounts: list(&container["volumeMounts"]).iter().filter(is_shared).cloned().collect(),
        log_flags: log_flags(&list(&container["args"])),
        labels: only(&template["metadata"]["labels"], &[IDENTITY_LABEL]),
        annotations: only(&template["metadata"]["annotations"], &[IDENTITY_ANNOTATION]),
        host_pods: host_pods.map(|volume| text(&volume["hostPath"]["path"])).unwrap_or_default(),
        volumes: volumes.iter().filter(is_shared).cloned().collect(),
        pod: only(pod, &["dnsPolicy", "dnsConfig", "hostAliases", "imagePullSecrets", "tolerations"]),
        container: only(container, &["envFrom"]),
    }
}

fn only(object: &Value, keys: &[&str]) -> Map<String, Value> {
    let found = keys.iter().map(|key| (*key, &object[*key])).filter(|(_, value)| !value.is_null());
    found.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// The flags of the log, written as one word or as two.
fn log_flags(arguments: &[Value]) -> Vec<String> {
    let words: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
    let mut flags = Vec::new();
    for (place, word) in words.iter().enumerate() {
        match *word {
            "--log-level" | "--log-format" => {
                flags.extend(words.get(place + 1).map(|value| format!("{word}={value}")));
            }
            word if word.starts_with("--log-level=") || word.starts_with("--log-format=") => {
                flags.push(word.to_owned());
            }
            _ => {}
        }
    }
    flags
}

/// A variable of that name, unless it is inherited.
pub(super) fn missing_variable(inherited: &Inherited, name: &str, value: &str) -> Option<Value> {
    let is_there = inherited.environment.iter().any(|variable| variable["name"] == name);
    (!is_there).then(|| json!({ "name": name, "value": value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movers_inherit_all_but_what_shows_the_pods_of_the_node() {
        let template = json!({
            "metadata": { "labels": { "name": "node-agent", "azure.workload.identity/use": "true" } },
            "spec": {
                "serviceAccountName": "velero", "dnsPolicy": "ClusterFirst", "hostNetwork": true,
                "hostAliases": [{ "ip": "10.0.0.1", "hostnames": ["store.example.com"] }],
                "tolerations": [{ "key": "CriticalAddonsOnly", "operator": "Exists" }],
                "containers": [{
                    "image": "velero:1", "args": ["node-agent", "server", "--log-format", "json", "--log-level=debug"],
                    "env": [{ "name": "A", "value": "b" }], "envFrom": [{ "secretRef": { "name": "s" } }],
                    "volumeMounts": [
                        { "name": "host-pods", "mountPath": "/host_pods" },
                        { "name": "cloud-credentials", "mountPath": "/credentials" },
                    ],
                }],
                "volumes": [
                    { "name": "host-pods", "hostPath": { "path": "/data/kubelet/pods" } },
                    { "name": "host-plugins", "hostPath": { "path": "/data/kubelet/plugins" } },
                    { "name": "cloud-credentials", "secret": { "secretName": "cloud-credentials" } },
                ],
            },
        });
        let inherited = of_template(&template);
        assert_eq!((inherited.image.as_str(), inherited.service_account.as_str()), ("velero:1", "velero"));
        assert_eq!(inherited.host_pods, "/data/kubelet/pods");
        assert_eq!(inherited.log_flags, ["--log-format=json", "--log-level=debug"]);
        assert_eq!(inherited.volumes.len(), 1);
        assert_eq!(inherited.mounts, [json!({ "name": "cloud-credentials", "mountPath": "/credentials" })]);
        assert_eq!(inherited.pod.keys().collect::<Vec<_>>(), ["dnsPolicy", "hostAliases", "tolerations"]);
        assert!(inherited.container.contains_key("envFrom") && inherited.annotations.is_empty());
        assert_eq!(inherited.labels.keys().collect::<Vec<_>>(), ["azure.workload.identity/use"]);
    }

    #[test]
    fn the_container_of_the_agent_counts_wherever_it_stands() {
        let (agent, beside) =
            (json!({ "name": "node-agent", "image": "velero:1" }), json!({ "name": "proxy", "image": "p:1" }));
        for containers in [json!([&agent, &beside]), json!([&beside, &agent]), json!([{ "image": "velero:1" }])] {
            let image = of_template(&json!({ "spec": { "containers": containers } })).image;
            assert_eq!(image, "velero:1", "{containers}");
        }
        assert_eq!(of_template(&json!({})).image, "");
    }
}

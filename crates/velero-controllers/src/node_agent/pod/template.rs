//! From what a transfer needs to the pod that carries it out.

use serde_json::{Map, Value, json};
use velero_api::labels;
use velero_cluster::types::PODS;

use super::inherited::{Inherited, missing_variable};
use super::rights::{self, Access};
use crate::node_agent::agent::Agent;
use crate::node_agent::resources;
use crate::node_agent::transfer::Owner;
use crate::runtime::error::{Error, Result};

/// The volume for what a restore has read of its repository.
const CACHE_VOLUME: &str = "cachedir";
/// Where movers may write.
const WRITABLE: [(&str, &str); 2] = [("scratch", "/scratch"), ("mover-tmp", "/tmp")];

/// What a transfer needs of its pod.
pub(crate) struct Mover<'a> {
    pub(crate) owner: &'a Owner,
    /// The label that says for whom the pod works.
    pub(crate) label: &'static str,
    /// The two words of the command behind `velero`.
    pub(crate) command: [&'static str; 2],
    /// The flag that names the object it works for.
    pub(crate) flag: &'static str,
    pub(crate) access: Access,
    /// Where its volume comes from.
    pub(crate) volume: Value,
    pub(crate) attachment: Attachment,
    /// Whether it is told that its volume is a device or not.
    pub(crate) tells_mode: bool,
    /// The claim of the cache, for restores: none where it has no volume of its own.
    pub(crate) cache_claim: Option<String>,
    pub(crate) is_privileged: bool,
    pub(crate) leaves_labels: bool,
    pub(crate) resource_timeout: velero_api::GoDuration,
    pub(crate) placement: Placement,
}

/// How a mover sees its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// As a folder of the node, with what is mounted below it.
    HostFolder,
    /// As a file system.
    FileSystem {
        /// Whether the volume itself can only be read.
        read_only: bool,
    },
    /// As a device.
    Device,
}

impl Attachment {
    /// How a mover sees a claim of that volume mode.
    pub(crate) fn of_mode(mode: &str, read_only: bool) -> Self {
        if mode == "Block" { Self::Device } else { Self::FileSystem { read_only } }
    }
}

/// Where a mover runs.
#[derive(Clone, Debug)]
pub(crate) enum Placement {
    /// On that node, without asking the scheduler.
    Node(String),
    /// Where the scheduler puts it: affinity, and the group it is spread with.
    Scheduled { affinity: Value, group: &'static str },
}

impl Mover<'_> {
    /// Makes the pod; one that is there already must belong to the same owner.
    pub(crate) async fn create(&self, agent: &Agent) -> Result<()> {
        let inherited = agent.inherited().await?;
        let pod = self.pod(agent, &inherited);
        let item = PODS.item(Some(&self.owner.namespace), &self.owner.name);
        let made = resources::create(agent.objects.cluster(), item, &pod).await?;
        match resources::belongs_to(&made, &self.owner.uid) {
            true => Ok(()),
            false => {
                let problem = "a pod of this name is there and belongs to something else; remove it and try again";
                Err(Error::unmet("Pod", &self.owner.name, problem))
            }
        }
    }

    fn pod(&self, agent: &Agent, inherited: &Inherited) -> Value {
        let mut labels = map(&agent.config.pod_labels);
        if labels.is_empty() {
            labels.clone_from(&inherited.labels);
        }
        labels.insert(self.label.to_owned(), json!(labels::valid_value(&self.owner.name)));
        labels.insert(labels::EXCLUDE_FROM_BACKUP.to_owned(), json!("true"));
        let mut annotations = map(&agent.config.pod_annotations);
        if annotations.is_empty() {
            annotations.clone_from(&inherited.annotations);
        }
        if let Placement::Scheduled { group, .. } = &self.placement {
            labels.insert(labels::EXPOSER_POD_GROUP.to_owned(), json!(group));
        }
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.owner.name, "namespace": self.owner.namespace, "labels": labels,
                "annotations": annotations, "ownerReferences": [self.owner.reference()],
            },
            "spec": self.spec(agent, inherited),
        })
    }

    fn spec(&self, agent: &Agent, inherited: &Inherited) -> Value {
        let mut volumes = vec![with_name(&self.owner.uid, &self.volume)];
        let claim = self.cache_claim.as_ref();
        volumes.extend(
            claim.map(|claim| json!({ "name": CACHE_VOLUME, "persistentVolumeClaim": { "claimName": claim } })),
        );
        volumes.extend(inherited.volumes.iter().cloned());
        volumes.extend(missing_folders(inherited).map(|(name, _)| json!({ "name": name, "emptyDir": {} })));
        let mut spec = inherited.pod.clone();
        let fields = json!({
            "containers": [self.container(agent, inherited)],
            "volumes": volumes,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "os": { "name": "linux" },
            "securityContext": rights::of_pod(self.leaves_labels),
        });
        spec.extend(object(fields));
        if !inherited.service_account.is_empty() {
            spec.insert("serviceAccountName".to_owned(), json!(inherited.service_account));
        }
        if !agent.config.priority_class_name.is_empty() {
            spec.insert("priorityClassName".to_owned(), json!(agent.config.priority_class_name));
        }
        spec.extend(self.placed());
        Value::Object(spec)
    }

    fn placed(&self) -> Map<String, Value> {
        object(match &self.placement {
            Placement::Node(node) => json!({ "nodeName": node }),
            Placement::Scheduled { affinity, group } => json!({
                "affinity": affinity,
                "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": { "matchLabels": { labels::EXPOSER_POD_GROUP: group } },
                }],
            }),
        })
    }

    fn container(&self, agent: &Agent, inherited: &Inherited) -> Value {
        let path = self.path();
        let mut mounts = inherited.mounts.clone();
        mounts.extend(missing_folders(inherited).map(|(name, path)| json!({ "name": name, "mountPath": path })));
        mounts.extend(self.cache_claim.as_ref().map(|_| json!({ "name": CACHE_VOLUME, "mountPath": cache_path() })));
        let mut environment = inherited.environment.clone();
        environment.extend(missing_variable(inherited, "VELERO_NAMESPACE", agent.objects.namespace()));
        environment.extend(missing_variable(inherited, "NODE_NAME", agent.node()));
        environment.extend(missing_variable(inherited, "VELERO_SCRATCH_DIR", WRITABLE[0].1));
        let mut container = inherited.container.clone();
        let resources = &agent.config.pod_resources;
        let fields = json!({
            "name": self.owner.uid,
            "image": inherited.image,
            // The agent of the node runs the same image; one that a DaemonSet has not rolled out yet is fetched.
            "imagePullPolicy": "IfNotPresent",
            "command": ["/velero", self.command[0], self.command[1]],
            "args": self.arguments(&path, inherited),
            "env": environment,
            "resources": { "requests": resources.requests, "limits": resources.limits },
            "securityContext": rights::of_container(self.access, self.is_privileged),
            "terminationMessagePolicy": "File",
        });
        container.extend(object(fields));
        match self.attachment {
            Attachment::Device => {
                container.insert("volumeDevices".to_owned(), json!([{ "name": self.owner.uid, "devicePath": path }]));
            }
            Attachment::FileSystem { read_only } => {
                mounts.push(json!({ "name": self.owner.uid, "mountPath": path, "readOnly": read_only }));
            }
            Attachment::HostFolder => mounts.push(json!({
                "name": self.owner.uid, "mountPath": path, "readOnly": self.access == Access::Read,
                "mountPropagation": "HostToContainer",
            })),
        }
        container.insert("volumeMounts".to_owned(), json!(mounts));
        Value::Object(container)
    }

    /// Where the mover sees its volume.
    fn path(&self) -> String {
        format!("/{}", self.owner.uid)
    }

    fn arguments(&self, path: &str, inherited: &Inherited) -> Vec<String> {
        let mut arguments = vec![format!("--volume-path={path}")];
        if self.tells_mode {
            let mode = if self.attachment == Attachment::Device { "Block" } else { "Filesystem" };
            arguments.push(format!("--volume-mode={mode}"));
        }
        arguments.push(format!("--{}={}", self.flag, self.owner.name));
        arguments.push(format!("--resource-timeout={}", self.resource_timeout));
        if self.access == Access::Write {
            let cache = self.cache_claim.as_ref().map(|_| cache_path()).unwrap_or_default();
            arguments.push(format!("--cache-volume-path={cache}"));
        }
        arguments.extend(inherited.log_flags.iter().cloned());
        arguments
    }
}

fn cache_path() -> String {
    format!("/{CACHE_VOLUME}")
}

/// Folders movers write to that the DaemonSet gives them no volume for.
fn missing_folders(inherited: &Inherited) -> impl Iterator<Item = (&'static str, &'static str)> {
    let has = |path: &str| inherited.mounts.iter().any(|mount| mount["mountPath"] == path);
    WRITABLE.into_iter().filter(move |(_, path)| !has(path))
}

fn with_name(name: &str, volume: &Value) -> Value {
    let mut volume = volume.clone();
    volume["name"] = json!(name);
    volume
}

fn map(pairs: &std::collections::BTreeMap<String, String>) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

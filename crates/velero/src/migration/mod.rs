//! What becomes of an installed Velero: which of its objects work at once, which differ, which are missing here, and what
//! its workloads look like with our image. Nothing here touches a cluster.

mod account;
mod assess;
mod exchange;
mod flags;
mod helm;
mod keeper;
mod plugins;
mod version;

use serde::Serialize;
use serde_json::Value;

pub(crate) use account::annotations_for_movers;
pub(crate) use assess::assess;
pub(crate) use exchange::{cleaned, exchanged_agents, exchanged_server, is_ours, is_replaced};
pub(crate) use helm::Release;
pub(crate) use keeper::keepers;
pub(crate) use plugins::Needed;
pub(crate) use version::{is_of_the_original, refused_version};

/// What was found in the namespace of an installed Velero, as the API server tells it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Installed {
    /// The Deployments with a container of the server.
    pub(crate) servers: Vec<Value>,
    /// The DaemonSets of node agents.
    pub(crate) agents: Vec<Value>,
    /// All ConfigMaps.
    pub(crate) config_maps: Vec<Value>,
    /// All ServiceAccounts.
    pub(crate) accounts: Vec<Value>,
    /// Velero's own objects.
    pub(crate) schedules: Vec<Value>,
    pub(crate) backups: Vec<Value>,
    pub(crate) restores: Vec<Value>,
    pub(crate) locations: Vec<Located>,
    pub(crate) snapshot_locations: Vec<Value>,
    pub(crate) repositories: Vec<Value>,
    pub(crate) pod_volume_backups: Vec<Value>,
    pub(crate) data_uploads: Vec<Value>,
    /// What Helm has installed there.
    pub(crate) releases: Vec<Release>,
    /// What may not be read.
    pub(crate) unread: Vec<Unread>,
}

impl Installed {
    /// Whether all objects of a kind could be read. Where not, nothing is said of others that counts on knowing them.
    fn knows(&self, kind: &str) -> bool {
        !self.unread.iter().any(|unread| unread.object.split('/').next() == Some(kind))
    }
}

/// A kind of objects, or one of them such as `BackupStorageLocation/default`, that may not be read.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    pub(crate) object: String,
    pub(crate) reason: String,
}

/// A backup storage location, and what is wrong with its description.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) object: Value,
    pub(crate) refusal: Option<String>,
}

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Verdict {
    /// It keeps this Velero from being replaced.
    Refused,
    /// It does not work here.
    Missing,
    /// It works, and something is otherwise.
    Differs,
    /// It works as it is.
    Works,
}

/// What is said about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    /// The object, such as `Schedule/daily`.
    pub(crate) object: String,
    pub(crate) verdict: Verdict,
    /// Why, and what to do.
    pub(crate) detail: String,
}

impl Line {
    fn new(object: impl Into<String>, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { object: object.into(), verdict, detail: detail.into() }
    }
}

/// The text at a path of a document; nothing is an empty one.
fn text<'a>(document: &'a Value, path: &str) -> &'a str {
    document.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The containers of a workload: those that run, or those that come first.
fn containers<'a>(workload: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    let pod = &workload["spec"]["template"]["spec"];
    pod[list].as_array().into_iter().flatten()
}

/// The arguments of a container, wherever they stand: some write them behind the program, some write flags before the command.
fn arguments(container: &Value) -> Vec<String> {
    let words = |field: &str| container[field].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut words: Vec<String> = words("command").skip(1).chain(words("args")).map(str::to_owned).collect();
    let before = flags::before_command(&words);
    let command = words[before..].iter().take_while(|word| !word.starts_with('-')).count();
    words[..before + command].rotate_left(before);
    words
}

/// What a container runs that is not Velero's program, such as a shell around it. Without a command the image decides.
fn foreign_program(container: &Value) -> Option<&str> {
    let program = text(container, "/command/0");
    let name = program.rsplit('/').next().unwrap_or(program);
    (!name.is_empty() && name != PROGRAM).then_some(program)
}

/// The values that arguments give a flag, in both ways to write one.
fn flag_values<'a>(arguments: &'a [String], flag: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    for (place, word) in arguments.iter().enumerate().filter(|(_, word)| word.starts_with('-')) {
        let Some(rest) = word.trim_start_matches('-').strip_prefix(flag) else { continue };
        match rest.strip_prefix('=') {
            Some(value) => values.push(value),
            None if rest.is_empty() => values.extend(arguments.get(place + 1).map(String::as_str)),
            None => {}
        }
    }
    values
}

/// The container of a server.
const SERVER: &str = "velero";
/// Velero's program, in servers and node agents.
const PROGRAM: &str = "velero";
/// Its command for servers.
const SERVER_COMMAND: &str = "server";
/// Its command for node agents.
const AGENT: &str = "node-agent";
/// The DaemonSet of node agents on Windows.
const WINDOWS_AGENTS: &str = "node-agent-windows";
/// The DaemonSet of agents before 1.10.
const RESTIC_AGENTS: &str = "restic";

fn server_container(deployment: &Value) -> Option<&Value> {
    containers(deployment, "containers").find(|container| container["name"] == SERVER)
}

/// The container of node agents, which others may stand beside.
fn agent_container(daemon_set: &Value) -> Option<&Value> {
    containers(daemon_set, "containers").find(|container| is_agent(container))
}

/// Whether a container is that of a node agent.
fn is_agent(container: &Value) -> bool {
    foreign_program(container).is_none() && arguments(container).first().is_some_and(|word| word == AGENT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_found_behind_the_program_too() {
        for (container, words, foreign) in [
            (json!({"args": ["server", "--a"]}), &["server", "--a"][..], None),
            (json!({"command": ["/velero"], "args": ["server"]}), &["server"], None),
            (json!({"command": ["velero", "server"], "args": ["--a"]}), &["server", "--a"], None),
            (json!({"command": ["/velero", "server", "--a"]}), &["server", "--a"], None),
            (json!({"command": ["/bin/sh", "-c", "/velero server"]}), &["-c", "/velero server"], Some("/bin/sh")),
            (
                json!({"args": ["-n", "server", "--v=4", "server", "--a"]}),
                &["server", "-n", "server", "--v=4", "--a"],
                None,
            ),
            (
                json!({"args": ["--logtostderr", "node-agent", "server"]}),
                &["node-agent", "server", "--logtostderr"],
                None,
            ),
            (json!({}), &[], None),
        ] {
            assert_eq!(arguments(&container), words, "{container}");
            assert_eq!(foreign_program(&container), foreign, "{container}");
        }
    }
}

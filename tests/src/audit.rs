//! What the API server of a box wrote down about the requests that changed something.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use velero_testkit::machine::Machine;

/// The part of the log that is written from now on.
pub struct AuditLog {
    machine: Machine,
    skipped: u64,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// What was asked: `create`, `patch`, `update`, `delete`.
    pub verb: String,
    /// Who asked: the user agent.
    pub agent: String,
    /// As whom: the user.
    pub user: String,
    /// The type of the object, with its group: `deployments.apps`.
    pub resource: String,
    /// The part of the object that was written, such as `status`; empty for the object itself.
    pub part: String,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The name; empty where the server did not learn it.
    pub name: String,
    /// Whether it was only tried: the server checks it and keeps nothing.
    pub tried: bool,
    /// The answer.
    pub code: u64,
    /// When it came in, in microseconds.
    pub received: u64,
    /// When it was answered, in microseconds.
    pub answered: u64,
}

impl Request {
    /// Whether a server with this namespace has written what is its own: its objects, and Events on them.
    pub fn is_own_of(&self, namespace: &str) -> bool {
        let is_event = self.resource == "events.events.k8s.io" && self.namespace == namespace;
        self.resource.ends_with(".velero.io") || is_event
    }
}

impl AuditLog {
    /// Begins to listen.
    pub fn from_now(machine: &Machine) -> Result<Self> {
        let skipped = open(machine)?.metadata()?.len();
        Ok(Self { machine: machine.clone(), skipped })
    }

    /// The requests since, in the order in which they were answered.
    pub fn requests(&self) -> Result<Vec<Request>> {
        let mut log = open(&self.machine)?;
        ensure!(log.metadata()?.len() >= self.skipped, "the API server has begun a new audit log: do less at once");
        log.seek(SeekFrom::Start(self.skipped))?;
        let mut text = String::new();
        log.read_to_string(&mut text)?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| request(&serde_json::from_str(line)?)).collect()
    }

    /// The requests since of programs whose user agent begins like that.
    pub fn requests_of(&self, agent: &str) -> Result<Vec<Request>> {
        Ok(self.requests()?.into_iter().filter(|request| request.agent.starts_with(agent)).collect())
    }
}

/// The most requests that came in within one second, wherever that second begins.
pub fn busiest_second(requests: &[Request]) -> usize {
    let mut times: Vec<u64> = requests.iter().map(|request| request.received).collect();
    times.sort_unstable();
    let within = |begin: usize| times[begin..].iter().take_while(|time| **time < times[begin] + 1_000_000).count();
    (0..times.len()).map(within).max().unwrap_or_default()
}

fn open(machine: &Machine) -> Result<File> {
    let path = machine.state().join("logs/audit.log");
    File::open(&path).with_context(|| format!("cannot open {}", path.display()))
}

fn request(event: &Value) -> Result<Request> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["objectRef"];
    let (resource, group) = (text(&object["resource"]), text(&object["apiGroup"]));
    Ok(Request {
        verb: text(&event["verb"]),
        agent: text(&event["userAgent"]),
        user: text(&event["user"]["username"]),
        resource: if group.is_empty() { resource } else { format!("{resource}.{group}") },
        part: text(&object["subresource"]),
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        tried: event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun=All")),
        code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        received: microseconds(&event["requestReceivedTimestamp"])?,
        answered: microseconds(&event["stageTimestamp"])?,
    })
}

/// Microseconds since 1970 of a time such as `2024-05-01T10:00:00.123456Z`.
fn microseconds(time: &Value) -> Result<u64> {
    let text = time.as_str().context("a request without a time")?;
    let time: jiff::Timestamp = text.parse().with_context(|| format!("{text:?} is no time"))?;
    Ok(time.as_microsecond().try_into()?)
}

//! Restores as tests use them: make one with any server, wait for its end, read what it wrote to the bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};
use velero_testkit::VeleroServer;
use velero_testkit::machine::wait_until;
use velero_testkit::parts::BUCKET;

use crate::backups;

/// What depends on who is faster, the server or the controllers of the cluster: both make these objects.
pub const RACES: &[&str] = &["kube-root-ca.crt", "/default", "EndpointSlice", "Endpoints", "endpointslices"];

/// What every cluster has from its API server and from the installation of Velero: equal but for the owners of its
/// fields, which make a difference for the peer and none for us (docs/compatibility.md).
pub const OF_EVERY_CLUSTER: &[&str] = &[
    "system:",
    "system-",
    ".velero.io",
    "ClusterRole admin",
    "ClusterRole:admin",
    "ClusterRole edit",
    "ClusterRole:edit",
    "ClusterRole view",
    "ClusterRole:view",
    "cluster-admin",
];

/// A Restore with that spec in the server's namespace.
pub fn request(server: &VeleroServer, name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": server.namespace()});
    json!({"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": metadata, "spec": spec})
}

/// Creates a Restore with that spec in the server's namespace.
pub fn create(server: &VeleroServer, name: &str, spec: &Value) -> Result<()> {
    server.machine().apply(&request(server, name, spec).to_string())
}

/// Waits until a restore has ended and gives it.
pub fn ended(server: &VeleroServer, name: &str, deadline: Duration) -> Result<Value> {
    let mut restore = Value::Null;
    wait_until("the restore to end", deadline, || {
        restore = server.object("restores", name)?;
        let phase = restore["status"]["phase"].as_str().unwrap_or("New");
        ensure!(backups::ENDED.contains(&phase), "{name} is {phase}, the server's log: {}", server.log().display());
        Ok(())
    })?;
    Ok(restore)
}

/// Waits until the server has found a backup in its bucket.
pub fn wait_for_backup(server: &VeleroServer, name: &str) -> Result<()> {
    wait_until("the backup to be synced", Duration::from_secs(90), || server.object("backups", name).map(drop))
}

/// What a restore came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The status.
    pub status: Value,
    /// Messages by severity and place: `errors/cluster`, `warnings/namespaces/shop`.
    pub messages: BTreeMap<String, Vec<String>>,
    /// What became of each item: `v1/ConfigMap shop/stock` and `created`.
    pub items: BTreeMap<String, String>,
}

impl Ending {
    /// The phase.
    pub fn phase(&self) -> &str {
        self.status["phase"].as_str().unwrap_or_default()
    }

    /// The items that ended that way, such as `created`.
    pub fn items_that_were(&self, action: &str) -> BTreeSet<&str> {
        self.items.iter().filter(|(_, became)| *became == action).map(|(item, _)| item.as_str()).collect()
    }
}

/// Restores and waits for the end; `prefix` is where the server's location lies in the bucket.
pub fn run(server: &VeleroServer, prefix: &str, name: &str, spec: &Value) -> Result<Ending> {
    create(server, name, spec)?;
    ending(server, prefix, name)
}

/// Waits for a restore's end and reads what it wrote.
pub fn ending(server: &VeleroServer, prefix: &str, name: &str) -> Result<Ending> {
    let status = ended(server, name, Duration::from_secs(300))?["status"].clone();
    if status["phase"] == "FailedValidation" {
        return Ok(Ending { status, messages: BTreeMap::new(), items: BTreeMap::new() });
    }
    let results = file(server, prefix, name, "results.gz")?.context("the restore has no results file")?;
    let list = file(server, prefix, name, "resource-list.json.gz")?.unwrap_or_default();
    Ok(Ending { status, messages: messages(&results), items: items(&list) })
}

/// A compressed JSON file of a restore.
fn file(server: &VeleroServer, prefix: &str, name: &str, kind: &str) -> Result<Option<Value>> {
    let key = format!("{prefix}/restores/{name}/restore-{name}-{kind}");
    let Some(content) = backups::object(server.machine(), BUCKET, &key)? else { return Ok(None) };
    let mut text = String::new();
    MultiGzDecoder::new(content.as_slice()).read_to_string(&mut text).with_context(|| format!("cannot read {key}"))?;
    Ok(Some(serde_json::from_str(&text)?))
}

fn messages(results: &Value) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    let mut add = |place: String, list: &Value| {
        let texts: Vec<String> = list.as_array().into_iter().flatten().map(text).collect();
        if !texts.is_empty() {
            all.insert(place, texts);
        }
    };
    for severity in ["warnings", "errors"] {
        for place in ["velero", "cluster"] {
            add(format!("{severity}/{place}"), &results[severity][place]);
        }
        for (namespace, list) in results[severity]["namespaces"].as_object().into_iter().flatten() {
            add(format!("{severity}/namespaces/{namespace}"), list);
        }
    }
    all
}

fn text(message: &Value) -> String {
    message.as_str().map_or_else(|| message.to_string(), str::to_owned)
}

/// An item of a dry run, named as [`Ending::items`] names it.
pub fn item_key(item: &Value) -> String {
    let text = |field: &str| item[field].as_str().unwrap_or_default();
    let name = match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    };
    format!("{}/{} {name}", text("apiVersion"), text("kind"))
}

/// What the controllers of the cluster make in a new namespace before, or after, the restore gets there.
pub fn is_a_race(item: &str) -> bool {
    let account = item.contains("ServiceAccount") && item.ends_with("/default");
    account || item.ends_with("/kube-root-ca.crt") || item.contains("Endpoint")
}

fn items(list: &Value) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (kind, entries) in list.as_object().into_iter().flatten() {
        for entry in entries.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (name, action) = entry.trim_end_matches(')').rsplit_once('(').unwrap_or((entry, ""));
            all.insert(format!("{kind} {name}"), action.to_owned());
        }
    }
    all
}

/// What two restores of the same things came to differently, one line a difference. `known` are lines about which both
/// may differ: an item or a message that contains one of these words is left out.
pub fn differences(ours: &Ending, theirs: &Ending, known: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    if ours.phase() != theirs.phase() {
        found.push(format!("phase: ours {}, theirs {}", ours.status, theirs.status));
    }
    let named: BTreeSet<&str> = ours.items.keys().chain(theirs.items.keys()).map(|item| object_name(item)).collect();
    let relevant = |text: &str| !known.iter().any(|word| text.contains(word));
    let items: BTreeSet<&String> = ours.items.keys().chain(theirs.items.keys()).collect();
    for item in items.into_iter().filter(|item| relevant(item)) {
        let (became, at_peer) = (ours.items.get(item), theirs.items.get(item));
        if became != at_peer && !stayed_as_it_is(item, ours, theirs) {
            found.push(format!("resource list: {item}: ours {became:?}, theirs {at_peer:?}"));
        }
    }
    let places: BTreeSet<&String> = ours.messages.keys().chain(theirs.messages.keys()).collect();
    for place in places {
        let of = |ending: &Ending| -> Vec<String> {
            ending.messages.get(place).into_iter().flatten().filter(|text| relevant(text)).cloned().collect()
        };
        let (ours, theirs) = (of(ours), of(theirs));
        if ours.len() != theirs.len() || !contains(names_in(&ours, &named), &names_in(&theirs, &named)) {
            found.push(format!("{place}:\n  ours {ours:#?}\n  theirs {theirs:#?}"));
        }
    }
    found
}

/// Whether both left an item as it is that exists and differs, and told so: Velero 1.18 lists it as failed, the version to come
/// and ours as skipped.
fn stayed_as_it_is(item: &str, ours: &Ending, theirs: &Ending) -> bool {
    let is_listed = |ending: &Ending, word: &str| ending.items.get(item).is_some_and(|became| became == word);
    let is_told = |ending: &Ending| {
        let mut messages = ending.messages.values().flatten();
        messages.any(|text| text.contains("already exists") && text.contains(object_name(item)))
    };
    is_listed(ours, "skipped") && is_listed(theirs, "failed") && is_told(ours) && is_told(theirs)
}

fn object_name(item: &str) -> &str {
    item.rsplit(['/', ' ']).next().unwrap_or(item)
}

/// The objects that messages name, once for each message: both servers have their own words, and we name more.
fn names_in<'a>(messages: &[String], named: &BTreeSet<&'a str>) -> Vec<&'a str> {
    let separates = |c: char| !(c.is_ascii_alphanumeric() || "-.:".contains(c));
    let names = |text: &String| -> BTreeSet<&'a str> {
        let words = text.split(separates).flat_map(|word| [word, word.rsplit(':').next().unwrap_or(word)]);
        words.filter_map(|word| named.get(word.trim_end_matches(['.', ':'])).copied()).collect()
    };
    messages.iter().flat_map(names).collect()
}

fn contains(mut all: Vec<&str>, some: &[&str]) -> bool {
    some.iter().all(|name| {
        let at = all.iter().position(|other| other == name);
        at.map(|index| all.swap_remove(index)).is_some()
    })
}

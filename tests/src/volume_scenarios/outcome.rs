//! What became of a row, read from the cluster and from the bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use velero_testkit::VeleroServer;
use velero_testkit::machine::Machine;
use velero_testkit::parts::BUCKET;

use super::owned;
use crate::{backups, volume_data};

/// What became of a row, in short lines.
pub type Lines = BTreeSet<String>;

/// Prints what lies in the volumes of a pod, a line a name.
const PICTURE: &str = r#"cd /volumes && find . -mindepth 2 ! -path '*/.velero*' | sort | while read -r file; do
if test -h "$file"; then echo "$file|$(readlink "$file")"; elif test ! -f "$file"; then echo "$file|$(stat -c %f:%u:%g "$file")"
else echo "$file|$(stat -c %f:%u:%g:%s:%Y "$file")|$(sha256sum < "$file")"; fi; done"#;

/// What lies in the volumes of a pod: for each volume, what is known of each name.
pub(super) type Picture = BTreeMap<String, BTreeMap<String, String>>;

/// Looks into the volumes of a running pod.
pub(super) fn picture(machine: &Machine, namespace: &str, pod: &str) -> Result<Picture> {
    let found = owned::find(machine, namespace, pod)?["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let told = machine.kubectl(&["-n", namespace, "exec", &found, "--", "sh", "-c", PICTURE])?;
    let mut picture = Picture::new();
    for line in told.lines() {
        let (path, known) = line.split_once('|').with_context(|| format!("{namespace}/{pod} has {line:?}"))?;
        let (volume, name) = path.trim_start_matches("./").split_once('/').unwrap_or((path, ""));
        picture.entry(volume.to_owned()).or_default().insert(name.to_owned(), known.to_owned());
    }
    Ok(picture)
}

/// How what a volume holds after a restore compares with what it held before the backup.
pub(super) fn compared(before: Option<&BTreeMap<String, String>>, after: Option<&BTreeMap<String, String>>) -> String {
    let none = BTreeMap::new();
    let (before, after) = (before.unwrap_or(&none), after.unwrap_or(&none));
    if before == after {
        return "same".to_owned();
    }
    if before.get("random") != after.get("random") {
        return if after.is_empty() { "empty".to_owned() } else { "new".to_owned() };
    }
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name)).map(|name| {
        match (before.contains_key(name), after.contains_key(name)) {
            (false, _) => format!("plus {name}"),
            (_, false) => format!("minus {name}"),
            _ => format!("changed {name} from {} to {}", before[name], after[name]),
        }
    });
    changed.collect::<Vec<_>>().join(", ")
}

/// A compressed JSON file of the bucket.
pub(super) fn file(server: &VeleroServer, key: &str) -> Result<Value> {
    let content = backups::object(server.machine(), BUCKET, key)?.with_context(|| format!("no object {key}"))?;
    let mut text = String::new();
    MultiGzDecoder::new(content.as_slice()).read_to_string(&mut text).with_context(|| format!("cannot read {key}"))?;
    Ok(serde_json::from_str(&text)?)
}

/// What messages are about: a namespace, which they name, or words that only it has.
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) words: Vec<&'static str>,
}

/// The messages of a results file that are about a namespace, and those about none of the namespaces.
pub(super) struct Messages {
    by_namespace: BTreeMap<String, Vec<String>>,
    /// What no namespace is known for.
    pub(super) others: Vec<String>,
}

impl Messages {
    /// Reads one severity of a results file.
    pub(super) fn of(results: &Value, severity: &str, places: &[Place]) -> Self {
        let mut sorted = Self { by_namespace: BTreeMap::new(), others: Vec::new() };
        let of_severity = &results[severity];
        for (namespace, texts) in of_severity["namespaces"].as_object().into_iter().flatten() {
            sorted.sort(Some(namespace), texts, places);
        }
        for place in ["velero", "cluster"] {
            sorted.sort(None, &of_severity[place], places);
        }
        sorted
    }

    fn sort(&mut self, namespace: Option<&str>, texts: &Value, places: &[Place]) {
        let separates = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
        for text in texts.as_array().into_iter().flatten() {
            let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
            let names = |place: &&Place| text.split(separates).chain(namespace).any(|word| word == place.namespace);
            let has_words = |place: &&Place| place.words.iter().any(|words| text.contains(words));
            let about = places.iter().find(names).or_else(|| places.iter().find(has_words));
            match about.map(|place| place.namespace.clone()) {
                Some(namespace) => self.by_namespace.entry(namespace).or_default().push(text),
                None => self.others.push(text),
            }
        }
    }

    /// What is said about a namespace.
    pub(super) fn about(&self, namespace: &str) -> &[String] {
        self.by_namespace.get(namespace).map_or(&[], Vec::as_slice)
    }
}

/// The copies of a backup in a namespace: `copy web/data Completed`.
pub(super) fn copies(server: &VeleroServer, backup: &str, namespace: &str) -> Result<Lines> {
    let copies = volume_data::movers(server, "podvolumebackups", "velero.io/backup-name", backup)?;
    let here = copies.iter().filter(|copy| copy["spec"]["pod"]["namespace"] == namespace);
    Ok(here
        .map(|copy| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let pod = owned::short_name(copy["spec"]["pod"]["name"].as_str().unwrap_or_default());
            let volume = text(&copy["spec"]["volume"]);
            format!("copy {pod}/{volume} {}", text(&copy["status"]["phase"]))
        })
        .collect())
}

/// The volumes of pods in a namespace that a restore did not fill. The original does not say whose they are.
pub(super) fn failed_fillings(server: &VeleroServer, restore: &str, namespace: &str) -> Result<Vec<String>> {
    let fillings = volume_data::movers(server, "podvolumerestores", "velero.io/restore-name", restore)?;
    let has_failed = |filling: &&Value| {
        filling["spec"]["pod"]["namespace"] == namespace && filling["status"]["phase"] != "Completed"
    };
    Ok(fillings.iter().filter(has_failed).map(|filling| filling["status"].to_string()).collect())
}

/// What the volume information of a backup says of a namespace: `claim data: PodVolumeBackup succeeded`.
pub(super) fn volumes(information: &Value, namespace: &str) -> Lines {
    let entries = information.as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |entry: &Value| {
        let copy = &entry["pvbInfo"];
        let what = match (entry["pvcNamespace"] == namespace, copy["podNamespace"] == namespace) {
            (true, _) => format!("claim {}", text(&entry["pvcName"])),
            (_, true) => format!("volume {}/{}", owned::short_name(&text(&copy["podName"])), text(&copy["volumeName"])),
            _ => return None,
        };
        let mut words = vec![text(&entry["backupMethod"]), text(&entry["result"])];
        if entry["snapshotDataMoved"] == true {
            words.insert(1, "moved".to_owned());
        }
        if entry["skipped"] == true {
            words = vec!["skipped".to_owned()];
        }
        words.retain(|word| !word.is_empty());
        Some(format!("{what}: {}", words.join(" ")))
    };
    entries.filter_map(line).collect()
}

//! Keys of the document that nobody knows, wherever they stand: what was misspelled would have no effect, in silence.

use serde_json::{Map, Value};

/// The keys of each part of the document; `*` stands for keys that are chosen freely. What is in parts that are not here, such
/// as labels, is free too.
const KNOWN: [(&str, &[&str]); 10] = [
    (
        "",
        &[
            "loadConcurrency",
            "loadAffinity",
            "backupPVC",
            "restorePVC",
            "podResources",
            "priorityClassName",
            "privilegedFsBackup",
            "cachePVC",
            "podAnnotations",
            "podLabels",
        ],
    ),
    ("loadConcurrency", &["globalConfig", "perNodeConfig", "prepareQueueLength"]),
    ("loadConcurrency.perNodeConfig", &["nodeSelector", "number"]),
    ("loadConcurrency.perNodeConfig.nodeSelector", SELECTOR),
    ("loadAffinity", &["nodeSelector", "storageClass"]),
    ("loadAffinity.nodeSelector", SELECTOR),
    ("backupPVC.*", &["storageClass", "readOnly", "spcNoRelabeling", "annotations", "secretNames", "configMapNames"]),
    ("restorePVC", &["ignoreDelayBinding", "secretNames", "configMapNames"]),
    (
        "podResources",
        &["cpuRequest", "cpuLimit", "memoryRequest", "memoryLimit", "ephemeralStorageRequest", "ephemeralStorageLimit"],
    ),
    ("cachePVC", &["storageClass", "residentThresholdInMB"]),
];
const SELECTOR: &[&str] = &["matchLabels", "matchExpressions"];
/// The part whose keys are chosen freely, and have known ones below them.
const BY_CLASS: &str = "backupPVC";

/// The keys that nobody knows, with the way to them.
pub(super) fn keys(document: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    look_into(document, "", "", &mut found);
    found
}

/// Looks at the keys of a part of the document; `path` is where it stands.
fn look_into(fields: &Map<String, Value>, part: &str, path: &str, found: &mut Vec<String>) {
    let known = KNOWN.iter().find(|(name, _)| *name == part).map(|(_, keys)| *keys);
    for (key, value) in fields {
        let place = joined(path, key);
        match known {
            _ if part == BY_CLASS => look_at(value, &joined(part, "*"), &place, found),
            Some(keys) if keys.contains(&key.as_str()) => look_at(value, &joined(part, key), &place, found),
            Some(_) => found.push(place),
            None => {}
        }
    }
}

fn look_at(value: &Value, part: &str, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => look_into(fields, part, path, found),
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                look_at(entry, part, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

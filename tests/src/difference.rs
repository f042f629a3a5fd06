//! Where two JSON documents differ.

use std::collections::BTreeSet;

use serde_json::Value;

/// One line a difference: the path, then both sides. Empty when the documents are equal; null equals absent.
pub fn differences(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect("", Some(ours), Some(theirs), &mut found);
    found
}

fn collect(path: &str, ours: Option<&Value>, theirs: Option<&Value>, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            keys.iter().for_each(|key| collect(&format!("{path}/{key}"), ours.get(*key), theirs.get(*key), found));
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) => {
            let length = ours.len().max(theirs.len());
            (0..length)
                .for_each(|index| collect(&format!("{path}/{index}"), ours.get(index), theirs.get(index), found));
        }
        // The API server drops a null, and Go reads both alike.
        (None, Some(Value::Null)) | (Some(Value::Null), None) => {}
        _ if ours == theirs => {}
        _ => found.push(format!("{path}: ours {}, theirs {}", shown(ours), shown(theirs))),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), Value::to_string)
}

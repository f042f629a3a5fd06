//! What somebody asked for, before the server completed it.

use serde_json::{Map, Value};
use velero_api::annotations::ASKED_FIELDS;
use velero_api::metadata::{annotation, name};
use velero_api::v1::{Restore, RestoreSpec};

use crate::Unusable;

/// The fields that were asked for otherwise than the server completed them, as the annotation has them; nothing when it
/// completed none.
pub fn asked_fields(asked: &RestoreSpec, completed: &RestoreSpec) -> Option<String> {
    let (asked, completed) = (fields(asked), fields(completed));
    let keys = asked.keys().chain(completed.keys());
    let changed = keys.filter(|key| asked.get(*key) != completed.get(*key));
    let changed: Map<String, Value> =
        changed.map(|key| (key.clone(), asked.get(key).cloned().unwrap_or_default())).collect();
    (!changed.is_empty()).then(|| Value::Object(changed).to_string())
}

/// The spec of a restore as somebody asked for it.
pub fn asked_spec(restore: &Restore) -> Result<RestoreSpec, Unusable> {
    let note = annotation(restore, ASKED_FIELDS);
    if note.is_empty() {
        return Ok(restore.spec.clone());
    }
    let unusable = |error: serde_json::Error| {
        let restore = name(restore);
        Unusable(format!(
            "its annotation {ASKED_FIELDS} cannot be read ({error}); take it off to resume what its spec says: kubectl annotate \
             restores.velero.io {restore} {ASKED_FIELDS}-"
        ))
    };
    let asked: Map<String, Value> = serde_json::from_str(note).map_err(unusable)?;
    let mut spec = fields(&restore.spec);
    for (key, value) in asked {
        match value {
            Value::Null => _ = spec.remove(&key),
            value => _ = spec.insert(key, value),
        }
    }
    serde_json::from_value(Value::Object(spec)).map_err(unusable)
}

fn fields(spec: &RestoreSpec) -> Map<String, Value> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

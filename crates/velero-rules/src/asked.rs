//! What somebody asked for, before the server completed it: kept beside the completed spec of a backup or restore, so that
//! another can be asked for the same.
//!
//! The note is a JSON object with the fields that were completed, as they were: `null` is a field that was not given, and a
//! number means that so many of the entries at the beginning of a list were. So it is short however long the spec is: what the
//! server completes it adds.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The fields that were asked for otherwise than the server completed them, as a note; nothing when it completed none.
pub fn asked_fields<S: Serialize>(asked: &S, completed: &S) -> Option<String> {
    let (asked, completed) = (fields(asked), fields(completed));
    let keys = asked.keys().chain(completed.keys());
    let changed = keys.filter(|key| asked.get(*key) != completed.get(*key));
    let changed: Map<String, Value> = changed
        .map(|key| (key.clone(), asked.get(key).map_or(Value::Null, |asked| noted(asked, completed.get(key)))))
        .collect();
    (!changed.is_empty()).then(|| Value::Object(changed).to_string())
}

/// A spec as somebody asked for it, from the note and the completed one; an empty note says that they are the same.
pub fn asked_spec<S: Serialize + DeserializeOwned + Clone>(note: &str, completed: &S) -> serde_json::Result<S> {
    if note.is_empty() {
        return Ok(completed.clone());
    }
    let asked: Map<String, Value> = serde_json::from_str(note)?;
    let mut spec = fields(completed);
    for (key, value) in asked {
        match (value.as_u64(), spec.get_mut(&key)) {
            _ if value.is_null() => _ = spec.remove(&key),
            (Some(count), Some(Value::Array(entries))) => entries.truncate(count.try_into().unwrap_or(usize::MAX)),
            _ => _ = spec.insert(key, value),
        }
    }
    serde_json::from_value(Value::Object(spec))
}

/// What is noted of a field that was given.
fn noted(asked: &Value, completed: Option<&Value>) -> Value {
    match (asked, completed) {
        (Value::Array(asked), Some(Value::Array(completed))) if completed.starts_with(asked) => asked.len().into(),
        _ => asked.clone(),
    }
}

fn fields(spec: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use velero_api::GoDuration;
    use velero_api::v1::{BackupSpec, RestoreSpec};

    use super::*;

    #[test]
    fn what_the_server_completed_is_taken_back_and_what_somebody_wrote_stays() {
        let asked = RestoreSpec {
            schedule_name: "daily".to_owned(),
            excluded_resources: vec!["secrets".to_owned()],
            restore_pvs: Some(true),
            ..RestoreSpec::default()
        };
        let mut completed = asked.clone();
        completed.backup_name = "daily-1".to_owned();
        completed.excluded_resources.push("nodes".to_owned());
        completed.item_operation_timeout = GoDuration::from_hours(4);
        let note = asked_fields(&asked, &completed).unwrap();
        assert_eq!(note, "{\"backupName\":null,\"excludedResources\":1,\"itemOperationTimeout\":\"0s\"}");
        assert_eq!(asked_spec(&note, &completed).unwrap(), asked);
        let older = "{\"backupName\":null,\"excludedResources\":[\"secrets\"],\"itemOperationTimeout\":\"0s\"}";
        assert_eq!(asked_spec(older, &completed).unwrap(), asked, "lists were noted whole once");
        assert_eq!(asked_spec("", &completed).unwrap(), completed, "without the note the spec counts");
        assert_eq!(asked_fields(&asked, &asked), None);
        for broken in ["{", "[]", "{\"excludedResources\":\"x\"}", "{\"backupName\":7}"] {
            assert!(asked_spec(broken, &completed).is_err(), "{broken}");
        }
    }

    #[test]
    fn the_note_is_short_however_much_somebody_wrote() {
        let namespaces = (0..20_000).map(|number| format!("namespace-{number}")).collect();
        let asked = BackupSpec { excluded_namespaces: namespaces, ..BackupSpec::default() };
        let mut completed = asked.clone();
        completed.excluded_namespaces.push("labelled-out".to_owned());
        completed.included_namespaces.push("*".to_owned());
        completed.storage_location = "default".to_owned();
        let note = asked_fields(&asked, &completed).unwrap();
        assert!(note.len() < 100, "{note}");
        assert_eq!(asked_spec(&note, &completed).unwrap(), asked);
    }

    #[test]
    fn a_list_that_is_not_the_beginning_of_the_completed_one_is_noted_whole() {
        let spec = |locations: &[&str]| BackupSpec {
            volume_snapshot_locations: locations.iter().map(|&name| name.to_owned()).collect(),
            ..BackupSpec::default()
        };
        let (asked, completed) = (spec(&["b", "a"]), spec(&["a", "b"]));
        let note = asked_fields(&asked, &completed).unwrap();
        assert_eq!(asked_spec(&note, &completed).unwrap(), asked);
    }
}

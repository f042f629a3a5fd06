//! The difference between two states of an object as a JSON merge patch (RFC 7396).

use serde_json::{Map, Value};

/// The merge patch that turns `original` into `modified`: changed and new fields with their new value, removed fields
/// as `null`. Lists are replaced as a whole. An empty object when nothing differs.
///
/// Fields that neither side knows are not mentioned, so they survive on the server.
pub fn merge_patch_diff(original: &Value, modified: &Value) -> Value {
    let (Value::Object(original), Value::Object(modified)) = (original, modified) else {
        return modified.clone();
    };
    let mut patch = Map::new();
    for key in original.keys().filter(|key| !modified.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in modified {
        match original.get(key) {
            Some(before) if before == value => {}
            Some(before) if before.is_object() && value.is_object() => {
                patch.insert(key.clone(), merge_patch_diff(before, value));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

/// Whether an object already is what a merge patch would make of it.
pub fn holds_merge_patch(object: &Value, patch: &Value) -> bool {
    match (patch, object) {
        (Value::Object(patch), object) => patch.iter().all(|(key, value)| match object.get(key) {
            Some(held) => holds_merge_patch(held, value),
            None => holds_merge_patch(&Value::Null, value),
        }),
        (patch, object) => patch == object,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Applies a patch by the rules of the RFC.
    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let object = target.as_object_mut().unwrap();
        for (key, value) in patch {
            match value {
                Value::Null => drop(object.remove(key)),
                _ => apply(object.entry(key.clone()).or_insert(Value::Null), value),
            }
        }
    }

    #[test]
    fn the_patch_holds_only_what_differs_and_leads_to_the_modified_object() {
        for (original, modified, patch) in [
            (json!({"a": 1}), json!({"a": 1}), json!({})),
            (json!({"a": 1}), json!({"a": 2}), json!({"a": 2})),
            (json!({"a": 1, "b": 2}), json!({"b": 2}), json!({"a": null})),
            (json!({}), json!({"s": {"p": "New"}}), json!({"s": {"p": "New"}})),
            (json!({"s": {"p": "New", "n": 1}}), json!({"s": {"p": "Done", "n": 1}}), json!({"s": {"p": "Done"}})),
            (json!({"s": {"p": "New"}}), json!({"s": {}}), json!({"s": {"p": null}})),
            (json!({"l": [1, 2]}), json!({"l": [1]}), json!({"l": [1]})),
            (json!({"v": {"x": 1}}), json!({"v": [1]}), json!({"v": [1]})),
            (json!({"v": [1]}), json!({"v": {"x": 1}}), json!({"v": {"x": 1}})),
        ] {
            assert_eq!(merge_patch_diff(&original, &modified), patch, "{original} -> {modified}");
            let mut patched = original.clone();
            apply(&mut patched, &patch);
            assert_eq!(patched, modified);
        }
    }

    #[test]
    fn fields_neither_side_knows_survive() {
        let patch = merge_patch_diff(&json!({"status": {"phase": "New"}}), &json!({"status": {"phase": "Done"}}));
        let mut on_server = json!({"status": {"phase": "New", "future": true}});
        apply(&mut on_server, &patch);
        assert_eq!(on_server, json!({"status": {"phase": "Done", "future": true}}));
    }

    #[test]
    fn an_object_holds_a_patch_when_applying_it_changes_nothing() {
        let object = json!({"status": {"phase": "InProgress"}, "metadata": {"name": "b", "labels": {"a": "b"}}});
        for (patch, holds) in [
            (json!({}), true),
            (json!({"status": {"phase": "InProgress"}}), true),
            (json!({"status": {"phase": "Failed"}}), false),
            (json!({"metadata": {"annotations": {"gone": null}}}), true),
            (json!({"metadata": {"labels": {"a": null}}}), false),
            (json!({"spec": {"ttl": "1h"}}), false),
            (json!({"metadata": {"labels": {"a": "b"}}, "status": {"errors": 1}}), false),
        ] {
            assert_eq!(holds_merge_patch(&object, &patch), holds, "{patch}");
        }
    }
}

//! What actions do with items again and again: looking into them, and changing them in place.
//!
//! An item is the JSON that the API server sent. Fields that nobody here knows stay, and none is added empty. A place in an
//! item is given as a JSON pointer, such as `/spec/volumeName`; what is missing there, or of another type, is no error.
//!
//! ```
//! use serde_json::json;
//! use velero_plugin::RestoreItemOutcome;
//! use velero_plugin::item::{annotation, describe, set_label};
//!
//! let service = json!({"kind": "Service", "metadata": {"namespace": "shop", "name": "web"}});
//! assert_eq!(describe(&service), "Service shop/web");
//! assert_eq!(annotation(&service, "example.com/note"), None);
//! let outcome = RestoreItemOutcome::changed(&service, |item| set_label(item, "example.com/restored", "true"));
//! assert_eq!(outcome.updated_item.unwrap()["metadata"]["labels"]["example.com/restored"], "true");
//! ```

use serde_json::{Map, Value};

/// A text inside an item; empty when it is missing or no text.
pub fn text<'a>(item: &'a Value, pointer: &str) -> &'a str {
    item.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A text inside an item; `None` also when it is empty.
pub fn filled<'a>(item: &'a Value, pointer: &str) -> Option<&'a str> {
    Some(text(item, pointer)).filter(|text| !text.is_empty())
}

/// The name of an item.
pub fn name(item: &Value) -> &str {
    text(item, "/metadata/name")
}

/// The namespace of an item; empty when it is in none.
pub fn namespace(item: &Value) -> &str {
    text(item, "/metadata/namespace")
}

/// An item in words for messages: its kind, namespace and name, as in `Service shop/web`.
pub fn describe(item: &Value) -> String {
    let (kind, namespace, name) = (text(item, "/kind"), namespace(item), name(item));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// Whether an owner of the item is of that kind.
pub fn owned_by(item: &Value, kind: &str) -> bool {
    elements(item, "/metadata/ownerReferences").any(|owner| text(owner, "/kind") == kind)
}

/// A label of an item.
pub fn label<'a>(item: &'a Value, key: &str) -> Option<&'a str> {
    item.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// An annotation of an item.
pub fn annotation<'a>(item: &'a Value, key: &str) -> Option<&'a str> {
    item.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// Sets a label. An item without metadata stays as it is.
pub fn set_label(item: &mut Value, key: &str, value: &str) {
    set_entry(item, "labels", key, value);
}

/// Sets an annotation. An item without metadata stays as it is.
pub fn set_annotation(item: &mut Value, key: &str, value: &str) {
    set_entry(item, "annotations", key, value);
}

fn set_entry(item: &mut Value, map: &str, key: &str, value: &str) {
    let Some(metadata) = object_mut(item, "/metadata") else { return };
    let entries = metadata.entry(map).or_insert(Value::Null);
    // The API server writes null where there are none.
    if entries.is_null() {
        *entries = Value::Object(Map::new());
    }
    if let Some(entries) = entries.as_object_mut() {
        entries.insert(key.to_owned(), value.into());
    }
}

/// Removes a label.
pub fn remove_label(item: &mut Value, key: &str) {
    remove(item, "/metadata/labels", key);
}

/// Removes an annotation.
pub fn remove_annotation(item: &mut Value, key: &str) {
    remove(item, "/metadata/annotations", key);
}

/// Removes an annotation and gives what it was; `None` when it was not there or no text.
pub fn take_annotation(item: &mut Value, key: &str) -> Option<String> {
    match object_mut(item, "/metadata/annotations")?.remove(key)? {
        Value::String(value) => Some(value),
        _ => None,
    }
}

/// Removes a field of an object inside an item.
pub fn remove(item: &mut Value, pointer: &str, field: &str) {
    if let Some(object) = object_mut(item, pointer) {
        object.remove(field);
    }
}

/// An object inside an item, to change its fields; `None` when it is missing or no object.
pub fn object_mut<'a>(item: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    item.pointer_mut(pointer).and_then(Value::as_object_mut)
}

/// A list inside an item, to add and drop elements; `None` when it is missing or no list.
pub fn list_mut<'a>(item: &'a mut Value, pointer: &str) -> Option<&'a mut Vec<Value>> {
    item.pointer_mut(pointer).and_then(Value::as_array_mut)
}

/// The elements of a list inside an item; none when it is missing or no list.
pub fn elements<'a>(item: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    item.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The elements of a list inside an item, to change them; none when it is missing or no list.
pub fn elements_mut<'a>(item: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    list_mut(item, pointer).into_iter().flatten()
}

/// The texts of a list inside an item, to change them; elements that are no texts are passed over.
pub fn texts_mut<'a>(item: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut String> {
    elements_mut(item, pointer).filter_map(|element| match element {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// The item after a change; `None` when that leaves it as it is, which costs nothing downstream.
pub fn changed(item: &Value, change: impl FnOnce(&mut Value)) -> Option<Value> {
    let mut updated = item.clone();
    change(&mut updated);
    (updated != *item).then_some(updated)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_empty_or_of_another_type_is_no_text() {
        for (spec, expected) in [
            (json!({"volumeName": "v"}), Some("v")),
            (json!({"volumeName": ""}), None),
            (json!({"volumeName": 5}), None),
            (json!({}), None),
            (json!(null), None),
        ] {
            let item = json!({"spec": spec});
            assert_eq!(filled(&item, "/spec/volumeName"), expected, "{item}");
            assert_eq!(text(&item, "/spec/volumeName"), expected.unwrap_or_default(), "{item}");
        }
    }

    #[test]
    fn an_item_is_described_by_kind_namespace_and_name() {
        for (item, expected) in [
            (json!({"kind": "Pod", "metadata": {"namespace": "shop", "name": "web"}}), "Pod shop/web"),
            (json!({"kind": "Node", "metadata": {"name": "n1"}}), "Node n1"),
            (json!({"kind": "Node", "metadata": {"name": "n1", "namespace": null}}), "Node n1"),
        ] {
            assert_eq!(describe(&item), expected);
        }
    }

    #[test]
    fn an_owner_is_known_by_its_kind() {
        let item = json!({"metadata": {"ownerReferences": [{"kind": "ReplicaSet"}, {"kind": "Job"}]}});
        assert!(owned_by(&item, "Job") && !owned_by(&item, "CronJob") && !owned_by(&json!({}), "Job"));
    }

    #[test]
    fn labels_and_annotations_are_set_whether_there_are_others_none_or_null() {
        for entries in [json!({"a": "b"}), json!({}), json!(null)] {
            let mut item = json!({"metadata": {"labels": entries, "annotations": entries}});
            set_label(&mut item, "c", "d");
            set_annotation(&mut item, "e/f~g", "h");
            assert_eq!((label(&item, "c"), annotation(&item, "e/f~g")), (Some("d"), Some("h")), "{item}");
            assert_eq!(label(&item, "a"), entries["a"].as_str(), "{item}");
            remove_label(&mut item, "c");
            assert_eq!(take_annotation(&mut item, "e/f~g").as_deref(), Some("h"));
            assert_eq!((label(&item, "c"), annotation(&item, "e/f~g")), (None, None), "{item}");
        }
        let mut item = json!({"metadata": {}});
        set_label(&mut item, "a", "b");
        assert_eq!(item, json!({"metadata": {"labels": {"a": "b"}}}));
        let mut bare = json!({"kind": "Pod"});
        set_annotation(&mut bare, "a", "b");
        assert_eq!(bare, json!({"kind": "Pod"}), "no metadata are made up");
    }

    #[test]
    fn lists_give_their_elements_and_only_texts_as_texts() {
        let mut item = json!({"users": ["a", 1, "b"], "group": "c"});
        assert_eq!(elements(&item, "/users").count(), 3);
        assert_eq!(elements(&item, "/group").chain(elements(&item, "/missing")).count(), 0);
        texts_mut(&mut item, "/users").for_each(|user| user.push('!'));
        elements_mut(&mut item, "/users").filter(|user| user.is_i64()).for_each(|user| *user = json!(2));
        list_mut(&mut item, "/users").unwrap().push(json!("c"));
        assert_eq!(item["users"], json!(["a!", 2, "b!", "c"]));
        assert!(list_mut(&mut item, "/group").is_none() && object_mut(&mut item, "/group").is_none());
    }

    #[test]
    fn an_item_that_stays_as_it_is_was_not_changed() {
        let item = json!({"spec": {"host": "a", "port": 1}});
        assert_eq!(changed(&item, |item| remove(item, "/spec", "host")), Some(json!({"spec": {"port": 1}})));
        assert_eq!(changed(&item, |item| remove(item, "/spec", "path")), None);
        assert_eq!(changed(&item, |item| remove(item, "/status", "host")), None);
    }
}

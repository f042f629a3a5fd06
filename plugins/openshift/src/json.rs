//! Looking into items, and changing them in place: fields that are not known here stay, none is added empty.

use serde_json::{Map, Value, json};
use velero_api::records::ResourceIdentifier;
use velero_plugin::RestoreItemOutcome;

/// A text inside an item; empty when it is missing or no text.
pub(crate) fn text<'a>(item: &'a Value, pointer: &str) -> &'a str {
    item.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of a list inside an item; none when it is missing or no list.
pub(crate) fn elements<'a>(item: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    item.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The same, to change them.
pub(crate) fn elements_mut<'a>(item: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    item.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The texts of a list inside an item, to change them.
pub(crate) fn texts_mut<'a>(item: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut String> {
    elements_mut(item, pointer).filter_map(|element| match element {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// An annotation; empty when it is missing.
pub(crate) fn annotation<'a>(item: &'a Value, key: &str) -> &'a str {
    entry(item, "annotations", key).unwrap_or_default()
}

/// Whether there is an annotation of that key.
pub(crate) fn has_annotation(item: &Value, key: &str) -> bool {
    entry(item, "annotations", key).is_some()
}

/// A label; empty when it is missing.
pub(crate) fn label<'a>(item: &'a Value, key: &str) -> &'a str {
    entry(item, "labels", key).unwrap_or_default()
}

fn entry<'a>(item: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    item.get("metadata")?.get(map)?.get(key)?.as_str()
}

/// Sets an annotation.
pub(crate) fn set_annotation(item: &mut Value, key: &str, value: &str) {
    set_entry(item, "annotations", key, value);
}

/// Sets a label.
pub(crate) fn set_label(item: &mut Value, key: &str, value: &str) {
    set_entry(item, "labels", key, value);
}

fn set_entry(item: &mut Value, map: &str, key: &str, value: &str) {
    let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let entries = metadata.entry(map).or_insert_with(|| json!({}));
    if entries.is_null() {
        *entries = json!({});
    }
    if let Some(entries) = entries.as_object_mut() {
        entries.insert(key.to_owned(), json!(value));
    }
}

/// Removes an annotation.
pub(crate) fn remove_annotation(item: &mut Value, key: &str) {
    remove(item, "/metadata/annotations", key);
}

/// Removes a label.
pub(crate) fn remove_label(item: &mut Value, key: &str) {
    remove(item, "/metadata/labels", key);
}

/// Removes a field of an object inside an item.
pub(crate) fn remove(item: &mut Value, pointer: &str, key: &str) {
    if let Some(object) = item.pointer_mut(pointer).and_then(Value::as_object_mut) {
        object.remove(key);
    }
}

/// An object inside an item, to set fields of it; `None` when it is missing or no object.
pub(crate) fn object_mut<'a>(item: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    item.pointer_mut(pointer).and_then(Value::as_object_mut)
}

/// The item in words for messages, as in `Route shop/web`.
pub(crate) fn describe(item: &Value) -> String {
    let [kind, namespace, name] = ["/kind", "/metadata/namespace", "/metadata/name"].map(|it| text(item, it));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// Whether an owner of the item is of that kind.
pub(crate) fn owned_by(item: &Value, kind: &str) -> bool {
    elements(item, "/metadata/ownerReferences").any(|owner| text(owner, "/kind") == kind)
}

/// An item by what identifies it.
pub(crate) fn identifier(group: &str, resource: &str, namespace: &str, name: &str) -> ResourceIdentifier {
    ResourceIdentifier {
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// The item after a change; an item that stays as it is costs nothing downstream.
pub(crate) fn changed(item: &Value, change: impl FnOnce(&mut Value)) -> RestoreItemOutcome {
    let mut updated = item.clone();
    change(&mut updated);
    updated_from(item, updated)
}

/// What to tell about an item that may have been changed.
pub(crate) fn updated_from(item: &Value, updated: Value) -> RestoreItemOutcome {
    RestoreItemOutcome { updated_item: (updated != *item).then_some(updated), ..RestoreItemOutcome::default() }
}

/// The item stays out.
pub(crate) fn skipped() -> RestoreItemOutcome {
    RestoreItemOutcome { skip_restore: true, ..RestoreItemOutcome::default() }
}

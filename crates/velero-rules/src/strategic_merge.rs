//! Strategic merge patches: patches that know which lists of the built-in types are merged, and by which key.
//!
//! The directives are those of Kubernetes: `$patch` (`delete`, `replace`, `merge`), `$retainKeys`,
//! `$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>`.

mod lists;
mod schema;
mod table;

use serde_json::{Map, Value};

use lists::{merge_lists, reorder};
use schema::{Strategy, Type};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";

/// Why a patch could not be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategicMergeError {
    /// The type of the object is none of Kubernetes' own.
    #[error("no merge keys are known for {kind:?} of {api_version:?}: use mergePatches or patches for this type")]
    UnknownType {
        /// The API version of the object.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// The object or the patch is no JSON object.
    #[error("a strategic merge patch is an object and changes an object")]
    NotAnObject,
    /// A `$patch` of another kind.
    #[error("unknown $patch {directive}: use delete, replace or merge")]
    UnknownDirective {
        /// What was given.
        directive: String,
    },
    /// A directive with a value it does not take.
    #[error("{directive} must be a list")]
    DirectiveNotAList {
        /// The directive.
        directive: String,
    },
    /// A field that would be changed and removed at once.
    #[error("field {field:?} is in the patch but not in its $retainKeys: add it there")]
    NotRetained {
        /// The field.
        field: String,
    },
    /// An element of a list that does not say which one it is.
    #[error("an element of the list {field:?} lacks its merge key {key:?}: {element}")]
    NoMergeKey {
        /// The list.
        field: String,
        /// The key.
        key: String,
        /// The element.
        element: String,
    },
    /// An element whose place is not given.
    #[error("an element of the list {field:?} is in the patch but not in its $setElementOrder: add it there")]
    NoPlace {
        /// The list.
        field: String,
    },
}

/// Merges a patch into an object of one of Kubernetes' own types. After an error the object may be half changed.
pub fn strategic_merge(object: &mut Value, patch: &Value) -> Result<(), StrategicMergeError> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let Some(known) = Type::of_kind(&api_version, &kind) else {
        return Err(StrategicMergeError::UnknownType { api_version, kind });
    };
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => merge_objects(object, patch.clone(), known),
        _ => Err(StrategicMergeError::NotAnObject),
    }
}

/// What `$patch` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    Delete,
    Replace,
    Merge,
}

impl Directive {
    fn of(patch: &Map<String, Value>) -> Result<Self, StrategicMergeError> {
        match patch.get(PATCH) {
            None => Ok(Self::Merge),
            Some(Value::String(text)) if text == "delete" => Ok(Self::Delete),
            Some(Value::String(text)) if text == "replace" => Ok(Self::Replace),
            Some(Value::String(text)) if text == "merge" => Ok(Self::Merge),
            Some(other) => Err(StrategicMergeError::UnknownDirective { directive: other.to_string() }),
        }
    }
}

fn merge_objects(
    object: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    known: &Type,
) -> Result<(), StrategicMergeError> {
    let directive = Directive::of(&patch)?;
    patch.remove(PATCH);
    match directive {
        Directive::Delete => object.clear(),
        Directive::Replace => *object = patch,
        Directive::Merge => {
            retain_keys(object, &mut patch)?;
            delete_from_lists(object, &mut patch)?;
            merge_ordered_lists(object, &mut patch, known)?;
            for (name, value) in patch {
                merge_field(object, &name, value, known)?;
            }
        }
    }
    Ok(())
}

fn merge_field(
    object: &mut Map<String, Value>,
    name: &str,
    patch: Value,
    known: &Type,
) -> Result<(), StrategicMergeError> {
    let field = known.field(name);
    match (object.get_mut(name), patch) {
        (_, Value::Null) => drop(object.remove(name)),
        (Some(Value::Object(existing)), Value::Object(patch)) if field.strategy != Strategy::Replace => {
            merge_objects(existing, patch, field.of)?;
        }
        (Some(Value::Array(existing)), Value::Array(patch)) if field.strategy.merges_lists() => {
            merge_lists(existing, patch, name, field)?;
        }
        (_, patch) => match without_directives(patch)? {
            Some(value) => drop(object.insert(name.to_owned(), value)),
            None => drop(object.remove(name)),
        },
    }
    Ok(())
}

fn retain_keys(object: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), StrategicMergeError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let keys = list_of(RETAIN_KEYS, keys)?;
    let retained = |name: &str| keys.iter().any(|key| key == name);
    let is_field = |name: &str| !name.starts_with(DELETE_FROM_LIST) && !name.starts_with(SET_ELEMENT_ORDER);
    let refused = patch.iter().find(|(name, value)| !value.is_null() && is_field(name) && !retained(name));
    if let Some((field, _)) = refused {
        return Err(StrategicMergeError::NotRetained { field: field.clone() });
    }
    object.retain(|name, _| retained(name));
    Ok(())
}

fn delete_from_lists(
    object: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), StrategicMergeError> {
    for (directive, field) in directives(patch, DELETE_FROM_LIST) {
        let deleted = list_of(&directive, patch.remove(&directive).unwrap_or_default())?;
        if let Some(Value::Array(existing)) = object.get_mut(&field) {
            existing.retain(|value| !deleted.contains(value));
        }
    }
    Ok(())
}

fn merge_ordered_lists(
    object: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    known: &Type,
) -> Result<(), StrategicMergeError> {
    for (directive, name) in directives(patch, SET_ELEMENT_ORDER) {
        let order = list_of(&directive, patch.remove(&directive).unwrap_or_default())?;
        let patched = patch.remove(&name);
        let field = known.field(&name);
        let existing = object.get(&name).and_then(Value::as_array).cloned().unwrap_or_default();
        if let Some(Value::Array(elements)) = &patched {
            lists::check_order(elements, &order, &name, field)?;
        }
        if let Some(value) = patched {
            merge_field(object, &name, value, known)?;
        }
        if let Some(Value::Array(merged)) = object.get_mut(&name) {
            reorder(merged, &order, &existing, field);
        }
    }
    Ok(())
}

/// Gives the directives of a kind in a patch, with the fields they are about.
fn directives(patch: &Map<String, Value>, prefix: &str) -> Vec<(String, String)> {
    let names = patch.keys().filter_map(|key| Some((key.clone(), key.strip_prefix(prefix)?.to_owned())));
    names.collect()
}

fn list_of(directive: &str, value: Value) -> Result<Vec<Value>, StrategicMergeError> {
    match value {
        Value::Array(list) => Ok(list),
        _ => Err(StrategicMergeError::DirectiveNotAList { directive: directive.to_owned() }),
    }
}

/// Takes directives and nulls out of a value that has no counterpart to be merged with; none if it is to be deleted.
fn without_directives(value: Value) -> Result<Option<Value>, StrategicMergeError> {
    match value {
        Value::Object(patch) if Directive::of(&patch)? == Directive::Delete => Ok(None),
        Value::Object(patch) => {
            let mut object = Map::new();
            merge_objects(
                &mut object,
                Map::from_iter(patch.into_iter().filter(|(name, _)| name != PATCH)),
                &schema::PLAIN,
            )?;
            Ok(Some(Value::Object(object)))
        }
        Value::Array(elements) => {
            let mut kept = Vec::new();
            for element in elements.into_iter().filter(|element| element.get(PATCH).is_none()) {
                kept.extend(without_directives(element)?);
            }
            Ok(Some(Value::Array(kept)))
        }
        other => Ok(Some(other)),
    }
}

#[cfg(test)]
mod tests;

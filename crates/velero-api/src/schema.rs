//! From what `schemars` says about a Rust type to the structural schema of a CRD.
//!
//! The target is what `controller-gen` makes of the Go types: no titles, no defaults, no nullable
//! unless marked, no format on a plain `int`. A key that must reach the result as it is carries the
//! prefix `exact-` (`exact-format`, `exact-default`).

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value};

const EXACT: &str = "exact-";

/// The structural schema of a type, every subschema inlined.
pub(crate) fn structural<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    normalise(&mut schema);
    schema
}

fn normalise(schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    take_option_apart(object);
    for key in ["$schema", "title", "default", "minimum"] {
        object.remove(key);
    }
    if object.get("type").is_some_and(|kind| kind == "integer") {
        object.remove("format");
    }
    if object.get("type").is_some_and(|kind| kind == "object") {
        object.retain(|key, value| key != "properties" || value.as_object().is_some_and(|map| !map.is_empty()));
    }
    uncover_exact_keys(object);
    if let Some(Value::Array(required)) = object.get_mut("required") {
        required.sort_by(|left, right| left.as_str().cmp(&right.as_str()));
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(normalise);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            normalise(inner);
        }
    }
}

/// An option is an ordinary optional field: only a marked one is nullable.
fn take_option_apart(object: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = object.get("type") {
        let kind = kinds.iter().find(|kind| *kind != "null").cloned();
        object.insert("type".to_owned(), kind.unwrap_or_default());
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(variants)) = object.remove("anyOf") else {
        return;
    };
    let some = variants.into_iter().find(|variant| variant.get("type").is_some_and(|kind| kind != "null"));
    if let Some(Value::Object(some)) = some {
        for (key, value) in some {
            object.entry(key).or_insert(value);
        }
    }
}

fn uncover_exact_keys(object: &mut Map<String, Value>) {
    let exact: Vec<String> = object.keys().filter(|key| key.starts_with(EXACT)).cloned().collect();
    for key in exact {
        if let Some(value) = object.remove(&key) {
            object.insert(key[EXACT.len()..].to_owned(), value);
        }
    }
}

/// `metav1.LabelSelector`.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "description": "Requirements that must all hold.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "The label.", "type": "string" },
                        "operator": { "description": "In, NotIn, Exists or DoesNotExist.", "type": "string" },
                        "values": {
                            "description": "The values for In and NotIn, else empty.",
                            "type": "array",
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string" },
                        },
                    },
                },
            },
            "matchLabels": {
                "description": "Labels that must all be there with these values.",
                "type": "object",
                "additionalProperties": { "type": "string" },
            },
        },
    })
}

/// A list of `metav1.LabelSelector`.
pub(crate) fn label_selectors(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": label_selector(generator) })
}

/// `corev1.TypedLocalObjectReference`.
pub(crate) fn typed_local_object_reference(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "required": ["kind", "name"],
        "properties": {
            "apiGroup": { "description": "The group of the object, empty for the core group.", "type": "string" },
            "kind": { "description": "The kind of the object.", "type": "string" },
            "name": { "description": "The name of the object.", "type": "string" },
        },
    })
}

/// `corev1.SecretKeySelector`.
pub(crate) fn secret_key_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "required": ["key"],
        "properties": {
            "key": { "description": "The key inside the Secret.", "type": "string" },
            "name": { "description": "The name of the Secret.", "type": "string", "exact-default": "" },
            "optional": { "description": "Whether the Secret or the key may be missing.", "type": "boolean" },
        },
    })
}

/// `corev1.ObjectReference`.
pub(crate) fn object_reference(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": { "description": "The API version of the object.", "type": "string" },
            "fieldPath": { "description": "The part of the object that is meant.", "type": "string" },
            "kind": { "description": "The kind of the object.", "type": "string" },
            "name": { "description": "The name of the object.", "type": "string" },
            "namespace": { "description": "The namespace of the object.", "type": "string" },
            "resourceVersion": { "description": "The version of the object.", "type": "string" },
            "uid": { "description": "The UID of the object.", "type": "string" },
        },
    })
}

/// A list of `metav1.Condition`.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": { "description": "More about it, for people.", "type": "string" },
                "observedGeneration": {
                    "description": "The generation of the object it was said about.",
                    "type": "integer",
                    "exact-format": "int64",
                },
                "reason": { "description": "Why, in one word; often the phase.", "type": "string" },
                "status": { "description": "The answer, which may be Unknown.", "type": "string" },
                "type": { "description": "The question.", "type": "string" },
            },
        },
    })
}

/// Containers kept as they were given, so that fields of any Kubernetes version pass.
pub(crate) fn raw_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-preserve-unknown-fields": true,
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

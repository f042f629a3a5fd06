//! The tags of a stream: those it is told (`spec.tags`), their history (`status.tags`), and the objects made of both.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::answers::Problem;
use crate::discovery::{Resource, api_version};
use crate::streams::now;

/// The names of the tags that have an image.
pub(crate) fn names(stream: &Value) -> impl Iterator<Item = &str> {
    histories(stream).filter_map(|history| history["tag"].as_str())
}

/// The newest reference and digest of a tag.
pub(crate) fn newest(stream: &Value, tag: &str) -> Option<(String, String)> {
    let item = histories(stream).find(|history| history["tag"] == tag)?.pointer("/items/0")?;
    Some((item["dockerImageReference"].as_str()?.to_owned(), item["image"].as_str()?.to_owned()))
}

/// Whether an image is in the history of a tag.
pub(crate) fn has(stream: &Value, digest: &str) -> bool {
    let mut items = histories(stream).filter_map(|history| history["items"].as_array()).flatten();
    items.any(|item| item["image"] == digest)
}

/// All references in the histories of a stream.
pub(crate) fn references(stream: &Value) -> impl Iterator<Item = &str> {
    let items = histories(stream).filter_map(|history| history["items"].as_array()).flatten();
    items.filter_map(|item| item["dockerImageReference"].as_str())
}

/// The tags that follow something, and what.
pub(crate) fn followers(stream: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let tags = stream["spec"]["tags"].as_array().into_iter().flatten();
    tags.filter_map(|tag| Some((tag["name"].as_str()?, tag.get("from")?)))
}

/// Makes an image the newest of a tag; false if it is already.
pub(crate) fn record(stream: &mut Value, tag: &str, reference: &str, image: &str) -> bool {
    if newest(stream, tag).is_some_and(|(old, digest)| (old.as_str(), digest.as_str()) == (reference, image)) {
        return false;
    }
    let item = json!({"created": now(), "dockerImageReference": reference, "image": image, "generation": 1});
    let Some(histories) = array(&mut stream["status"], "tags") else { return false };
    match histories.iter_mut().find(|history| history["tag"] == tag).map(|history| array(history, "items")) {
        Some(Some(items)) => items.insert(0, item),
        _ => histories.push(json!({"tag": tag, "items": [item]})),
    }
    true
}

/// Removes a tag and its history; false if there is none.
pub(crate) fn remove(stream: &mut Value, tag: &str) -> bool {
    let mut removed = false;
    for (place, key) in [("spec", "name"), ("status", "tag")] {
        if let Some(tags) = stream[place]["tags"].as_array_mut() {
            let before = tags.len();
            tags.retain(|entry| entry[key] != tag);
            removed |= tags.len() < before;
        }
    }
    removed
}

/// Writes the tag of an ImageStreamTag or ImageTag into its stream.
pub(crate) fn write(stream: &mut Value, tag: &str, object: &Value, replace: bool) -> Result<(), Problem> {
    let told = [&object["tag"], &object["spec"]].into_iter().find(|told| told.is_object());
    let mut told = told.cloned().unwrap_or_else(|| json!({}));
    told["name"] = tag.into();
    if let Some(annotations) = object["metadata"]["annotations"].as_object() {
        let all = told["annotations"].as_object().cloned().unwrap_or_else(Map::new);
        told["annotations"] = Value::Object(all.into_iter().chain(annotations.clone()).collect());
    }
    let Some(tags) = array(&mut stream["spec"], "tags") else { return Ok(()) };
    match tags.iter_mut().find(|entry| entry["name"] == tag) {
        Some(entry) if replace => *entry = told,
        Some(_) => {
            let name = object["metadata"]["name"].as_str().unwrap_or(tag);
            return Err(Problem::already_exists(Resource::StreamTags, name));
        }
        None => tags.push(told),
    }
    Ok(())
}

/// A tag as an object of its own; `None` when it has no image yet.
pub(crate) fn object(stream: &Value, tag: &str, resource: Resource) -> Option<Value> {
    let (reference, digest) = newest(stream, tag)?;
    let told = stream["spec"]["tags"].as_array().into_iter().flatten().find(|entry| entry["name"] == tag);
    let of_stream = &stream["metadata"];
    let mut metadata = json!({
        "name": format!("{}:{tag}", of_stream["name"].as_str().unwrap_or_default()),
        "namespace": of_stream["namespace"],
        "uid": of_stream["uid"],
        "resourceVersion": of_stream["resourceVersion"],
        "creationTimestamp": of_stream["creationTimestamp"],
    });
    if let Some(labels) = of_stream.get("labels") {
        metadata["labels"] = labels.clone();
    }
    if let Some(annotations) = told.and_then(|told| told.get("annotations")) {
        metadata["annotations"] = annotations.clone();
    }
    let image = json!({
        "metadata": {"name": digest, "creationTimestamp": of_stream["creationTimestamp"]},
        "dockerImageReference": reference,
    });
    let mut object =
        json!({"kind": resource.kind(), "apiVersion": api_version(), "metadata": metadata, "image": image});
    match resource {
        Resource::Tags => {
            object["spec"] = told.cloned().unwrap_or_default();
            object["status"] = histories(stream).find(|history| history["tag"] == tag).cloned().unwrap_or_default();
        }
        _ => {
            object["tag"] = told.cloned().unwrap_or_default();
            object["generation"] = 1.into();
            object["lookupPolicy"] = json!({"local": false});
        }
    }
    Some(object)
}

/// The digest that a reference names. Other registries are not asked: without one, it is made of the reference itself.
pub(crate) fn digest_of(reference: &str) -> String {
    match reference.split_once('@') {
        Some((_, digest)) => digest.to_owned(),
        None => {
            let hex: String = Sha256::digest(reference.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("sha256:{hex}")
        }
    }
}

fn histories(stream: &Value) -> impl Iterator<Item = &Value> {
    stream["status"]["tags"].as_array().into_iter().flatten()
}

/// The list under a key of an object, made if missing.
fn array<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Vec<Value>> {
    if !object[key].is_array() {
        object[key] = json!([]);
    }
    object[key].as_array_mut()
}

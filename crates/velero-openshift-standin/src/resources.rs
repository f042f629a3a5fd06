//! The requests for image streams and their tags. Lists come whole; what can be asked of a tag is done to its stream.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use serde_json::Value;

use crate::answers::{self, Problem};
use crate::discovery::Resource;
use crate::selector::selects;
use crate::server::Shared;
use crate::streams::{Image, Streams};
use crate::tags;

type Answer = Result<Json<Value>, Problem>;
type Parameters = Query<BTreeMap<String, String>>;

/// All objects of a type.
pub(crate) async fn list_all(
    State(shared): State<Shared>,
    Path(plural): Path<String>,
    parameters: Parameters,
    headers: HeaderMap,
) -> Answer {
    list_in(&shared.streams(), None, &plural, &parameters, &headers)
}

/// Those of a namespace.
pub(crate) async fn list(
    State(shared): State<Shared>,
    Path((namespace, plural)): Path<(String, String)>,
    parameters: Parameters,
    headers: HeaderMap,
) -> Answer {
    list_in(&shared.streams(), Some(&namespace), &plural, &parameters, &headers)
}

fn list_in(
    streams: &Streams,
    namespace: Option<&str>,
    plural: &str,
    parameters: &BTreeMap<String, String>,
    headers: &HeaderMap,
) -> Answer {
    let resource = resource(plural)?;
    let given = |key: &str| parameters.get(key).map(String::as_str).filter(|value| !value.is_empty());
    if given("watch").is_some_and(|watch| watch != "false" && watch != "0") {
        return Err(Problem::NotSupported(StatusCode::METHOD_NOT_ALLOWED, format!("{plural} cannot be watched")));
    }
    if let Some(selector) = given("fieldSelector") {
        let message = format!("field selector {selector:?}: field selectors are not understood");
        return Err(Problem::NotSupported(StatusCode::BAD_REQUEST, message));
    }
    let mut items = Vec::new();
    for object in streams.list(namespace).flat_map(|stream| objects(stream, resource)) {
        let selected = selects(given("labelSelector").unwrap_or_default(), &object);
        if selected.map_err(|problem| Problem::NotSupported(StatusCode::BAD_REQUEST, problem.to_string()))? {
            items.push(object);
        }
    }
    Ok(Json(answers::list(headers, resource, streams.version(), &items)))
}

fn objects(stream: &Value, resource: Resource) -> Vec<Value> {
    match resource {
        Resource::Streams => vec![stream.clone()],
        _ => tags::names(stream).filter_map(|tag| tags::object(stream, tag, resource)).collect(),
    }
}

/// One object.
pub(crate) async fn get(
    State(shared): State<Shared>,
    Path((namespace, plural, name)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Answer {
    let found = find(&shared.streams(), resource(&plural)?, &namespace, &name)?;
    Ok(Json(answers::object(&headers, found)))
}

fn find(streams: &Streams, resource: Resource, namespace: &str, name: &str) -> Result<Value, Problem> {
    if resource == Resource::Streams {
        return streams.get(namespace, name).cloned();
    }
    let missing = || Problem::not_found(resource, name);
    let (stream, tag) = split(name)?;
    let stream = streams.get(namespace, stream).map_err(|_| missing())?;
    tags::object(stream, tag, resource).ok_or_else(missing)
}

/// Makes an object.
pub(crate) async fn create(
    State(shared): State<Shared>,
    Path((namespace, plural)): Path<(String, String)>,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let (resource, object) = (resource(&plural)?, parse(&body)?);
    let mut streams = shared.streams();
    let created = match resource {
        Resource::Streams => streams.create(&namespace, object)?,
        _ => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            write_tag(&mut streams, resource, (&namespace, &name), &object, false)?
        }
    };
    Ok((StatusCode::CREATED, Json(created)))
}

/// Puts an object in the place of another.
pub(crate) async fn replace(
    State(shared): State<Shared>,
    Path((namespace, plural, name)): Path<(String, String, String)>,
    body: Bytes,
) -> Answer {
    let object = parse(&body)?;
    replace_in(&mut shared.streams(), resource(&plural)?, &namespace, &name, object).map(Json)
}

fn replace_in(
    streams: &mut Streams,
    resource: Resource,
    namespace: &str,
    name: &str,
    object: Value,
) -> Result<Value, Problem> {
    match resource {
        Resource::Streams => streams.replace(namespace, name, object),
        _ => write_tag(streams, resource, (namespace, name), &object, true),
    }
}

/// Changes fields of an object. What is applied by a client is merged; it makes the object where it is missing.
pub(crate) async fn patch(
    State(shared): State<Shared>,
    Path((namespace, plural, name)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let (resource, patch) = (resource(&plural)?, parse(&body)?);
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let applies = kind.starts_with("application/apply-patch");
    if !applies && !kind.starts_with("application/merge-patch+json") {
        let message = format!("{kind:?}: patches are merged or applied");
        return Err(Problem::NotSupported(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let mut streams = shared.streams();
    let mut object = match find(&streams, resource, &namespace, &name) {
        Ok(object) => object,
        Err(_) if applies && resource == Resource::Streams => {
            return streams.create(&namespace, patch).map(Json);
        }
        Err(_) if applies => Value::Null,
        Err(problem) => return Err(problem),
    };
    merge(&mut object, patch);
    replace_in(&mut streams, resource, &namespace, &name, object).map(Json)
}

/// Removes an object; images that no tag names any more go from the registry as well.
pub(crate) async fn delete(
    State(shared): State<Shared>,
    Path((namespace, plural, name)): Path<(String, String, String)>,
) -> Answer {
    let images = delete_in(&mut shared.streams(), resource(&plural)?, &namespace, &name)?;
    shared.registry.forget(&images).await;
    Ok(Json(answers::deleted()))
}

/// Removes the streams of a namespace.
pub(crate) async fn delete_all(
    State(shared): State<Shared>,
    Path((namespace, plural)): Path<(String, String)>,
) -> Answer {
    if resource(&plural)? != Resource::Streams {
        let message = format!("{plural} are deleted one by one");
        return Err(Problem::NotSupported(StatusCode::METHOD_NOT_ALLOWED, message));
    }
    let images = {
        let mut streams = shared.streams();
        let name = |stream: &Value| stream["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let names: Vec<String> = streams.list(Some(&namespace)).map(name).collect();
        let mut images = Vec::new();
        for name in names {
            images.extend(streams.delete(&namespace, &name)?);
        }
        images
    };
    shared.registry.forget(&images).await;
    Ok(Json(answers::deleted()))
}

fn delete_in(streams: &mut Streams, resource: Resource, namespace: &str, name: &str) -> Result<Vec<Image>, Problem> {
    if resource == Resource::Streams {
        return streams.delete(namespace, name);
    }
    let (stream, tag) = split(name)?;
    streams.delete_tag(namespace, stream, tag)
}

fn write_tag(
    streams: &mut Streams,
    resource: Resource,
    (namespace, name): (&str, &str),
    object: &Value,
    replace: bool,
) -> Result<Value, Problem> {
    let (stream, tag) = split(name)?;
    let stream = streams.change(namespace, stream, true, |stream| tags::write(stream, tag, object, replace))?;
    // A tag whose image is not there yet is answered as it was sent.
    Ok(tags::object(stream, tag, resource).unwrap_or_else(|| object.clone()))
}

fn resource(plural: &str) -> Result<Resource, Problem> {
    Resource::of_plural(plural)
        .ok_or_else(|| Problem::NotSupported(StatusCode::NOT_FOUND, format!("{plural} are not served")))
}

fn parse(body: &[u8]) -> Result<Value, Problem> {
    let refuse = |message| Problem::NotSupported(StatusCode::BAD_REQUEST, message);
    let object: Value =
        serde_json::from_slice(body).map_err(|error| refuse(format!("the body is no JSON: {error}")))?;
    let is_object = |value: &Value| value.is_object() || value.is_null();
    let parts = ["metadata", "spec", "status"];
    if !object.is_object() || !parts.iter().all(|part| object.get(part).is_none_or(is_object)) {
        return Err(refuse("the body is no object of Kubernetes".to_owned()));
    }
    Ok(object)
}

fn split(name: &str) -> Result<(&str, &str), Problem> {
    let parts = name.split_once(':').filter(|(stream, tag)| !stream.is_empty() && !tag.is_empty());
    parts.ok_or_else(|| Problem::Invalid(format!("metadata.name: {name:?} is not of the form stream:tag")))
}

/// Merges a patch as RFC 7386 says.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Default::default());
    }
    for (key, value) in patch {
        match (value, target.as_object_mut()) {
            (Value::Null, Some(object)) => drop(object.remove(&key)),
            (value, _) => merge(&mut target[key], value),
        }
    }
}

//! Answers as API servers give them.

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::GROUP;
use crate::discovery::{Resource, api_version};

/// Why a request is not done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    NotFound { resource: &'static str, name: String },
    AlreadyExists { resource: &'static str, name: String },
    Invalid(String),
    NotSupported(StatusCode, String),
}

impl Problem {
    pub(crate) fn not_found(resource: Resource, name: &str) -> Self {
        Self::NotFound { resource: resource.plural(), name: name.to_owned() }
    }

    pub(crate) fn already_exists(resource: Resource, name: &str) -> Self {
        Self::AlreadyExists { resource: resource.plural(), name: name.to_owned() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, reason, message) = match self {
            Self::NotFound { resource, name } => {
                (StatusCode::NOT_FOUND, "NotFound", format!("{resource}.{GROUP} \"{name}\" not found"))
            }
            Self::AlreadyExists { resource, name } => {
                (StatusCode::CONFLICT, "AlreadyExists", format!("{resource}.{GROUP} \"{name}\" already exists"))
            }
            Self::Invalid(message) => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message),
            Self::NotSupported(status, message) => (status, reason_of(status), message),
        };
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": status.as_u16(),
        });
        (status, Json(body)).into_response()
    }
}

/// The word by which clients know what a status means; controllers try another way then.
fn reason_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "UnsupportedMediaType",
        _ => "BadRequest",
    }
}

/// What became of a deletion.
pub(crate) fn deleted() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}

/// An object in the form the client asks for: whole, or only its metadata.
pub(crate) fn object(headers: &HeaderMap, object: Value) -> Value {
    if accepts(headers, "as=PartialObjectMetadata;") { only_metadata(&object) } else { object }
}

/// A list in the form the client asks for.
pub(crate) fn list(headers: &HeaderMap, resource: Resource, version: u64, items: &[Value]) -> Value {
    let metadata = json!({"resourceVersion": version.to_string()});
    if accepts(headers, "as=PartialObjectMetadataList;") {
        let items: Vec<Value> = items.iter().map(only_metadata).collect();
        let kind = "PartialObjectMetadataList";
        return json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items});
    }
    let kind = format!("{}List", resource.kind());
    json!({"kind": kind, "apiVersion": api_version(), "metadata": metadata, "items": items})
}

fn only_metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn accepts(headers: &HeaderMap, form: &str) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // Each choice ends with a semicolon then, also the last.
    format!("{};", accepted.replace(',', ";")).contains(form)
}

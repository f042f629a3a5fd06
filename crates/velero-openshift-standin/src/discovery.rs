//! What is served, in the words of discovery.

use axum::Json;
use serde_json::{Value, json};

use crate::{GROUP, VERSION};

/// A type that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Streams,
    StreamTags,
    Tags,
}

impl Resource {
    const ALL: [Self; 3] = [Self::Streams, Self::StreamTags, Self::Tags];

    /// The type of that plural name.
    pub(crate) fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.plural() == plural)
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Streams => "imagestreams",
            Self::StreamTags => "imagestreamtags",
            Self::Tags => "imagetags",
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Streams => "ImageStream",
            Self::StreamTags => "ImageStreamTag",
            Self::Tags => "ImageTag",
        }
    }

    fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Streams => &["create", "delete", "deletecollection", "get", "list", "patch", "update"],
            Self::StreamTags | Self::Tags => &["create", "delete", "get", "list", "patch", "update"],
        }
    }

    fn describe(self) -> Value {
        json!({
            "name": self.plural(),
            "singularName": self.kind().to_lowercase(),
            "namespaced": true,
            "kind": self.kind(),
            "verbs": self.verbs(),
        })
    }
}

/// The group and version of everything that is served.
pub(crate) fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

/// Answers what is served.
pub(crate) async fn types() -> Json<Value> {
    let resources = Resource::ALL.map(Resource::describe);
    Json(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(), "resources": resources}))
}

//! What the registry tells of pushes: each manifest with a tag makes or moves a tag of an image stream.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;

use crate::server::Shared;
use crate::streams::Push;

/// Takes an envelope of events.
pub(crate) async fn take(State(shared): State<Shared>, Json(envelope): Json<Value>) -> StatusCode {
    let mut streams = shared.streams();
    for push in envelope["events"].as_array().into_iter().flatten().filter_map(push_of) {
        streams.pushed(&push);
    }
    StatusCode::OK
}

/// The push of an event; `None` for others, and for images without a tag, such as those of a manifest list.
fn push_of(event: &Value) -> Option<Push> {
    let of_target = |key: &str| event["target"][key].as_str().map(str::to_owned);
    let repository = of_target("repository").filter(|_| event["action"] == "push")?;
    let (namespace, stream) = repository.split_once('/').filter(|(_, stream)| !stream.contains('/'))?;
    let tag = of_target("tag").filter(|tag| !tag.is_empty())?;
    Some(Push { namespace: namespace.to_owned(), stream: stream.to_owned(), tag, digest: of_target("digest")? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_push_of_a_tag_of_a_stream_counts() {
        let event = |action: &str, repository: &str, tag: Option<&str>| {
            let target = json!({"repository": repository, "tag": tag, "digest": "sha256:1"});
            push_of(&json!({"action": action, "target": target})).map(|push| (push.namespace, push.stream, push.tag))
        };
        let web = ("shop".to_owned(), "web".to_owned(), "v1".to_owned());
        assert_eq!(event("push", "shop/web", Some("v1")), Some(web));
        for (action, repository, tag) in [
            ("pull", "shop/web", Some("v1")),
            ("push", "shop/web", None),
            ("push", "shop/web", Some("")),
            ("push", "web", Some("v1")),
            ("push", "shop/web/deep", Some("v1")),
        ] {
            assert_eq!(event(action, repository, tag), None, "{action} {repository} {tag:?}");
        }
    }
}

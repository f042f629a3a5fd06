//! What happens to streams, without a network.

use serde_json::{Value, json};

use super::*;

fn push(streams: &mut Streams, stream: &str, tag: &str, digest: &str) {
    let text = str::to_owned;
    streams.pushed(&Push { namespace: text("shop"), stream: text(stream), tag: text(tag), digest: text(digest) });
}

fn history(streams: &Streams, stream: &str, tag: &str) -> Vec<String> {
    let stream = streams.get("shop", stream).unwrap();
    let tags = stream["status"]["tags"].as_array().unwrap();
    let items = tags.iter().find(|history| history["tag"] == tag).unwrap()["items"].as_array().unwrap();
    items.iter().map(|item| item["image"].as_str().unwrap().to_owned()).collect()
}

fn tag_from(kind: &str, name: &str) -> Value {
    json!({"tag": {"from": {"kind": kind, "name": name}}})
}

#[test]
fn a_push_makes_a_stream_and_the_next_one_the_newest_image() {
    let mut streams = Streams::new("registry:5000");
    for digest in ["sha256:1", "sha256:1", "sha256:2"] {
        push(&mut streams, "web", "v1", digest);
    }
    assert_eq!(history(&streams, "web", "v1"), ["sha256:2", "sha256:1"]);
    let stream = streams.get("shop", "web").unwrap();
    assert_eq!(stream["status"]["dockerImageRepository"], "registry:5000/shop/web");
    assert_eq!(stream["status"]["tags"][0]["items"][0]["dockerImageReference"], "registry:5000/shop/web@sha256:2");
    assert_eq!(stream["spec"].get("tags"), None);
    assert!(!stream["metadata"]["uid"].as_str().unwrap().is_empty());
}

#[test]
fn a_tag_follows_what_it_is_told() {
    for (kind, name, expected) in [
        ("ImageStreamTag", "web:v1", "sha256:2"),
        ("ImageStreamImage", "web@sha256:1", "sha256:1"),
        ("DockerImage", "quay.io/shop/web@sha256:9", "sha256:9"),
    ] {
        let mut streams = Streams::new("registry:5000");
        push(&mut streams, "web", "v1", "sha256:1");
        let told = tag_from(kind, name);
        streams.change("shop", "web", false, |stream| tags::write(stream, "stable", &told, false)).unwrap();
        push(&mut streams, "web", "v1", "sha256:2");
        assert_eq!(history(&streams, "web", "stable")[0], expected, "{kind}");
        let tag = tags::object(streams.get("shop", "web").unwrap(), "stable", Resource::StreamTags).unwrap();
        assert_eq!(tag["metadata"]["name"], "web:stable");
        assert_eq!(tag["tag"]["from"]["name"], name);
        assert_eq!(tag["image"]["metadata"]["name"], expected);
    }
}

#[test]
fn tags_that_follow_each_other_end() {
    let mut streams = Streams::new("registry:5000");
    for (tag, other) in [("one", "web:two"), ("two", "web:one")] {
        let told = tag_from("ImageStreamTag", other);
        streams.change("shop", "web", true, |stream| tags::write(stream, tag, &told, false)).unwrap();
    }
    for digest in ["sha256:1", "sha256:2"] {
        push(&mut streams, "web", "one", digest);
        assert_eq!(history(&streams, "web", "two")[0], digest);
        assert_eq!(history(&streams, "web", "one")[0], digest);
    }
}

#[test]
fn a_tag_from_another_stream_is_refused_until_that_is_there_and_does_not_follow_it() {
    let mut streams = Streams::new("registry:5000");
    push(&mut streams, "base", "v1", "sha256:1");
    let mut write = |kind: &str, name: &str, tag: &str| {
        let told = tag_from(kind, name);
        streams.change("shop", "web", true, |stream| tags::write(stream, tag, &told, false)).map(drop)
    };
    for (kind, name) in [
        ("ImageStreamTag", "gone:v1"),
        ("ImageStreamTag", "base:v2"),
        ("ImageStreamImage", "base@sha256:2"),
        ("ImageStreamImage", "web@sha256:1"),
    ] {
        let Err(Problem::Invalid(message)) = write(kind, name, "stable") else { panic!("{kind} {name} was taken") };
        let expected = format!(
            "ImageStream.image.openshift.io \"web\" is invalid: spec.tags[stable].from.name: Not found: {name:?}"
        );
        assert_eq!(message, expected);
    }
    write("ImageStreamTag", "base:v1", "stable").unwrap();
    write("ImageStreamImage", "base@sha256:1", "exact").unwrap();
    push(&mut streams, "base", "v1", "sha256:2");
    for tag in ["stable", "exact"] {
        assert_eq!(history(&streams, "web", tag), ["sha256:1"], "{tag}");
    }
}

#[test]
fn a_stream_whose_tags_are_from_nothing_is_refused_as_a_whole() {
    let mut streams = Streams::new("registry:5000");
    let from = json!({"kind": "ImageStreamTag", "name": "gone:v1"});
    let stream = json!({"metadata": {"name": "web"}, "spec": {"tags": [{"name": "stable", "from": from}]}});
    assert!(matches!(streams.create("shop", stream), Err(Problem::Invalid(_))));
    assert!(streams.get("shop", "web").is_err());
}

#[test]
fn what_is_deleted_takes_along_the_images_that_nothing_else_names() {
    let mut streams = Streams::new("registry:5000");
    push(&mut streams, "web", "v1", "sha256:1");
    push(&mut streams, "web", "v2", "sha256:1");
    push(&mut streams, "web", "v2", "sha256:2");
    let image = |digest: &str| Image { repository: "shop/web".to_owned(), digest: digest.to_owned() };
    assert_eq!(streams.delete_tag("shop", "web", "v2").unwrap(), [image("sha256:2")]);
    assert!(streams.delete_tag("shop", "web", "v2").is_err());
    assert_eq!(streams.delete("shop", "web").unwrap(), [image("sha256:1")]);
    assert_eq!(streams.list(None).count(), 0);
}

#[test]
fn a_stream_is_made_once_and_keeps_its_identity() {
    let mut streams = Streams::new("registry:5000");
    let stream = json!({"metadata": {"name": "web", "labels": {"app": "web"}}});
    let made = streams.create("shop", stream.clone()).unwrap();
    assert_eq!(made["metadata"]["labels"]["app"], "web");
    assert!(streams.create("shop", stream.clone()).is_err());
    let replaced = streams.replace("shop", "web", stream).unwrap();
    assert_eq!(replaced["metadata"]["uid"], made["metadata"]["uid"]);
    assert_ne!(replaced["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert!(streams.create("shop", json!({"metadata": {"name": "web:v1"}})).is_err());
}

#[test]
fn a_tag_is_told_once() {
    let mut streams = Streams::new("registry:5000");
    push(&mut streams, "web", "v1", "sha256:1");
    let told = tag_from("ImageStreamTag", "web:v1");
    let mut write =
        |replace| streams.change("shop", "web", false, |stream| tags::write(stream, "x", &told, replace)).is_ok();
    assert!(write(false) && !write(false) && write(true));
}

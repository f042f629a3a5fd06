//! A tag that follows another tag names it, so that a restore brings the other one first.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::v1::Backup;
use velero_plugin::item::{remove_annotation, set_annotation, text};
use velero_plugin::{BackupItemOutcome, Result};

use crate::action::{BackupStep, Resources};
use crate::context::Context;
use crate::lookups::types;
use crate::names::annotations;

/// Names the tag another tag follows.
pub(crate) struct Step;

#[async_trait]
impl BackupStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/04-imagestreamtag-backup-plugin"
    }

    fn resources(&self) -> Resources {
        &["imagestreamtags"]
    }

    async fn backup(&self, item: &Value, backup: &Backup, context: &Context) -> Result<BackupItemOutcome> {
        let lookups = context.lookups(backup).await?;
        let related = match followed(item) {
            Some(Followed::Tag { namespace, name }) => {
                let found = lookups.get(types::image_stream_tags().item(Some(namespace), name)).await;
                found.ok().flatten().map(|_| (namespace, name.to_owned()))
            }
            Some(Followed::Image { namespace, digest }) => {
                let tags = lookups.image_stream_tags(namespace).await.unwrap_or_default();
                tag_of_image(&tags, digest).map(|name| (namespace, name.to_owned()))
            }
            None => None,
        };
        Ok(BackupItemOutcome::changed(item, |item| annotate(item, related)))
    }
}

/// What a tag follows.
#[derive(Debug, PartialEq, Eq)]
enum Followed<'a> {
    Tag { namespace: &'a str, name: &'a str },
    Image { namespace: &'a str, digest: &'a str },
}

fn followed(item: &Value) -> Option<Followed<'_>> {
    let from = item.pointer("/tag/from")?;
    let own = text(item, "/metadata/namespace");
    let namespace = Some(text(from, "/namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or(own);
    let name = text(from, "/name");
    match text(from, "/kind") {
        "ImageStreamTag" => Some(Followed::Tag { namespace, name }),
        "ImageStreamImage" => match name.split_once('@') {
            Some((_, digest)) if !digest.is_empty() && !digest.contains('@') => {
                Some(Followed::Image { namespace, digest })
            }
            _ => None,
        },
        _ => None,
    }
}

/// The first tag that holds an image itself.
fn tag_of_image<'a>(tags: &'a [Value], digest: &str) -> Option<&'a str> {
    let holds = |tag: &&Value| {
        let own = tag.get("tag").is_none_or(Value::is_null) || text(tag, "/tag/from/kind") == "DockerImage";
        own && text(tag, "/image/metadata/name") == digest
    };
    tags.iter().find(holds).map(|tag| text(tag, "/metadata/name"))
}

fn annotate(item: &mut Value, related: Option<(&str, String)>) {
    remove_annotation(item, annotations::RELATED_TAG_NAMESPACE);
    remove_annotation(item, annotations::RELATED_TAG);
    if let Some((namespace, name)) = related {
        set_annotation(item, annotations::RELATED_TAG_NAMESPACE, namespace);
        set_annotation(item, annotations::RELATED_TAG, &name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tag_follows_is_found() {
        let tag = |namespace, name| Some(Followed::Tag { namespace, name });
        let image = |namespace, digest| Some(Followed::Image { namespace, digest });
        for (row, from, expected) in [
            ("no from", json!(null), None),
            ("docker", json!({"kind": "DockerImage", "name": "quay.io/a/b"}), None),
            ("tag here", json!({"kind": "ImageStreamTag", "name": "web:v1"}), tag("shop", "web:v1")),
            (
                "tag elsewhere",
                json!({"kind": "ImageStreamTag", "name": "web:v1", "namespace": "base"}),
                tag("base", "web:v1"),
            ),
            ("image here", json!({"kind": "ImageStreamImage", "name": "web@sha256:1"}), image("shop", "sha256:1")),
            (
                "image elsewhere",
                json!({"kind": "ImageStreamImage", "name": "web@sha256:1", "namespace": "base"}),
                image("base", "sha256:1"),
            ),
            ("image without digest", json!({"kind": "ImageStreamImage", "name": "web@"}), None),
            ("image with two", json!({"kind": "ImageStreamImage", "name": "a@b@c"}), None),
            ("image with none", json!({"kind": "ImageStreamImage", "name": "web"}), None),
        ] {
            let mut item = json!({"metadata": {"namespace": "shop"}, "tag": {}});
            if !from.is_null() {
                item["tag"]["from"] = from;
            }
            assert_eq!(followed(&item), expected, "{row}");
        }
    }

    #[test]
    fn the_tag_that_holds_an_image_is_found() {
        let tag = |name: &str, digest: &str, tag: Value| json!({"metadata": {"name": name}, "image": {"metadata": {"name": digest}}, "tag": tag});
        let tags = [
            tag("a:1", "sha256:1", json!({"from": {"kind": "ImageStreamTag"}})),
            tag("b:1", "sha256:1", json!({"from": {"kind": "DockerImage"}})),
            tag("c:1", "sha256:1", json!(null)),
            tag("d:1", "sha256:2", json!(null)),
            tag("e:1", "sha256:3", json!({"from": {"kind": "ImageStreamImage"}})),
        ];
        for (digest, expected) in
            [("sha256:1", Some("b:1")), ("sha256:2", Some("d:1")), ("sha256:3", None), ("sha256:4", None)]
        {
            assert_eq!(tag_of_image(&tags, digest), expected, "{digest}");
        }
    }

    #[test]
    fn what_an_earlier_backup_found_is_forgotten() {
        let old =
            json!({"migration.openshift.io/related-istag": "x:1", "migration.openshift.io/related-istag-ns": "y"});
        let new = json!({"migration.openshift.io/related-istag": "web:v1", "migration.openshift.io/related-istag-ns": "base"});
        for (related, expected) in [(None, json!({})), (Some(("base", "web:v1".to_owned())), new)] {
            let mut item = json!({"metadata": {"annotations": old}});
            annotate(&mut item, related);
            assert_eq!(item["metadata"]["annotations"], expected);
        }
    }
}

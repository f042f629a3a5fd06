//! Tags whose image is copied are made by the copy. Others come back, after the tag they follow: OpenShift refuses a tag
//! from a tag of another stream that is not there.
//!
//! | the tag is from | image in the internal registry | elsewhere |
//! |---|---|---|
//! | nothing | stays out | restored |
//! | an image of a stream of its namespace | stays out | restored |
//! | an image of a stream of another namespace, a tag, a Docker image | restored | restored |

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Restore;
use velero_plugin::item::{annotation, describe, remove, text};
use velero_plugin::{Error, RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::{Resources, RestoreStep};
use crate::context::Context;
use crate::images::arrivals::wait;
use crate::images::operations::Place;
use crate::lookups::types;
use crate::names::{IMAGE_GROUP, annotations};
use crate::workflow::{Work, mapped};

const NAME: &str = "openshift.io/04-imagestreamtag-restore-plugin";
const RESOURCE: &str = "imagestreamtags";

/// Restores tags that no copy makes.
pub(crate) struct Step;

#[async_trait]
impl RestoreStep for Step {
    fn name(&self) -> &'static str {
        NAME
    }

    fn resources(&self) -> Resources {
        &[RESOURCE]
    }

    async fn restore(&self, input: RestoreItemInput<'_>, context: &Context) -> Result<RestoreItemOutcome> {
        let outcome = restore(input);
        if let Some((namespace, tag)) =
            followed(input.item).filter(|_| !outcome.skip_restore && !context.is_preview(input.restore))
        {
            let (cluster, settings) = (context.cluster().await?, context.settings().await?);
            let place = Place { action: NAME, cluster, namespace: input.restore.namespace(), settings };
            let lookups = context.lookups(input.restore).await?;
            let arrival = wait(&lookups, &place, input.restore, (mapped(input.restore, namespace), tag)).await;
            arrival.map_err(|error| Error::Item(format!("{}: {error}", describe(input.item))))?;
        }
        Ok(outcome)
    }

    async fn are_ready(&self, items: &[ResourceIdentifier], work: &Restore, context: &Context) -> Result<bool> {
        let lookups = context.lookups(work).await?;
        for item in items {
            if item.group != IMAGE_GROUP || item.resource != RESOURCE {
                tracing::warn!("{} {} is no image stream tag and is not waited for", item.resource, item.name);
                continue;
            }
            let namespace = mapped(work, &item.namespace);
            if lookups.get(types::image_stream_tags().item(Some(namespace), &item.name)).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn restore(input: RestoreItemInput<'_>) -> RestoreItemOutcome {
    let Some(from) = input.item.pointer("/tag/from") else {
        return if is_internal(input.item) {
            RestoreItemOutcome::skipped()
        } else {
            with_related(input.item, RestoreItemOutcome::default())
        };
    };
    let namespace = text(from, "/namespace");
    let is_own = namespace.is_empty() || namespace == text(input.item, "/metadata/namespace");
    if text(from, "/kind") == "ImageStreamImage" && is_own && is_internal(input.item) {
        return RestoreItemOutcome::skipped();
    }
    let follows = matches!(text(from, "/kind"), "ImageStreamTag" | "ImageStreamImage");
    let new = input.restore.spec.namespace_mapping.get(namespace).filter(|_| follows);
    let outcome = RestoreItemOutcome::changed(input.item, |item| {
        // OpenShift refuses a tag whose annotations differ from those of the object.
        remove(item, "/tag", "annotations");
        if let Some(new) = new {
            item["tag"]["from"]["namespace"] = new.as_str().into();
        }
    });
    with_related(input.item, outcome)
}

/// The tag of another stream that has to be there before this one, by the namespace it had and its name.
fn followed(item: &Value) -> Option<(&str, &str)> {
    let own = text(item, "/metadata/namespace");
    let from = item.pointer("/tag/from")?;
    let (namespace, stream) = stream_of(from, own)?;
    let own_stream = text(item, "/metadata/name").split(':').next();
    if namespace == own && own_stream == Some(stream) {
        return None;
    }
    if text(from, "/kind") == "ImageStreamTag" {
        return Some((namespace, text(from, "/name")));
    }
    let tag = annotation(item, annotations::RELATED_TAG).unwrap_or_default();
    (!tag.is_empty()).then(|| (annotation(item, annotations::RELATED_TAG_NAMESPACE).unwrap_or_default(), tag))
}

/// The stream that a tag is from, by namespace and name; `None` where it is from something else or does not name it.
pub(crate) fn stream_of<'a>(from: &'a Value, own: &'a str) -> Option<(&'a str, &'a str)> {
    let mark = match text(from, "/kind") {
        "ImageStreamTag" => ':',
        "ImageStreamImage" => '@',
        _ => return None,
    };
    let namespace = Some(text(from, "/namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or(own);
    Some((namespace, text(from, "/name").split_once(mark)?.0))
}

/// Whether the image is in the internal registry of the old cluster.
fn is_internal(item: &Value) -> bool {
    let registry = annotation(item, annotations::BACKUP_REGISTRY_HOSTNAME).unwrap_or_default();
    let image = text(item, "/image/dockerImageReference");
    !registry.is_empty() && image.split('/').next() == Some(registry)
}

/// Asks for the tag that this one follows.
fn with_related(item: &Value, outcome: RestoreItemOutcome) -> RestoreItemOutcome {
    let namespace = annotation(item, annotations::RELATED_TAG_NAMESPACE).unwrap_or_default();
    let name = annotation(item, annotations::RELATED_TAG).unwrap_or_default();
    let both = !namespace.is_empty() && !name.is_empty();
    let additional_items =
        both.then(|| ResourceIdentifier::new(IMAGE_GROUP, RESOURCE, namespace, name)).into_iter().collect();
    RestoreItemOutcome { additional_items, wait_for_additional_items: true, ..outcome }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Expected, check, mapping, run};

    fn tag(image: &str, from: Option<Value>) -> Value {
        let mut item = json!({
            "kind": "ImageStreamTag",
            "metadata": {
                "name": "web:v1", "namespace": "shop",
                "annotations": {"openshift.io/backup-registry-hostname": "old:5000"},
            },
            "image": {"dockerImageReference": image, "dockerImageManifestMediaType": "x"},
        });
        if let Some(from) = from {
            item["tag"] = json!({"name": "v1", "from": from, "importPolicy": {"scheduled": true}});
        }
        item
    }

    #[test]
    fn tags_come_back_when_no_copy_makes_them() {
        let (internal, external) = ("old:5000/shop/web@sha256:1", "quay.io/shop/web@sha256:1");
        let docker = || Some(json!({"kind": "DockerImage", "name": "quay.io/shop/web"}));
        let tag_of =
            |namespace: &str| Some(json!({"kind": "ImageStreamTag", "name": "base:1", "namespace": namespace}));
        let tag_here = || Some(json!({"kind": "ImageStreamTag", "name": "base:1"}));
        let image =
            |namespace: &str| Some(json!({"kind": "ImageStreamImage", "name": "web@sha256:1", "namespace": namespace}));
        let image_here = || Some(json!({"kind": "ImageStreamImage", "name": "web@sha256:1"}));
        let item = Expected::Item;
        for (row, before, expected) in [
            ("nothing, internal", tag(internal, None), Expected::Skip),
            ("nothing, external", tag(external, None), Expected::Same),
            ("nothing, similar registry", tag("old:50001/shop/web", None), Expected::Same),
            ("docker, internal", tag(internal, docker()), Expected::Same),
            ("docker, external", tag(external, docker()), Expected::Same),
            ("tag here, internal", tag(internal, tag_here()), Expected::Same),
            ("tag of a mapped namespace", tag(internal, tag_of("shop")), item(tag(internal, tag_of("store")))),
            ("tag of another namespace", tag(external, tag_of("base")), Expected::Same),
            ("image here, internal", tag(internal, image_here()), Expected::Skip),
            ("image of its namespace, internal", tag(internal, image("shop")), Expected::Skip),
            ("image here, external", tag(external, image_here()), Expected::Same),
            ("image of its namespace, external", tag(external, image("shop")), item(tag(external, image("store")))),
            ("image of another namespace", tag(internal, image("base")), Expected::Same),
        ] {
            let restore_of = mapping(&json!({"shop": "store"}));
            check(row, &before, run(&before, &restore_of, |input| Ok(restore(input))), &expected);
        }
    }

    #[test]
    fn a_tag_waits_for_a_tag_of_another_stream() {
        let from =
            |kind: &str, name: &str, namespace: &str| Some(json!({"kind": kind, "name": name, "namespace": namespace}));
        for (from, expected) in [
            (None, None),
            (from("DockerImage", "quay.io/a/b:1", ""), None),
            (from("ImageStreamTag", "web:stable", ""), None),
            (from("ImageStreamTag", "stable", ""), None),
            (from("ImageStreamTag", "base:1", ""), Some(("shop", "base:1"))),
            (from("ImageStreamTag", "web:1", "other"), Some(("other", "web:1"))),
            (from("ImageStreamImage", "base@sha256:1", "other"), Some(("other", "base:9"))),
            (from("ImageStreamImage", "web@sha256:1", ""), None),
        ] {
            let mut item = tag("quay.io/shop/web", from.clone());
            item["metadata"]["annotations"]["migration.openshift.io/related-istag"] = json!("base:9");
            item["metadata"]["annotations"]["migration.openshift.io/related-istag-ns"] = json!("other");
            assert_eq!(followed(&item), expected, "{from:?}");
        }
    }

    #[test]
    fn annotations_inside_a_tag_that_refers_are_dropped() {
        let from = || Some(json!({"kind": "DockerImage", "name": "quay.io/shop/web"}));
        let mut item = tag("quay.io/shop/web", from());
        item["tag"]["annotations"] = json!({"a": "b"});
        let outcome = run(&item, &mapping(&json!({})), |input| Ok(restore(input)));
        check("dropped", &item, outcome, &Expected::Item(tag("quay.io/shop/web", from())));
    }

    #[test]
    fn the_tag_it_follows_comes_first() {
        for (namespace, name, expected) in [("base", "ruby:2", 1), ("base", "", 0), ("", "ruby:2", 0)] {
            let mut item = tag("quay.io/shop/web", None);
            item["metadata"]["annotations"] = json!({
                "migration.openshift.io/related-istag-ns": namespace, "migration.openshift.io/related-istag": name,
            });
            let outcome = run(&item, &mapping(&json!({"base": "other"})), |input| Ok(restore(input))).unwrap();
            let tag = ResourceIdentifier::new("image.openshift.io", "imagestreamtags", namespace, name);
            assert_eq!(outcome.additional_items, vec![tag; expected], "{namespace}/{name}");
            assert!(outcome.wait_for_additional_items);
        }
    }
}

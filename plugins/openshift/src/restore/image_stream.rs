//! An image stream comes back with its images: they are copied from the migration registry, and the push makes the stream
//! and its tags. The tags that follow something else come back as image stream tags. A stream without copies comes back
//! itself, after the streams that its tags are from.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Restore;
use velero_plugin::item::{annotation, elements, remove_annotation, text};
use velero_plugin::{OperationProgress, RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::{Resources, RestoreStep};
use crate::backup::image_stream::{migration_registry, waits};
use crate::compat::Compat;
use crate::context::Context;
use crate::images::operations::Place;
use crate::images::plan::{ImageCopy, Route, copies};
use crate::images::record::{self, Plan};
use crate::lookups::types;
use crate::names::{IMAGE_GROUP, TRUE, annotations};
use crate::restore::image_stream_tag::stream_of;
use crate::settings::{ImageCopyMode, Settings};
use crate::workflow::{Work, mapped};

const NAME: &str = "openshift.io/19-is-restore-plugin";
const RESOURCE: &str = "imagestreams";

/// Copies the images of a stream.
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
        let settings = context.settings().await?;
        let Some(copies) = decide(input, settings)? else {
            let additional_items = missing_streams(input, context).await?;
            return Ok(RestoreItemOutcome {
                additional_items,
                ..RestoreItemOutcome::changed(input.item, end_image_copy)
            });
        };
        if copies.is_empty() || context.is_preview(input.restore) {
            return Ok(RestoreItemOutcome::skipped());
        }
        let internal = annotation(input.item, annotations::RESTORE_REGISTRY_HOSTNAME).unwrap_or_default().to_owned();
        let plan = Plan { internal, copies };
        let cluster = context.cluster().await?;
        let place = Place { action: NAME, cluster, namespace: input.restore.namespace(), settings };
        let lookups = context.lookups(input.restore).await?;
        if waits(settings, context) {
            place.run(&plan).await?;
            lookups.arrivals.expect(&plan.copies, None);
            return Ok(RestoreItemOutcome::skipped());
        }
        let id = record::create(cluster, input.restore, &plan).await?;
        lookups.arrivals.expect(&plan.copies, Some(&id));
        place.start(&id, plan).await?;
        Ok(RestoreItemOutcome { operation_id: Some(id), ..RestoreItemOutcome::skipped() })
    }

    async fn progress(&self, operation_id: &str, restore: &Restore, context: &Context) -> Result<OperationProgress> {
        let (cluster, settings) = (context.cluster().await?, context.settings().await?);
        Place { action: NAME, cluster, namespace: restore.namespace(), settings }.progress(operation_id).await
    }

    async fn cancel(&self, operation_id: &str, restore: &Restore, context: &Context) -> Result<()> {
        let (cluster, settings) = (context.cluster().await?, context.settings().await?);
        Place { action: NAME, cluster, namespace: restore.namespace(), settings }.cancel(operation_id).await
    }
}

/// The images to copy in place of the stream; `None` when the stream itself comes back.
fn decide(input: RestoreItemInput<'_>, settings: &Settings) -> Result<Option<Vec<ImageCopy>>> {
    let RestoreItemInput { item, item_from_backup, restore } = input;
    let says = |key: &str| annotation(item, key) == Some(TRUE);
    if says(annotations::DISABLE_IMAGE_COPY) || says(annotations::SKIP_IMAGE_COPY) {
        return Ok(None);
    }
    if settings.image_copy == ImageCopyMode::Off {
        return Ok(None);
    }
    // Nothing would make a stream that waits for its first image.
    if is_empty(item_from_backup) && !settings.compat(Compat::SkipEmptyStreams) {
        return Ok(None);
    }
    let route = Route {
        local: annotation(item, annotations::BACKUP_REGISTRY_HOSTNAME).unwrap_or_default(),
        source: migration_registry(item, "Restore")?,
        destination: annotation(item, annotations::RESTORE_REGISTRY_HOSTNAME).unwrap_or_default(),
        namespace: mapped(restore, text(item, "/metadata/namespace")),
        of_backup: true,
    };
    copies(item_from_backup, &route, settings).map(Some)
}

/// What was said about image copies ends with the restore, unless a user said it: the next backup takes the images.
fn end_image_copy(stream: &mut Value) {
    if annotation(stream, annotations::SKIP_OF_USER) != Some(TRUE) {
        remove_annotation(stream, annotations::SKIP_IMAGE_COPY);
    }
    remove_annotation(stream, annotations::SKIP_OF_USER);
    remove_annotation(stream, annotations::DISABLE_IMAGE_COPY);
}

/// The streams that tags of a stream are from and that are not there yet: OpenShift would refuse the stream.
async fn missing_streams(input: RestoreItemInput<'_>, context: &Context) -> Result<Vec<ResourceIdentifier>> {
    let lookups = context.lookups(input.restore).await?;
    let mut missing = Vec::new();
    for (namespace, name) in other_streams(input.item) {
        let target = mapped(input.restore, &namespace);
        if lookups.get(types::image_streams().item(Some(target), &name)).await?.is_none() {
            missing.push(ResourceIdentifier::new(IMAGE_GROUP, RESOURCE, &namespace, &name));
        }
    }
    Ok(missing)
}

/// The other streams that tags of a stream are from, by namespace and name.
fn other_streams(stream: &Value) -> BTreeSet<(String, String)> {
    let [own, own_name] = ["/metadata/namespace", "/metadata/name"].map(|it| text(stream, it));
    let other = |tag: &Value| {
        let (namespace, name) = stream_of(tag.get("from")?, own)?;
        (namespace != own || name != own_name).then(|| (namespace.to_owned(), name.to_owned()))
    };
    elements(stream, "/spec/tags").filter_map(other).collect()
}

fn is_empty(stream: &Value) -> bool {
    let mut tags = elements(stream, "/spec/tags").chain(elements(stream, "/status/tags"));
    tags.next().is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{compat, merge, reset, restore as restore_of};

    const IMAGE: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn stream(annotations: &Value, reference: &str) -> Value {
        let mut all = json!({
            "openshift.io/backup-registry-hostname": "old:5000", "openshift.io/restore-registry-hostname": "new:5000",
            "openshift.io/migration-registry": "mig:5000",
        });
        merge(&mut all, annotations);
        let items = json!([{"image": IMAGE, "dockerImageReference": format!("{reference}@{IMAGE}")}]);
        let tags = if reference.is_empty() { json!([]) } else { json!([{"tag": "v1", "items": items}]) };
        json!({
            "kind": "ImageStream", "metadata": {"name": "web", "namespace": "shop", "annotations": all},
            "spec": {"lookupPolicy": {"local": true}}, "status": {"tags": tags},
        })
    }

    #[test]
    fn what_was_said_about_copies_ends_with_the_restore_unless_a_user_said_it() {
        let skip = json!({"openshift.io/skip-image-copy": "true"});
        let disabled = json!({"migration.openshift.io/disable-image-copy": "true"});
        let of_user = json!({"openshift.io/skip-image-copy": "true", "openshift.io/skip-image-copy-of-user": "true"});
        for (row, said, stays) in
            [("skipped", &skip, &json!({})), ("disabled", &disabled, &json!({})), ("by the user", &of_user, &skip)]
        {
            let mut item = stream(said, "quay.io/shop/web");
            end_image_copy(&mut item);
            assert_eq!(item, stream(stays, "quay.io/shop/web"), "{row}");
        }
    }

    #[test]
    fn a_stream_comes_after_the_streams_that_its_tags_are_from() {
        let tag = |kind: &str, name: &str, namespace: &str| json!({"name": "t", "from": {"kind": kind, "name": name, "namespace": namespace}});
        let item = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"tags": [
            tag("ImageStreamTag", "base:v1", ""), tag("ImageStreamImage", "base@sha256:1", "shop"),
            tag("ImageStreamTag", "web:v1", ""), tag("ImageStreamTag", "v1", ""), tag("DockerImage", "quay.io/a/b:v1", ""),
            tag("ImageStreamTag", "ruby:2", "openshift"), {"name": "own"},
        ]}});
        let pair = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
        assert_eq!(other_streams(&item), BTreeSet::from([pair("openshift", "ruby"), pair("shop", "base")]));
    }

    #[test]
    fn the_images_of_a_stream_are_copied_in_its_place() {
        let one = "mig:5000/shop/web@{} > new:5000/store/web:v1".replace("{}", IMAGE);
        let internal = "old:5000/shop/web";
        let disabled = json!({"migration.openshift.io/disable-image-copy": "true"});
        let skip = json!({"openshift.io/skip-image-copy": "true"});
        let nowhere = json!({"openshift.io/migration-registry": ""});
        let bucket = json!({"openshift.io/migration-registry": "bsl://"});
        let no_registry = json!({"openshift.io/restore-registry-hostname": ""});
        let now = Settings::default();
        let off = Settings { image_copy: ImageCopyMode::Off, ..Settings::default() };
        let old_way = compat(&[Compat::SkipEmptyStreams]);
        let plain = json!({});
        for (row, item, settings, expected) in [
            ("internal", stream(&plain, internal), &now, Ok(Some(vec![one]))),
            ("external", stream(&plain, "quay.io/shop/web"), &now, Ok(Some(vec![]))),
            ("disabled", stream(&disabled, internal), &now, Ok(None)),
            ("skipped", stream(&skip, internal), &now, Ok(None)),
            ("switched off", stream(&plain, internal), &off, Ok(None)),
            ("empty", stream(&plain, ""), &now, Ok(None)),
            ("empty, old way", stream(&plain, ""), &old_way, Ok(Some(vec![]))),
            ("no migration registry", stream(&nowhere, internal), &now, Err("set it on the Restore")),
            ("in the bucket", stream(&bucket, internal), &now, Err("migrationRegistry")),
            ("no internal registry", stream(&no_registry, internal), &now, Err("copy destination registry not found")),
            ("no internal registry needed", stream(&no_registry, "quay.io/a/b"), &now, Ok(Some(vec![]))),
        ] {
            let work = restore_of(&json!({"spec": {"namespaceMapping": {"shop": "store"}}}));
            let shown = reset(&item);
            let input = RestoreItemInput { item: &shown, item_from_backup: &item, restore: &work };
            let name = |copy: &ImageCopy| format!("{} > {}", copy.source, copy.destination);
            let found =
                decide(input, settings).map(|copies| copies.map(|all| all.iter().map(name).collect::<Vec<_>>()));
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{row}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{row}: {error}"),
                (found, _) => panic!("{row}: {found:?}"),
            }
        }
    }
}

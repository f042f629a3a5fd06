//! An image stream takes its images along: those of the internal registry are copied to the migration registry.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::v1::Backup;
use velero_plugin::item::{annotation, describe, remove, set_annotation, text};
use velero_plugin::{BackupItemOutcome, Error, OperationProgress, Result};

use crate::action::{BackupStep, Resources};
use crate::context::Context;
use crate::images::operations::Place;
use crate::images::plan::{Route, copies, update_digests};
use crate::images::record::{self, Plan};
use crate::names::{TRUE, annotations};
use crate::settings::{ImageCopyMode, Settings};
use crate::workflow::Work;

const NAME: &str = "openshift.io/19-is-backup-plugin";
/// A registry in the bucket of a storage location, which the plugin of OADP 1.1 and later keeps.
const IN_BUCKET: &str = "bsl://";

/// Copies the images of a stream.
pub(crate) struct Step;

#[async_trait]
impl BackupStep for Step {
    fn name(&self) -> &'static str {
        NAME
    }

    fn resources(&self) -> Resources {
        &["imagestreams"]
    }

    async fn backup(&self, item: &Value, backup: &Backup, context: &Context) -> Result<BackupItemOutcome> {
        let settings = context.settings().await?;
        let registry = match decide(item, backup, settings)? {
            Decision::Keep => return Ok(BackupItemOutcome::default()),
            Decision::Empty => return Ok(BackupItemOutcome::changed(item, empty)),
            Decision::CopyTo(registry) => registry,
        };
        let internal = annotation(item, annotations::BACKUP_REGISTRY_HOSTNAME).unwrap_or_default();
        let namespace = text(item, "/metadata/namespace");
        let route = Route { local: internal, source: internal, destination: registry, namespace, of_backup: false };
        let plan = Plan { internal: internal.to_owned(), copies: copies(item, &route, settings)? };
        if plan.copies.is_empty() {
            return Ok(BackupItemOutcome::default());
        }
        let cluster = context.cluster().await?;
        let place = Place { action: NAME, cluster, namespace: backup.namespace(), settings };
        if waits(settings, context) {
            let ended = place.run(&plan).await?;
            return Ok(BackupItemOutcome::changed(item, |item| update_digests(item, &ended.digests)));
        }
        let id = record::create(cluster, backup, &plan).await?;
        place.start(&id, plan).await?;
        Ok(BackupItemOutcome { operation_id: Some(id), ..BackupItemOutcome::default() })
    }

    async fn progress(&self, operation_id: &str, backup: &Backup, context: &Context) -> Result<OperationProgress> {
        let (cluster, settings) = (context.cluster().await?, context.settings().await?);
        Place { action: NAME, cluster, namespace: backup.namespace(), settings }.progress(operation_id).await
    }

    async fn cancel(&self, operation_id: &str, backup: &Backup, context: &Context) -> Result<()> {
        let (cluster, settings) = (context.cluster().await?, context.settings().await?);
        Place { action: NAME, cluster, namespace: backup.namespace(), settings }.cancel(operation_id).await
    }
}

/// What happens to the images of a stream.
#[derive(Debug, PartialEq, Eq)]
enum Decision<'a> {
    Keep,
    Empty,
    CopyTo(&'a str),
}

fn decide<'a>(item: &'a Value, backup: &Backup, settings: &Settings) -> Result<Decision<'a>> {
    if backup.annotation(annotations::DISABLE_IMAGE_COPY) == TRUE {
        return Ok(Decision::Empty);
    }
    if annotation(item, annotations::SKIP_IMAGE_COPY) == Some(TRUE) || settings.image_copy == ImageCopyMode::Off {
        return Ok(Decision::Keep);
    }
    migration_registry(item, "Backup").map(Decision::CopyTo)
}

/// The migration registry that the common action wrote on a stream.
pub(crate) fn migration_registry<'a>(item: &'a Value, work: &str) -> Result<&'a str> {
    let registry = annotation(item, annotations::MIGRATION_REGISTRY).unwrap_or_default();
    let (stream, key) = (describe(item), annotations::MIGRATION_REGISTRY);
    if registry.is_empty() {
        let problem = format!("{stream}: migration registry not found: annotation {key} is empty");
        return Err(Error::Item(format!("{problem}; set it on the {work}")));
    }
    if registry.starts_with(IN_BUCKET) {
        let problem =
            format!("{stream}: its images are in the bucket of the backup ({registry}), which is not supported");
        return Err(Error::Item(format!("{problem}; give a registry with the setting migrationRegistry")));
    }
    Ok(registry)
}

/// Whether the stream has to wait for its images: always when their digests may change, for they are part of it, and when
/// the process will not live long enough to copy them meanwhile.
pub(crate) fn waits(settings: &Settings, context: &Context) -> bool {
    settings.image_copy == ImageCopyMode::Sync || settings.changes_digests() || !context.outlives_calls
}

/// A stream without images.
fn empty(item: &mut Value) {
    set_annotation(item, annotations::DISABLE_IMAGE_COPY, TRUE);
    for place in ["/spec", "/status"] {
        remove(item, place, "tags");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{backup, migration};

    #[test]
    fn a_stream_is_copied_to_the_registry_it_names() {
        let to = |registry: &str| json!({"openshift.io/migration-registry": registry});
        let skip = json!({"openshift.io/skip-image-copy": "true", "openshift.io/migration-registry": "mig:5000"});
        let off = Settings { image_copy: ImageCopyMode::Off, ..Settings::default() };
        let now = Settings::default();
        let disabled = json!({"metadata": {"annotations": {"migration.openshift.io/disable-image-copy": "true"}}});
        let disabled_migration = migration(&json!({"migration.openshift.io/disable-image-copy": "true"}));
        let (plain, cam) = (json!({}), migration(&json!({})));
        for (row, work, annotations, settings, expected) in [
            ("migration", &cam, to("mig:5000"), &now, Ok(Decision::CopyTo("mig:5000"))),
            (
                "migration without registry",
                &cam,
                to(""),
                &now,
                Err("annotation openshift.io/migration-registry is empty"),
            ),
            ("migration, disabled", &disabled_migration, to("mig:5000"), &now, Ok(Decision::Empty)),
            ("backup with OADP", &plain, to("route.example"), &now, Ok(Decision::CopyTo("route.example"))),
            ("backup without OADP", &plain, json!({"openshift.io/skip-image-copy": "true"}), &now, Ok(Decision::Keep)),
            ("backup, disabled", &disabled, to("mig:5000"), &now, Ok(Decision::Empty)),
            ("skipped", &cam, skip, &now, Ok(Decision::Keep)),
            ("switched off", &cam, to("mig:5000"), &off, Ok(Decision::Keep)),
            ("in the bucket", &plain, to("bsl://"), &now, Err("not supported")),
            ("no annotations", &plain, json!(null), &now, Err("ImageStream shop/web: migration registry not found")),
        ] {
            let metadata = json!({"name": "web", "namespace": "shop", "annotations": annotations});
            let item = json!({"kind": "ImageStream", "metadata": metadata});
            match (decide(&item, &backup(work), settings), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{row}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{row}: {error}"),
                (found, _) => panic!("{row}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_stream_without_images_keeps_everything_else() {
        let mut item = json!({
            "kind": "ImageStream", "metadata": {"name": "web"},
            "spec": {"lookupPolicy": {"local": true}, "tags": [{"name": "v1"}]},
            "status": {"dockerImageRepository": "x", "tags": [{"tag": "v1"}]},
        });
        empty(&mut item);
        let annotations = json!({"migration.openshift.io/disable-image-copy": "true"});
        let expected = json!({
            "kind": "ImageStream", "metadata": {"name": "web", "annotations": annotations},
            "spec": {"lookupPolicy": {"local": true}}, "status": {"dockerImageRepository": "x"},
        });
        assert_eq!(item, expected);
    }
}

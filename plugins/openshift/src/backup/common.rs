//! Items that name images say where they come from: the version of the cluster, its registry, and for image streams the
//! registry that images are copied to.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::v1::Backup;
use velero_plugin::item::{annotation, remove_annotation, set_annotation, text};
use velero_plugin::{BackupItemOutcome, ResourceSelector, Result};

use crate::action::{BackupStep, Resources};
use crate::compat::Compat;
use crate::context::Context;
use crate::names::{TRUE, annotations};
use crate::settings::Settings;
use crate::workflow::Work;

/// What names images, or runs them.
pub(crate) const RESOURCES: Resources = &[
    "pods",
    "imagestreams",
    "imagestreams.image.openshift.io",
    "imagestreamtags",
    "imagestreamtags.image.openshift.io",
    "deployments",
    "deployments.apps",
    "deployments.extensions",
    "deploymentconfigs",
    "deploymentconfigs.apps.openshift.io",
    "jobs",
    "jobs.batch",
    "cronjobs",
    "cronjobs.batch",
    "statefulsets",
    "statefulsets.apps",
    "daemonsets",
    "daemonsets.apps",
    "daemonsets.extensions",
    "replicasets",
    "replicasets.apps",
    "replicasets.extensions",
    "replicationcontroller",
    "buildconfigs",
    "buildconfigs.build.openshift.io",
];

/// Says where an item comes from.
pub(crate) struct Step;

/// What is written on an item.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) server_version: String,
    pub(crate) registry_hostname: String,
    /// Where images are copied to; `Some(None)` when there is no such place. `None` leaves the item alone.
    pub(crate) migration_registry: Option<Option<String>>,
}

#[async_trait]
impl BackupStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/01-common-backup-plugin"
    }

    fn resources(&self) -> Resources {
        RESOURCES
    }

    fn applies_to(&self, settings: &Settings) -> ResourceSelector {
        selector(settings)
    }

    async fn backup(&self, item: &Value, backup: &Backup, context: &Context) -> Result<BackupItemOutcome> {
        let (lookups, settings) = (context.lookups(backup).await?, context.settings().await?);
        let mut facts = Facts {
            server_version: lookups.version().await?.to_string(),
            registry_hostname: lookups.registry_hostname(settings).await?.to_owned(),
            migration_registry: None,
        };
        if wants_registry(item, settings) {
            facts.migration_registry = Some(match backup.is_migration() {
                true => Some(backup.annotation(annotations::MIGRATION_REGISTRY).to_owned()),
                false => {
                    let found = lookups.oadp_registry(backup.namespace(), &backup.spec.storage_location).await?;
                    found.map(str::to_owned).or_else(|| settings.migration_registry.clone())
                }
            });
        }
        Ok(BackupItemOutcome::changed(item, |item| annotate(item, &facts)))
    }
}

/// What both common actions apply to.
pub(crate) fn selector(settings: &Settings) -> ResourceSelector {
    match settings.compat(Compat::EveryKind) {
        true => ResourceSelector::default(),
        false => ResourceSelector::resources(RESOURCES),
    }
}

/// Whether an item says where images are copied to.
pub(crate) fn wants_registry(item: &Value, settings: &Settings) -> bool {
    text(item, "/kind") == "ImageStream" || settings.compat(Compat::EveryKind)
}

fn annotate(item: &mut Value, facts: &Facts) {
    if facts.migration_registry.is_some() {
        annotate_user(item);
    }
    set_annotation(item, annotations::BACKUP_SERVER_VERSION, &facts.server_version);
    set_annotation(item, annotations::BACKUP_REGISTRY_HOSTNAME, &facts.registry_hostname);
    annotate_registry(item, facts);
}

/// Tells what a user wrote on a stream from what backups write, which is to end with the restore.
fn annotate_user(item: &mut Value) {
    remove_annotation(item, annotations::DISABLE_IMAGE_COPY);
    match annotation(item, annotations::SKIP_IMAGE_COPY) == Some(TRUE) {
        true => set_annotation(item, annotations::SKIP_OF_USER, TRUE),
        false => remove_annotation(item, annotations::SKIP_OF_USER),
    }
}

/// Says where images are copied to, or that they are not.
pub(crate) fn annotate_registry(item: &mut Value, facts: &Facts) {
    match &facts.migration_registry {
        Some(Some(registry)) => set_annotation(item, annotations::MIGRATION_REGISTRY, registry),
        Some(None) => set_annotation(item, annotations::SKIP_IMAGE_COPY, TRUE),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::compat;

    #[test]
    fn an_item_says_where_it_comes_from() {
        let both = json!({
            "openshift.io/backup-server-version": "1.27", "openshift.io/backup-registry-hostname": "registry:5000",
        });
        let with = |key: &str, value: &str| {
            let mut annotations = both.clone();
            annotations[key] = json!(value);
            annotations
        };
        for (row, before, registry, after) in [
            ("no annotations", json!({}), None, both.clone()),
            ("null annotations", json!({"annotations": null}), None, both.clone()),
            ("others stay", json!({"annotations": {"a": "b"}}), None, with("a", "b")),
            (
                "migration or OADP",
                json!({}),
                Some(Some("migration:5000")),
                with("openshift.io/migration-registry", "migration:5000"),
            ),
            ("migration without a registry", json!({}), Some(Some("")), with("openshift.io/migration-registry", "")),
            ("backup without OADP", json!({}), Some(None), with("openshift.io/skip-image-copy", "true")),
            (
                "left by an earlier backup",
                json!({"annotations": {
                    "migration.openshift.io/disable-image-copy": "true", "openshift.io/skip-image-copy-of-user": "true",
                }}),
                Some(Some("migration:5000")),
                with("openshift.io/migration-registry", "migration:5000"),
            ),
            ("skipped by the user", json!({"annotations": {"openshift.io/skip-image-copy": "true"}}), Some(None), {
                let mut skipped = with("openshift.io/skip-image-copy", "true");
                skipped["openshift.io/skip-image-copy-of-user"] = json!("true");
                skipped
            }),
        ] {
            let facts = Facts {
                server_version: "1.27".to_owned(),
                registry_hostname: "registry:5000".to_owned(),
                migration_registry: registry.map(|registry| registry.map(str::to_owned)),
            };
            let mut item = json!({"kind": "ImageStream", "metadata": before, "unknown": {"field": 1}});
            annotate(&mut item, &facts);
            assert_eq!(item["metadata"]["annotations"], after, "{row}");
            assert_eq!(item["unknown"]["field"], 1, "{row}");
        }
    }

    #[test]
    fn only_image_streams_say_where_images_go_unless_the_old_way_is_asked_for() {
        for (kind, everywhere, expected) in
            [("ImageStream", false, true), ("Pod", false, false), ("Pod", true, true), ("Secret", true, true)]
        {
            let settings = compat(if everywhere { &[Compat::EveryKind] } else { &[] });
            assert_eq!(wants_registry(&json!({"kind": kind}), &settings), expected, "{kind}");
            assert_eq!(selector(&settings).included_resources.is_empty(), everywhere, "{kind}");
        }
    }
}

//! Items that name images say where they are restored: the version of the cluster, its registry, and for image streams
//! the registry that images are copied from. In a migration they are labelled with it.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::v1::Restore;
use velero_plugin::item::{set_annotation, set_label, text};
use velero_plugin::{Error, ResourceSelector, RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::{Resources, RestoreStep};
use crate::backup::common::{Facts, RESOURCES, annotate_registry, selector, wants_registry};
use crate::compat::Compat;
use crate::context::Context;
use crate::lookups::Lookups;
use crate::names::{annotations, labels};
use crate::settings::Settings;
use crate::workflow::Work;

/// Says where an item is restored.
pub(crate) struct Step;

#[async_trait]
impl RestoreStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/01-common-restore-plugin"
    }

    fn resources(&self) -> Resources {
        RESOURCES
    }

    fn applies_to(&self, settings: &Settings) -> ResourceSelector {
        selector(settings)
    }

    async fn restore(&self, input: RestoreItemInput<'_>, context: &Context) -> Result<RestoreItemOutcome> {
        let (lookups, settings) = (context.lookups(input.restore).await?, context.settings().await?);
        let mut facts = Facts {
            server_version: lookups.version().await?.to_string(),
            registry_hostname: lookups.registry_hostname(settings).await?.to_owned(),
            migration_registry: None,
        };
        if wants_registry(input.item, settings) {
            facts.migration_registry = Some(match input.restore.is_migration() {
                true => Some(input.restore.annotation(annotations::MIGRATION_REGISTRY).to_owned()),
                false => registry(input.restore, &lookups, settings).await?,
            });
        }
        Ok(RestoreItemOutcome::changed(input.item, |item| annotate(item, input.restore, &facts, settings)))
    }
}

/// The registry of the location that the backup is in.
async fn registry(restore: &Restore, lookups: &Lookups, settings: &Settings) -> Result<Option<String>> {
    let missing = || {
        let name = &restore.spec.backup_name;
        Error::Item(format!("BackupStorageLocation not found: backup {name}, which would name it, does not exist"))
    };
    let backup = lookups.backup_of(restore).await?.ok_or_else(missing)?;
    let found = lookups.oadp_registry(restore.namespace(), text(backup, "/spec/storageLocation")).await?;
    Ok(found.map(str::to_owned).or_else(|| settings.migration_registry.clone()))
}

fn annotate(item: &mut Value, restore: &Restore, facts: &Facts, settings: &Settings) {
    set_annotation(item, annotations::RESTORE_SERVER_VERSION, &facts.server_version);
    set_annotation(item, annotations::RESTORE_REGISTRY_HOSTNAME, &facts.registry_hostname);
    annotate_registry(item, facts);
    if !restore.is_migration() {
        return;
    }
    for key in [labels::MIGRATED_BY_MIGRATION, labels::MIGRATED_BY_PLAN] {
        let value = restore.label(key);
        if !value.is_empty() || settings.compat(Compat::EmptyMigrationLabels) {
            set_label(item, key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{compat, merge, migration, restore};

    #[test]
    fn an_item_says_where_it_is_restored() {
        let plain = json!({});
        let moved = migration(&json!({}));
        let mut labelled = moved.clone();
        merge(
            &mut labelled,
            &json!({"metadata": {"labels": {
                "migration.openshift.io/migrated-by-migmigration": "m-1", "migration.openshift.io/migrated-by-migplan": "p-1",
            }}}),
        );
        let both = json!({
            "migration.openshift.io/migrated-by-migmigration": "m-1", "migration.openshift.io/migrated-by-migplan": "p-1",
        });
        let empty = json!({
            "migration.openshift.io/migrated-by-migmigration": "", "migration.openshift.io/migrated-by-migplan": "",
        });
        let registry = |value: &str| json!({"openshift.io/migration-registry": value});
        let skip = json!({"openshift.io/skip-image-copy": "true"});
        for (row, work, facts, settings, further, labels) in [
            ("restore of a pod", &plain, None, compat(&[]), json!({}), json!(null)),
            ("restore of a stream", &plain, Some(Some("route")), compat(&[]), registry("route"), json!(null)),
            ("restore without OADP", &plain, Some(None), compat(&[]), skip, json!(null)),
            ("migration", &labelled, Some(Some("m:1")), compat(&[]), registry("m:1"), both),
            ("migration without registry", &moved, Some(Some("")), compat(&[]), registry(""), json!(null)),
            ("the old way", &moved, None, compat(&[Compat::EmptyMigrationLabels]), json!({}), empty),
        ] {
            let facts = Facts {
                server_version: "1.28".to_owned(),
                registry_hostname: "new:5000".to_owned(),
                migration_registry: facts.map(|registry| registry.map(str::to_owned)),
            };
            let mut item = json!({"kind": "ImageStream", "metadata": {"name": "web"}});
            annotate(&mut item, &restore(work), &facts, &settings);
            let mut annotations = json!({
                "openshift.io/restore-server-version": "1.28", "openshift.io/restore-registry-hostname": "new:5000",
            });
            merge(&mut annotations, &further);
            assert_eq!(item["metadata"]["annotations"], annotations, "{row}");
            assert_eq!(item["metadata"]["labels"], labels, "{row}");
        }
    }
}

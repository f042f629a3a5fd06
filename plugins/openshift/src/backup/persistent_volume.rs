//! A volume that a migration moves must outlive its claim in the old cluster.

use async_trait::async_trait;
use serde_json::{Value, json};
use velero_api::v1::Backup;
use velero_cluster::types;
use velero_plugin::item::{annotation, name, object_mut, set_annotation, text};
use velero_plugin::{BackupItemOutcome, Result};

use crate::action::{BackupStep, Resources};
use crate::context::Context;
use crate::names::annotations;
use crate::workflow::Work;

const RETAIN: &str = "Retain";

/// Makes moved volumes stay, in the cluster and in the backup.
pub(crate) struct Step;

#[async_trait]
impl BackupStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/03-pv-backup-plugin"
    }

    fn resources(&self) -> Resources {
        &["persistentvolumes"]
    }

    async fn backup(&self, item: &Value, backup: &Backup, context: &Context) -> Result<BackupItemOutcome> {
        if !backup.is_migration() {
            return Ok(BackupItemOutcome::default());
        }
        let lookups = context.lookups(backup).await?;
        let volume = types::PERSISTENT_VOLUMES.item(None, name(item));
        let live = lookups.get_existing(volume).await?;
        let Some(original) = policy_to_change(item, &live) else { return Ok(BackupItemOutcome::default()) };
        let patch = json!({
            "metadata": {"annotations": {annotations::ORIGINAL_RECLAIM_POLICY: original}},
            "spec": {"persistentVolumeReclaimPolicy": RETAIN},
        });
        lookups.cluster().merge_patch(volume, &patch).await?;
        Ok(BackupItemOutcome::changed(item, |item| retain(item, original)))
    }
}

/// The policy of a volume that is moved and would go away with its claim.
fn policy_to_change<'a>(item: &'a Value, live: &Value) -> Option<&'a str> {
    let policy = text(item, "/spec/persistentVolumeReclaimPolicy");
    (annotation(live, annotations::MIGRATE_TYPE) == Some("move") && policy != RETAIN).then_some(policy)
}

fn retain(item: &mut Value, original: &str) {
    set_annotation(item, annotations::ORIGINAL_RECLAIM_POLICY, original);
    if let Some(spec) = object_mut(item, "/spec") {
        spec.insert("persistentVolumeReclaimPolicy".to_owned(), json!(RETAIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_is_moved_is_retained() {
        for (row, live_type, policy, expected) in [
            ("moved", "move", "Delete", Some("Delete")),
            ("moved and recycled", "move", "Recycle", Some("Recycle")),
            ("retained already", "move", "Retain", None),
            ("copied", "copy", "Delete", None),
            ("not migrated", "", "Delete", None),
        ] {
            let item = json!({"metadata": {"name": "pv"}, "spec": {"persistentVolumeReclaimPolicy": policy}});
            let live = json!({"metadata": {"annotations": {"openshift.io/migrate-type": live_type}}});
            assert_eq!(policy_to_change(&item, &live), expected, "{row}");
            let Some(original) = expected else { continue };
            let mut updated = item.clone();
            retain(&mut updated, original);
            let annotations = json!({"migration.openshift.io/orig-reclaim-policy": original});
            assert_eq!(updated["metadata"]["annotations"], annotations, "{row}");
            assert_eq!(updated["spec"]["persistentVolumeReclaimPolicy"], "Retain", "{row}");
        }
    }
}

//! A claim that a migration copies gets the storage class and access mode it chose, and is free of the old cluster.

use serde_json::json;
use velero_plugin::item::{annotation, object_mut, remove_annotation};
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::names::annotations;
use crate::settings::Settings;
use crate::shared::storage_class::{is_copied, set_beta_annotation, target, waits_for_final};
use crate::workflow::Work;

/// Changes claims of a migration.
pub(super) const STEP: PureRestore =
    PureRestore { name: "openshift.io/04-pvc-restore-plugin", resources: &["persistentvolumeclaims"], restore };

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    if !input.restore.is_migration() {
        return Ok(RestoreItemOutcome::default());
    }
    if waits_for_final(input.item, input.restore) {
        return Ok(RestoreItemOutcome::skipped());
    }
    Ok(RestoreItemOutcome::changed(input.item, |item| {
        remove_annotation(item, annotations::SELECTED_NODE);
        if !is_copied(item) {
            return;
        }
        let (class, access_mode) =
            (target(item), annotation(item, annotations::TARGET_ACCESS_MODE).unwrap_or_default().to_owned());
        set_beta_annotation(item, &class);
        let Some(spec) = object_mut(item, "/spec") else { return };
        // A selector is for volumes that somebody made; the copy is provisioned.
        spec.remove("selector");
        spec.insert("storageClassName".to_owned(), class.into());
        if !access_mode.is_empty() {
            spec.insert("accessModes".to_owned(), json!([access_mode]));
        }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::{Expected, check, merge, migration, restore as restore_of, run};

    fn claim(annotations: &Value, spec: &Value) -> Value {
        json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "annotations": annotations}, "spec": spec})
    }

    #[test]
    fn copied_claims_of_a_migration_are_freed_and_change_their_class() {
        let before = json!({"selector": {"matchLabels": {"a": "b"}}, "storageClassName": "slow", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "volumeName": "pv", "dataSourceRef": {"kind": "X"}});
        let after = |class: &str, modes: Value| json!({"storageClassName": class, "accessModes": modes, "volumeName": "pv", "dataSourceRef": {"kind": "X"}});
        let modes = json!(["ReadWriteOnce", "ReadOnlyMany"]);
        let copy = json!({"openshift.io/migrate-type": "copy", "openshift.io/target-storage-class": "fast"});
        let with = |fields: Value| {
            let mut annotations = copy.clone();
            merge(&mut annotations, &fields);
            annotations
        };
        let shared = with(json!({"openshift.io/target-access-mode": "ReadWriteMany"}));
        let beta = |class: &str| with(json!({"volume.beta.kubernetes.io/storage-class": class}));
        let node = with(json!({"volume.kubernetes.io/selected-node": "n1"}));
        let snapshot = with(json!({"migration.openshift.io/copy-method": "snapshot"}));
        let nowhere = json!({"openshift.io/migrate-type": "copy"});
        let moved = json!({"openshift.io/migrate-type": "move"});
        let moved_node = json!({"openshift.io/migrate-type": "move", "volume.kubernetes.io/selected-node": "n1"});
        let cam = migration(&json!({}));
        let mut stage = migration(&json!({"migration.openshift.io/migmigration-type": "stage"}));
        merge(&mut stage, &json!({"metadata": {"labels": {"migration-stage-restore": "m-1"}}}));
        let item = |annotations: &Value, spec: Value| Expected::Item(claim(annotations, &spec));
        let fast = after("fast", modes.clone());
        for (row, work, annotations, expected) in [
            ("no migration", &json!({}), &node, Expected::Same),
            ("copied", &cam, &copy, item(&copy, fast.clone())),
            ("no target", &cam, &nowhere, item(&nowhere, after("", modes))),
            ("access mode", &cam, &shared, item(&shared, after("fast", json!(["ReadWriteMany"])))),
            ("beta annotation", &cam, &beta("slow"), item(&beta("fast"), fast.clone())),
            ("node, copied", &cam, &node, item(&copy, fast.clone())),
            ("node, moved", &cam, &moved_node, item(&moved, before.clone())),
            ("moved", &cam, &moved, Expected::Same),
            ("stage, snapshot", &stage, &snapshot, Expected::Skip),
            ("final, snapshot", &cam, &snapshot, item(&snapshot, fast)),
        ] {
            let item = claim(annotations, &before);
            let outcome = run(&item, &restore_of(work), |input| restore(input, &Settings::default()));
            check(row, &item, outcome, &expected);
        }
    }
}

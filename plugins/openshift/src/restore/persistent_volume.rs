//! A volume that a migration copies gets the storage class it chose.

use velero_plugin::item::object_mut;
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::PureRestore;
use crate::settings::Settings;
use crate::shared::storage_class::{is_copied, set_beta_annotation, target, waits_for_final};
use crate::workflow::Work;

/// Changes the storage class of copied volumes.
pub(super) const STEP: PureRestore =
    PureRestore { name: "openshift.io/03-pv-restore-plugin", resources: &["persistentvolumes"], restore };

fn restore(input: RestoreItemInput<'_>, _: &Settings) -> Result<RestoreItemOutcome> {
    if !input.restore.is_migration() || !is_copied(input.item) {
        return Ok(RestoreItemOutcome::default());
    }
    if waits_for_final(input.item, input.restore) {
        return Ok(RestoreItemOutcome::skipped());
    }
    Ok(RestoreItemOutcome::changed(input.item, |item| {
        let class = target(item);
        set_beta_annotation(item, &class);
        let Some(spec) = object_mut(item, "/spec") else { return };
        if class.is_empty() {
            spec.remove("storageClassName");
        } else {
            spec.insert("storageClassName".to_owned(), class.into());
        }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Expected, check, merge, migration, restore as restore_of, run};

    #[test]
    fn copied_volumes_of_a_migration_change_their_class() {
        let volume = |annotations: Value, class: Option<&str>| {
            let mut item = json!({"kind": "PersistentVolume", "metadata": {"name": "pv", "annotations": annotations}, "spec": {"csi": {"driver": "x"}}});
            if let Some(class) = class {
                item["spec"]["storageClassName"] = json!(class);
            }
            item
        };
        let copy = json!({"openshift.io/migrate-type": "copy", "openshift.io/target-storage-class": "fast"});
        let to = |beta: &str| json!({"openshift.io/migrate-type": "copy", "openshift.io/target-storage-class": "fast", "volume.beta.kubernetes.io/storage-class": beta});
        let nowhere = json!({"openshift.io/migrate-type": "copy"});
        let moved = json!({"openshift.io/migrate-type": "move", "openshift.io/target-storage-class": "fast"});
        let snapshot = json!({"openshift.io/migrate-type": "copy", "migration.openshift.io/copy-method": "snapshot"});
        let files = json!({"openshift.io/migrate-type": "copy", "openshift.io/target-storage-class": "fast", "migration.openshift.io/copy-method": "filesystem"});
        let cam = migration(&json!({}));
        let mut stage = migration(&json!({"migration.openshift.io/migmigration-type": "stage"}));
        let unlabelled_stage = stage.clone();
        merge(&mut stage, &json!({"metadata": {"labels": {"migration-stage-restore": "m-1"}}}));
        let fast = |annotations: &Value| Expected::Item(volume(annotations.clone(), Some("fast")));
        for (row, work, item, expected) in [
            ("no migration", &json!({}), volume(copy.clone(), Some("slow")), Expected::Same),
            ("copied", &cam, volume(copy.clone(), Some("slow")), fast(&copy)),
            ("copied, no class before", &cam, volume(copy.clone(), None), fast(&copy)),
            ("beta annotation", &cam, volume(to("slow"), Some("slow")), fast(&to("fast"))),
            ("empty beta annotation", &cam, volume(to(""), Some("slow")), fast(&to(""))),
            ("no target", &cam, volume(nowhere.clone(), Some("slow")), Expected::Item(volume(nowhere, None))),
            ("moved", &cam, volume(moved, Some("slow")), Expected::Same),
            ("not migrated", &cam, volume(json!({}), Some("slow")), Expected::Same),
            ("stage, snapshot", &stage, volume(snapshot.clone(), Some("slow")), Expected::Skip),
            ("stage, files", &stage, volume(files.clone(), Some("slow")), fast(&files)),
            ("stage without label", &unlabelled_stage, volume(snapshot.clone(), None), Expected::Same),
            ("final, snapshot", &cam, volume(snapshot, None), Expected::Same),
        ] {
            let outcome = run(&item, &restore_of(work), |input| restore(input, &Settings::default()));
            check(row, &item, outcome, &expected);
        }
    }
}

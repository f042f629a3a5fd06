//! What table tests share: Backups and Restores from a few fields, and what a row expects.

use serde_json::{Value, json};
use velero_api::v1::{Backup, Restore};
use velero_plugin::{RestoreItemInput, RestoreItemOutcome, Result};

use crate::compat::Compat;
use crate::settings::Settings;

/// A Backup with these fields besides its name.
pub(crate) fn backup(fields: &Value) -> Backup {
    serde_json::from_value(with_name("nightly", fields)).unwrap()
}

/// A Restore with these fields besides its name.
pub(crate) fn restore(fields: &Value) -> Restore {
    serde_json::from_value(with_name("again", fields)).unwrap()
}

/// A Restore with this namespace mapping.
pub(crate) fn mapping(mapping: &Value) -> Restore {
    restore(&json!({"spec": {"namespaceMapping": mapping}}))
}

/// The metadata of a Backup or Restore of a migration.
pub(crate) fn migration(annotations: &Value) -> Value {
    json!({"metadata": {"labels": {"app.kubernetes.io/part-of": "openshift-migration"}, "annotations": annotations}})
}

fn with_name(name: &str, fields: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name, "namespace": "velero", "uid": "u-1"}, "spec": {}});
    merge(&mut object, fields);
    object
}

/// The object with fields of another laid over it.
pub(crate) fn merge(object: &mut Value, fields: &Value) {
    match (object, fields) {
        (Value::Object(object), Value::Object(fields)) => {
            for (key, value) in fields {
                merge(object.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (object, fields) => *object = fields.clone(),
    }
}

/// Settings with these compat switches.
pub(crate) fn compat(switches: &[Compat]) -> Settings {
    Settings { compat: switches.iter().copied().collect(), ..Settings::default() }
}

/// What a row expects of a restore item action.
#[derive(Debug)]
pub(crate) enum Expected {
    /// The item as it was.
    Same,
    /// The item stays out.
    Skip,
    /// This item.
    Item(Value),
    /// An error with this text in it.
    Error(&'static str),
}

/// Checks a row.
pub(crate) fn check(row: &str, item: &Value, outcome: Result<RestoreItemOutcome>, expected: &Expected) {
    match (outcome, expected) {
        (Ok(outcome), Expected::Skip) => assert!(outcome.skip_restore, "{row}: not skipped"),
        (Ok(outcome), expected) => {
            assert!(!outcome.skip_restore, "{row}: skipped");
            let found = outcome.updated_item.unwrap_or_else(|| item.clone());
            match expected {
                Expected::Same => assert_eq!(found, *item, "{row}"),
                Expected::Item(expected) => assert_eq!(found, *expected, "{row}"),
                expected => panic!("{row}: {found} instead of {expected:?}"),
            }
        }
        (Err(error), Expected::Error(part)) => assert!(error.to_string().contains(part), "{row}: {error}"),
        (Err(error), _) => panic!("{row}: {error}"),
    }
}

/// The input of a restore item action; what the restore drops before actions run is dropped from the item.
pub(crate) fn run(
    from_backup: &Value,
    restore: &Restore,
    action: impl FnOnce(RestoreItemInput<'_>) -> Result<RestoreItemOutcome>,
) -> Result<RestoreItemOutcome> {
    let item = reset(from_backup);
    action(RestoreItemInput { item: &item, item_from_backup: from_backup, restore })
}

/// An item of a backup as actions see it.
pub(crate) fn reset(from_backup: &Value) -> Value {
    let mut item = from_backup.clone();
    velero_plugin::item::remove(&mut item, "", "status");
    velero_plugin::item::remove(&mut item, "/metadata", "ownerReferences");
    item
}

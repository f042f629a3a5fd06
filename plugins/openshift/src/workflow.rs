//! The two workflows: a migration between clusters (CAM), and backup and restore.

use serde_json::{Value, json};
use velero_api::metadata;
use velero_api::v1::{Backup, Restore};

use crate::names::{annotations, labels};

/// What the actions ask a Backup or a Restore.
pub(crate) trait Work {
    /// A label; empty when it is missing.
    fn label(&self, key: &str) -> &str;

    /// An annotation; empty when it is missing.
    fn annotation(&self, key: &str) -> &str;

    /// What tells it from others, also from one of the same name before it.
    fn identity(&self) -> String;

    /// Its namespace, which is that of Velero.
    fn namespace(&self) -> &str;

    /// It as the owner of an object.
    fn as_owner(&self) -> Value;

    /// Whether it is part of a migration. The label alone decides.
    fn is_migration(&self) -> bool {
        self.label(labels::PART_OF) == labels::MIGRATION
    }
}

macro_rules! work {
    ($kind:ident) => {
        impl Work for $kind {
            fn label(&self, key: &str) -> &str {
                metadata::label(self, key)
            }

            fn annotation(&self, key: &str) -> &str {
                metadata::annotation(self, key)
            }

            fn identity(&self) -> String {
                let [namespace, name, uid] = [metadata::namespace(self), metadata::name(self), metadata::uid(self)];
                format!("{} {namespace}/{name} {uid}", stringify!($kind))
            }

            fn as_owner(&self) -> Value {
                json!({
                    "apiVersion": "velero.io/v1",
                    "kind": stringify!($kind),
                    "name": self.metadata.name,
                    "uid": self.metadata.uid,
                })
            }

            fn namespace(&self) -> &str {
                metadata::namespace(self)
            }
        }
    };
}

work!(Backup);
work!(Restore);

/// Whether a restore is a stage of a migration, which leaves out volumes that are copied by snapshots: the final
/// restore brings them.
pub(crate) fn is_stage(restore: &Restore) -> bool {
    restore.annotation(annotations::MIGRATION_TYPE) == "stage" && !restore.label(labels::STAGE_RESTORE).is_empty()
}

/// The namespace something is restored into.
pub(crate) fn mapped<'a>(restore: &'a Restore, namespace: &'a str) -> &'a str {
    restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{backup, restore};

    #[test]
    fn the_label_alone_makes_a_migration() {
        for (label, annotation, expected) in [
            (Some("openshift-migration"), None, true),
            (Some("openshift-migration"), Some("registry:5000"), true),
            (Some("something-else"), Some("registry:5000"), false),
            (None, Some("registry:5000"), false),
            (None, None, false),
        ] {
            let metadata = json!({
                "labels": label.map(|label| json!({"app.kubernetes.io/part-of": label})),
                "annotations": annotation.map(|registry| json!({"openshift.io/migration-registry": registry})),
            });
            assert_eq!(backup(&json!({ "metadata": metadata })).is_migration(), expected, "{metadata}");
            assert_eq!(restore(&json!({ "metadata": metadata })).is_migration(), expected, "{metadata}");
        }
    }
}

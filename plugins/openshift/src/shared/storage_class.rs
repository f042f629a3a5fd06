//! Volumes and claims that a migration copies get the storage class it chose.

use serde_json::Value;
use velero_api::v1::Restore;
use velero_plugin::item::{annotation, set_annotation};

use crate::names::annotations;
use crate::workflow::is_stage;

/// Whether a volume or claim is copied.
pub(crate) fn is_copied(item: &Value) -> bool {
    annotation(item, annotations::MIGRATE_TYPE) == Some("copy")
}

/// Whether it is left to the final restore, for its snapshot is taken anew then.
pub(crate) fn waits_for_final(item: &Value, restore: &Restore) -> bool {
    is_copied(item) && is_stage(restore) && annotation(item, annotations::COPY_METHOD) == Some("snapshot")
}

/// The class the migration chose; empty when it chose none.
pub(crate) fn target(item: &Value) -> String {
    annotation(item, annotations::TARGET_STORAGE_CLASS).unwrap_or_default().to_owned()
}

/// Changes the class where old clusters kept it, if it is there.
pub(crate) fn set_beta_annotation(item: &mut Value, class: &str) {
    if !annotation(item, annotations::BETA_STORAGE_CLASS).unwrap_or_default().is_empty() {
        set_annotation(item, annotations::BETA_STORAGE_CLASS, class);
    }
}

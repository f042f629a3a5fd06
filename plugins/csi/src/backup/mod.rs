//! The actions on items that are backed up.

mod claim;
mod class;
mod content;
mod group;
mod snapshot;

use std::sync::Arc;

use serde_json::Value;
use velero_api::annotations::MUST_INCLUDE_ADDITIONAL_ITEMS;
use velero_api::records::ResourceIdentifier;
use velero_cluster::{Cluster, Discovery};
use velero_plugin::item::set_annotation;
use velero_plugin::{BackupItemAction, BackupItemOutcome};

/// All of them, for one backup.
pub(crate) fn actions(cluster: &Cluster, discovery: &Discovery) -> Vec<Arc<dyn BackupItemAction>> {
    vec![
        Arc::new(claim::BackupAction::new(cluster, discovery)),
        Arc::new(snapshot::BackupAction::new(cluster)),
        Arc::new(content::BackupAction),
        Arc::new(class::BackupAction),
    ]
}

/// The item with a secret that the driver needs for it, whatever the filters of the backup say.
fn with_secret(item: &Value, secret: ResourceIdentifier) -> BackupItemOutcome {
    let mut stored = item.clone();
    set_annotation(&mut stored, MUST_INCLUDE_ADDITIONAL_ITEMS, "true");
    BackupItemOutcome { updated_item: Some(stored), additional_items: vec![secret], ..BackupItemOutcome::default() }
}

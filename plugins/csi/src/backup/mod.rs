//! The actions on items that are backed up.

mod claim;
mod class;
mod content;
mod group;
mod mover;
mod snapshot;

use std::sync::Arc;

use serde_json::Value;
use velero_api::annotations::{MUST_INCLUDE_ADDITIONAL_ITEMS, SKIP_FROM_BACKUP};
use velero_api::labels;
use velero_api::metadata;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Backup;
use velero_cluster::{Cluster, Discovery};
use velero_plugin::item::{label, set_annotation};
use velero_plugin::{BackupItemAction, BackupItemOutcome};

use crate::movement::{NodeAgents, moves_data};

/// All of them, for one backup.
pub(crate) fn actions(
    cluster: &Cluster,
    discovery: &Discovery,
    agents: &Arc<NodeAgents>,
) -> Vec<Arc<dyn BackupItemAction>> {
    vec![
        Arc::new(claim::BackupAction::new(cluster, discovery, agents)),
        Arc::new(snapshot::BackupAction::new(cluster)),
        Arc::new(content::BackupAction::new(cluster)),
        Arc::new(class::BackupAction),
    ]
}

/// The item with a secret that the driver needs for it, whatever the filters of the backup say.
fn with_secret(item: &Value, secret: ResourceIdentifier) -> BackupItemOutcome {
    let mut stored = item.clone();
    set_annotation(&mut stored, MUST_INCLUDE_ADDITIONAL_ITEMS, "true");
    BackupItemOutcome { updated_item: Some(stored), additional_items: vec![secret], ..BackupItemOutcome::default() }
}

/// Whether a snapshot was taken only for its data to be moved: it is of no use to a restore, and goes when that is done.
fn is_moved(snapshot: &Value, backup: &Backup) -> bool {
    moves_data(backup) && label(snapshot, labels::BACKUP_UID) == Some(metadata::uid(backup))
}

/// The item stays out of the backup.
fn kept_out(item: &Value) -> BackupItemOutcome {
    BackupItemOutcome::changed(item, |item| set_annotation(item, SKIP_FROM_BACKUP, "true"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_snapshot_is_only_there_to_be_moved_if_this_backup_took_it_for_that() {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.metadata.uid = Some("u".to_owned());
        let snapshot = |uid: &str| json!({"metadata": {"labels": {labels::BACKUP_UID: uid}}});
        assert!(!is_moved(&snapshot("u"), &backup), "it is kept");
        backup.spec.snapshot_move_data = Some(true);
        assert!(is_moved(&snapshot("u"), &backup));
        assert!(!is_moved(&snapshot("other"), &backup) && !is_moved(&json!({}), &backup), "those of others");
        let kept_out = kept_out(&json!({"metadata": {}})).updated_item.unwrap();
        assert_eq!(kept_out["metadata"]["annotations"][SKIP_FROM_BACKUP], "true");
    }
}

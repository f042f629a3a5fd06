//! The actions on items that are backed up.

mod claim;
mod class;
mod content;
mod group;
mod snapshot;

use std::sync::Arc;

use velero_cluster::{Cluster, Discovery};
use velero_plugin::BackupItemAction;

/// All of them, for one backup.
pub(crate) fn actions(cluster: &Cluster, discovery: &Discovery) -> Vec<Arc<dyn BackupItemAction>> {
    vec![
        Arc::new(claim::BackupAction::new(cluster, discovery)),
        Arc::new(snapshot::BackupAction::new(cluster)),
        Arc::new(content::BackupAction),
        Arc::new(class::BackupAction),
    ]
}

//! The actions on items that are restored.
//!
//! What the driver holds is found by its handle: a content that names the handle, a snapshot bound to that content, and
//! a claim whose volume is made of that snapshot. Content and snapshot get a name of the restore's own, so that a
//! backup can be restored several times. Nothing of that may delete what the driver holds: the backup owns it.
//!
//! Data that was moved is found by the DataUpload in the backup: the claim gets no volume, and a data mover makes one for it.

mod claim;
mod class;
mod content;
mod group;
mod snapshot;
mod upload;

use std::sync::Arc;

use sha2::{Digest, Sha256};
use velero_api::metadata;
use velero_api::v1::{Backup, Restore};
use velero_cluster::{Cluster, Discovery};
use velero_plugin::{Error, RestoreItemAction, Result};

use crate::classes::Classes;
use crate::movement::{NodeAgents, Uploads};
use crate::objects::{BACKUPS, CLASSES};

/// All of them, for one restore.
pub(crate) fn actions(
    cluster: &Cluster,
    discovery: &Discovery,
    agents: &Arc<NodeAgents>,
) -> Vec<Arc<dyn RestoreItemAction>> {
    let classes = Arc::new(Classes::new(cluster, CLASSES.clone()));
    let uploads = Arc::new(Uploads::new(cluster));
    vec![
        Arc::new(upload::RestoreAction::new(cluster, Arc::clone(&uploads))),
        Arc::new(claim::RestoreAction::new(cluster, uploads, agents)),
        Arc::new(snapshot::RestoreAction::new(cluster, discovery, Arc::clone(&classes))),
        Arc::new(content::RestoreAction::new(classes)),
        Arc::new(class::RestoreAction),
    ]
}

/// The backup that a restore is made from.
async fn backup_of(cluster: &Cluster, restore: &Restore) -> Result<Backup> {
    let (namespace, name) = (metadata::namespace(restore), restore.spec.backup_name.as_str());
    let unreadable = |problem: String| Error::Item(format!("backup {name} of the restore: {problem}"));
    let found = cluster.get(BACKUPS.item(Some(namespace), name)).await?;
    let found = found.ok_or_else(|| unreadable("it is gone".to_owned()))?;
    serde_json::from_value(found).map_err(|error| unreadable(error.to_string()))
}

/// Whether a restore wants the data of volumes.
fn wants_data(restore: &Restore) -> bool {
    restore.spec.restore_pvs != Some(false)
}

/// Where the objects of a namespace go.
fn target<'a>(restore: &'a Restore, namespace: &'a str) -> &'a str {
    restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str)
}

/// The name that a snapshot and its content have in the cluster after a restore.
fn new_name(restore: &Restore, snapshot: &str) -> String {
    let uid = metadata::uid(restore);
    let digest = Sha256::digest(format!("{uid}/{snapshot}").as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_one_name_in_each_restore() {
        let mut restore = Restore::new("velero", "r", Default::default());
        restore.metadata.uid = Some("uid".to_owned());
        let name = new_name(&restore, "vs");
        assert_eq!(name, "c9670da942ec2061cf4af54baf0a2d1b3622400d9b9a419e7bc301d37bf09fdb");
        restore.metadata.uid = Some("other".to_owned());
        assert_ne!(new_name(&restore, "vs"), name);
    }
}

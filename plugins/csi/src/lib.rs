//! Snapshots by CSI drivers, active with the feature `EnableCSI`.
//!
//! | action | on | does |
//! |---|---|---|
//! | `velero.io/csi-pvc-backupper` | claims | takes a snapshot of the volume, alone or with its group; lets its data be moved |
//! | `velero.io/csi-volumesnapshot-backupper` | snapshots | notes what a restore needs; the operation ends when it is ready |
//! | `velero.io/csi-volumesnapshotcontent-backupper` | contents | adds the secret the driver deletes with |
//! | `velero.io/csi-volumesnapshotclass-backupper` | classes | adds the secret the driver lists with |
//! | `velero.io/csi-pvc-restorer` | claims | lets the new volume be made of the snapshot, or filled by a data mover |
//! | `velero.io/dataupload` | DataUploads | tells where the data of a claim was moved |
//! | `velero.io/csi-volumesnapshot-restorer` | snapshots | binds it to the content made of the handle |
//! | `velero.io/csi-volumesnapshotcontent-restorer` | contents | points it to the snapshot the driver holds |
//! | `velero.io/csi-volumesnapshotclass-restorer` | classes | adds the secret the driver lists with |
//! | `velero.io/csi-volumesnapshotcontent-delete` | contents | lets the driver delete its snapshot |
//!
//! A snapshot's objects live in the cluster only until the backup is finished: then they are in the archive, and what
//! the driver holds is found by its handle. `keeper` removes those of backups that never get there. With `snapshotMoveData`
//! the data goes into a repository (`movement`), and nothing stays with the driver.

pub mod backup;
mod classes;
pub mod delete;
mod keeper;
mod movement;
mod objects;
mod removal;
pub mod restore;

use std::sync::Arc;

use velero_cluster::{Cluster, Discovery};
use velero_plugin::{ActionSource, Actions, Result};

pub use movement::NodeAgents;

/// The actions for one backup, restore or deletion; what they look up in the cluster is kept as long as they live, what they
/// see of node agents as long as whoever asks for them.
pub fn builtin(cluster: &Cluster, discovery: &Discovery, agents: &Arc<NodeAgents>) -> Result<Actions> {
    Actions::from_source(ActionSource {
        backup_item: backup::actions(cluster, discovery, agents),
        restore_item: restore::actions(cluster, discovery, agents),
        delete_item: vec![Arc::new(delete::DeleteAction::new(cluster))],
        ..ActionSource::default()
    })
}

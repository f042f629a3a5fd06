//! Snapshots whose data is moved: a DataUpload asks a data mover to copy a snapshot into a repository, a DataDownload to
//! fill a volume from there. The node agents of Velero, or those of a vendor, do the work; what is agreed on with them are
//! these objects.
//!
//! Where the data of a moved volume is can be read in four places, the first that is there counts:
//! - `backups/<name>/<name>-volumeinfo.json.gz`: `snapshotDataMovementInfo.snapshotHandle` is the snapshot in the repository of
//!   `pvcNamespace` at the location of the backup, if `dataMover` is `velero`,
//! - the DataUpload in the archive (`resources/datauploads.velero.io/namespaces/<namespace of the server>/<name>.json`), as it
//!   ended: `status.snapshotID`, `spec.sourceNamespace`, `spec.datamover`. Velero reads this one when it deletes a backup,
//! - the DataUpload in the cluster, for backups that have not ended, by the label `velero.io/backup-uid`,
//! - ConfigMaps `<DataUpload>-info` with the label `velero.io/data-upload-snapshot-info`, which Velero's own deletion writes.

mod agents;
mod download;
mod result;
mod transfers;
mod upload;

pub use agents::NodeAgents;
pub(crate) use download::{new_download, waiting_for_download};
pub(crate) use result::{Source, Uploads};
pub(crate) use transfers::Transfers;
pub(crate) use upload::{Held, new_upload, upload_operation};

use velero_api::v1::Backup;

/// What the data mover of Velero is called; no name means the same.
const BUILT_IN: &str = "velero";

/// Whether a data mover is that of Velero.
fn is_built_in(data_mover: &str) -> bool {
    data_mover.is_empty() || data_mover == BUILT_IN
}

/// Whether a backup wants the data of its snapshots to be moved.
pub(crate) fn moves_data(backup: &Backup) -> bool {
    backup.spec.snapshot_move_data == Some(true)
}

//! The room for volumes: how the data behind claims and pods gets into backups and back.
//!
//! ```text
//! method ── the trait of a way to save volumes; methods is the list of all ways
//!   ├─ native ── snapshots of volume snapshotter plugins
//!   ├─ csi ── snapshots of CSI drivers, by the actions on claims
//!   ├─ data_movement ── CSI snapshots whose data is moved into a repository, by the same actions
//!   └─ file_system ── copies through the file systems of pods, which node agents carry out
//! backup ── the volumes of a backup: each decided on once, then left to its method
//! restore ── the volumes of a restore: what the backup says of each, and what becomes of it
//! earlier ── what the restores have begun that one goes on with
//! sources ── where the data of volumes comes from, for those who only look
//! saved, after_run ── what a backup has saved: how it ended, and its removal
//! ```
//!
//! The pipelines come here at fixed moments: a volume, a claim or a pod is stored, an operation has begun, a claim was
//! made. What happens then is up to the method. The pipelines know none of them, and the methods know no pipeline: they
//! get a [`BackupContext`] or a [`RestoreContext`].

mod after_run;
mod backup;
mod backup_context;
mod csi;
mod data_movement;
mod earlier;
mod error;
mod file_system;
mod followed;
mod infos;
mod means;
mod method;
mod methods;
mod mounts;
mod native;
mod new_volumes;
mod restore;
mod restore_context;
mod saved;
mod sources;

pub(crate) use backup::{BackupVolumes, PodPlace, SavedClaim, VolumeSaver};
pub(crate) use backup_context::{BackupContext, VolumeTypes};
pub(crate) use earlier::Earlier;
pub(crate) use error::VolumeError;
pub use means::{CopyMeans, RepositoryKeeper, RepositoryUnusable};
pub use saved::{AfterRun, SavedVolumes};

pub(crate) use restore::{RestoreVolumes, VolumeRestorer};
pub(crate) use restore_context::{LeftData, RestoreContext, VolumeVerdict};

pub(crate) use velero_api::type_names::{PERSISTENT_VOLUME_CLAIMS as CLAIMS, PERSISTENT_VOLUMES as VOLUMES, PODS};

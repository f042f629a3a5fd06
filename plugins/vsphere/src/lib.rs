//! Backups of volumes of the vSphere CSI driver wait until their data is safe.
//!
//! The vSphere plugin for Velero (`velero-plugin-for-vsphere`) takes a local snapshot of a volume and uploads it in the
//! background; to Velero the backup is complete before the data is. The action of this crate follows the upload, so that
//! the backup waits for it:
//!
//! ```text
//! Execute ── finds the Snapshot record of the claim, or creates it, and waits until the snapshot is taken
//! the vSphere plugin's controllers ── take the snapshot, create an Upload, write how far it is
//! Progress ── reads the Upload          Cancel ── sets spec.uploadCancel
//! ```
//!
//! It needs those controllers, which `velero-plugin-for-vsphere` installs. Beside that plugin, whose actions restore and
//! delete, this one follows what it began.

mod action;
mod claim;
mod progress;
mod records;

pub use action::BackupAction;
pub use records::{snapshots, uploads};
use velero_plugin::sdk::Plugins;

/// Everything the plugin binary brings.
pub fn plugins() -> Plugins {
    Plugins::new().backup_item_action(BackupAction::default())
}

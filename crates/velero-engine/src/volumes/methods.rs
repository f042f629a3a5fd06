//! The list of all ways to save the data of volumes.

use velero_api::records::Snapshot;

use super::csi::Csi;
use super::data_movement::DataMovement;
use super::file_system::FileSystem;
use super::method::Method;
use super::native::Native;

/// What the methods of a backup or restore are given.
#[derive(Default)]
pub(crate) struct Given<'a> {
    /// The VolumeSnapshotLocations of a backup.
    pub(crate) snapshot_locations: &'a [String],
    /// The native snapshots of the backup that is restored.
    pub(crate) snapshots: Vec<Snapshot>,
}

/// All ways to save a volume.
pub(crate) fn methods(given: Given<'_>) -> Vec<Box<dyn Method>> {
    vec![
        Box::new(Native::new(given.snapshot_locations, given.snapshots)),
        Box::new(DataMovement::default()),
        Box::new(Csi),
        Box::new(FileSystem::default()),
    ]
}

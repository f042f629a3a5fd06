//! Why a backup failed as a whole, and what is left of it.

use velero_api::records::Snapshot;
use velero_store::BackupStore;

/// Why a backup failed as a whole, and what of it may be in the store.
pub(super) struct Failure {
    pub(super) reason: String,
    /// The store, when files of this backup may be in it.
    pub(super) touched: Option<BackupStore>,
    /// Whether the store is to blame, so that nothing more is written to it.
    pub(super) is_of_store: bool,
    /// Snapshots that could not be removed.
    pub(super) snapshots_left: Vec<Snapshot>,
}

impl Failure {
    pub(super) fn after_start(reason: String, store: &BackupStore, is_of_store: bool) -> Self {
        Self { reason, touched: Some(store.clone()), is_of_store, snapshots_left: Vec::new() }
    }

    pub(super) fn before_start(reason: String) -> Self {
        Self { reason, touched: None, is_of_store: true, snapshots_left: Vec::new() }
    }
}

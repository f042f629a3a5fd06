//! Why a backup failed as a whole, and what is left of it.

use velero_api::records::Snapshot;
use velero_store::BackupStore;

/// Why a backup fails whose server is told to end.
pub(super) const STOPPED: &str = "the server was stopped while the backup ran; create a new backup";

/// Why a backup failed as a whole, and what of it may be in the store.
pub(super) struct Failure {
    pub(super) reason: String,
    pub(super) cause: Cause,
    /// The store, when files of this backup may be in it.
    pub(super) touched: Option<BackupStore>,
    /// Whether the store is to blame, so that nothing more is written to it.
    pub(super) is_of_store: bool,
    /// Snapshots that could not be removed.
    pub(super) snapshots_left: Vec<Snapshot>,
    /// Whether the name may be reserved in a store that could not be asked.
    pub(super) may_be_reserved: bool,
    /// Whether those who move data for it could not be told to stop.
    pub(super) is_owed: bool,
}

/// What made a backup fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Something went wrong.
    Trouble,
    /// Somebody asked for its end.
    Request,
    /// Its server was told to end.
    ServerStopped,
}

impl Failure {
    pub(super) fn after_start(reason: String, store: &BackupStore, is_of_store: bool) -> Self {
        Self { touched: Some(store.clone()), is_of_store, ..Self::before_start(reason) }
    }

    pub(super) fn before_start(reason: String) -> Self {
        let (cause, snapshots_left) = (Cause::Trouble, Vec::new());
        let (touched, is_of_store) = (None, true);
        Self { reason, cause, touched, is_of_store, snapshots_left, may_be_reserved: false, is_owed: false }
    }

    /// One that somebody asked for, in these words.
    pub(super) fn cancelled(reason: String, store: &BackupStore) -> Self {
        Self { cause: Cause::Request, ..Self::after_start(reason, store, false) }
    }

    /// One of a server that is told to end.
    pub(super) fn stopped(store: &BackupStore) -> Self {
        Self { cause: Cause::ServerStopped, ..Self::after_start(STOPPED.to_owned(), store, false) }
    }

    /// What the status says.
    pub(super) fn told(&self) -> String {
        match self.cause {
            Cause::Request => self.reason.clone(),
            Cause::Trouble | Cause::ServerStopped => format!("backup execution failed: {}", self.reason),
        }
    }
}

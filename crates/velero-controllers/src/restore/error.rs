//! Why a restore, or a look at what one would do, came to no end of its own.

use velero_engine::restore::RestoreError;
use velero_store::Error as StoreError;

use crate::runtime::error::{Error, describe};
use crate::runtime::store_message::explain;

/// Why a restore did not run to its end. Its words are the failure reason of the restore.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    /// There is no place to read from.
    #[error("its backup has no location")]
    NoLocation,
    /// The location cannot be used.
    #[error("{}", explain(.0))]
    Location(#[source] Error),
    /// A file of the backup cannot be read.
    #[error("error {doing}: {}", explain(.source))]
    File { doing: &'static str, source: StoreError },
    /// Something that the restore needs cannot be had: its plugins, or what users have set.
    #[error("{}", describe(.0))]
    Needs(#[source] Error),
    /// The engine wrote nothing.
    #[error("{}", describe(.0))]
    Engine(#[source] RestoreError),
    /// Nobody wants it any more.
    #[error("the restore was given up")]
    GivenUp,
    /// The thread that restored is gone.
    #[error(transparent)]
    Lost(#[from] tokio::task::JoinError),
    /// It was interrupted, and why.
    #[error("{0}")]
    Interrupted(&'static str),
    /// Somebody asked for its end, in these words.
    #[error("{0}")]
    Cancelled(String),
    /// The report of a dry run cannot be stored.
    #[error("the report could not be stored: {}", explain(.0))]
    Report(#[source] StoreError),
}

/// Why files of a restore are not in the store.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotStored {
    /// The store did not take them.
    #[error("{}", explain(.0))]
    Store(#[source] StoreError),
    /// There was no time left.
    #[error("the server was stopped before the store had taken them")]
    Stopped,
}

//! Why a file that is there cannot be read to where it is wanted.

use std::io;

use velero_archive::Error as ArchiveError;

use crate::comparison::TooMany;

/// Why reading came to no good end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    /// Its bytes do not come, or are no text.
    #[error(transparent)]
    Bytes(#[from] io::Error),
    /// It is no archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// It is no document of its kind.
    #[error(transparent)]
    Document(#[from] serde_json::Error),
    /// What lies at a path of the archive is no object.
    #[error("{path}: {problem}")]
    Entry { path: String, problem: serde_json::Error },
    /// It is longer than anybody reads.
    #[error("it has more than {mebibytes} MiB")]
    TooLong { mebibytes: u64 },
    /// The object is larger than what is shown.
    #[error("the object has {bytes} bytes, more than the page shows")]
    ObjectTooLarge { bytes: usize },
    /// Reading takes longer than a page may take; what of it does.
    #[error("{0}")]
    TooSlow(&'static str),
    /// It holds more than is compared.
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

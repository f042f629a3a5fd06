//! What can be wrong with the bytes of a backup.

use std::io;

/// Why an archive, a key or a compressed document was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A backup or restore name that cannot be part of an object key.
    #[error("{kind} name {name:?} cannot be used in an object key: {reason}")]
    InvalidName {
        /// `backup` or `restore`.
        kind: &'static str,
        /// The name as given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An entry path that could leave the archive or cannot be named.
    #[error("archive entry {path:?} is refused: {reason}")]
    UnsafePath {
        /// The path as stored.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The same path occurs twice.
    #[error("archive entry {path:?} occurs more than once")]
    DuplicatePath {
        /// The repeated path.
        path: String,
    },
    /// A link, device or other entry that is not a regular file.
    #[error("archive entry {path:?} is a {kind}; only regular files are allowed")]
    NotARegularFile {
        /// The path of the entry.
        path: String,
        /// The tar entry type.
        kind: String,
    },
    /// The archive holds more entries than allowed.
    #[error(
        "the archive of the backup has more than {limit} entries, two for each object: back up fewer objects at a time, or \
         raise the limit (--max-archive-entries of the server) if the backup is trusted"
    )]
    TooManyEntries {
        /// The limit that was passed.
        limit: u64,
    },
    /// One entry is larger than allowed.
    #[error("archive entry {path:?} has {size} bytes, more than the {limit} allowed")]
    EntryTooLarge {
        /// The path of the entry.
        path: String,
        /// Its declared size.
        size: u64,
        /// The limit that was passed.
        limit: u64,
    },
    /// A path is longer than allowed.
    #[error("archive entry {start:?}… has a path of {length} bytes, more than the {limit} allowed")]
    PathTooLong {
        /// How the path begins.
        start: String,
        /// Its length.
        length: usize,
        /// The limit that was passed.
        limit: usize,
    },
    /// All paths together are longer than allowed.
    #[error("the paths of the archive have more than {limit} bytes in all: back up fewer objects at a time")]
    PathsTooLarge {
        /// The limit that was passed.
        limit: u64,
    },
    /// A header that describes an entry is larger than allowed.
    #[error("the archive has a header of {size} bytes, more than the {limit} allowed")]
    HeaderTooLarge {
        /// Its declared size.
        size: u64,
        /// The limit that was passed.
        limit: u64,
    },
    /// A header that describes an entry contradicts itself or another.
    #[error("the archive has a header that is refused: {reason}")]
    BadHeader {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The compressed archive is larger than allowed.
    #[error("the compressed archive has more than {limit} bytes: back up fewer objects at a time")]
    CompressedTooLarge {
        /// The limit that was passed.
        limit: u64,
    },
    /// The data decompresses to more than allowed.
    #[error("compressed data expands to more than {limit} bytes")]
    TooLarge {
        /// The limit that was passed.
        limit: u64,
    },
    /// The data is not gzip.
    #[error("the data is not gzip compressed")]
    NotGzip,
    /// The data ends early or fails its checksum.
    #[error("the data is damaged or cut short: {0}")]
    Damaged(#[source] io::Error),
    /// A well-formed archive that no Velero wrote.
    #[error("the archive is not a Velero backup: it begins with {first:?} instead of metadata/version")]
    Foreign {
        /// The first path found, empty when there was none.
        first: String,
    },
    /// A format version this code cannot read.
    #[error("backup format version {version:?} is not supported; versions 1.x are")]
    UnsupportedVersion {
        /// What `metadata/version` says.
        version: String,
    },
    /// Writing the output failed.
    #[error("writing the archive failed: {0}")]
    Write(#[source] io::Error),
    /// A compressed JSON document does not have the expected form.
    #[error("the document is not valid JSON of the expected form: {0}")]
    Json(#[from] serde_json::Error),
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

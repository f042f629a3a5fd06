//! What can go wrong with a repository.

use std::io;

/// Why an operation on a repository failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store has no repository.
    #[error("there is no repository in {place}: it has no blob \"kopia.repository\"")]
    NoRepository {
        /// Where it was looked for.
        place: String,
    },
    /// The password does not open the repository.
    #[error("the password does not open the repository in {place}")]
    WrongPassword {
        /// Where the repository is.
        place: String,
    },
    /// The repository uses something that is not known here.
    #[error("the repository cannot be used: {0}")]
    Unsupported(String),
    /// The repository is being upgraded by its owner.
    #[error("the repository is locked for an upgrade by {owner:?}; try again when the upgrade is done")]
    UpgradeLock {
        /// Who holds the lock.
        owner: String,
    },
    /// A blob does not exist.
    #[error("blob {blob:?} does not exist")]
    BlobNotFound {
        /// The blob that was asked for.
        blob: String,
    },
    /// A blob holds other bytes than its writer put there.
    #[error("blob {blob:?} is damaged: {problem}")]
    DamagedBlob {
        /// The blob.
        blob: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No index names the content.
    #[error("content {content} is in no index of the repository")]
    ContentNotFound {
        /// The id of the content.
        content: String,
    },
    /// A content cannot be read.
    #[error("content {content} in pack {pack:?} is damaged: {problem}")]
    DamagedContent {
        /// The id of the content.
        content: String,
        /// The pack an index says it is in.
        pack: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An object, directory or manifest makes no sense.
    #[error("{what} cannot be understood: {problem}")]
    Malformed {
        /// What was read.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No manifest has this id.
    #[error("snapshot {id:?} does not exist in the repository")]
    SnapshotNotFound {
        /// The id that was asked for.
        id: String,
    },
    /// The store answered with an error or not at all.
    #[error("could not {action} blob {blob:?}: {source}")]
    Store {
        /// What was tried, as a verb.
        action: &'static str,
        /// The blob, or the prefix of a list.
        blob: String,
        /// What the store said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store of a location cannot be used as it is described.
    #[error("the location cannot be opened: {source}")]
    Location {
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file on this machine could not be read or written.
    #[error("could not {action} {path:?}: {source}")]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An entry of a snapshot is refused, whatever was meant by it.
    #[error("{path:?} is not restored: {problem}")]
    Refused {
        /// The path inside the snapshot.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A snapshot has nothing at a path.
    #[error("{path:?} is not in the snapshot: there is no {name:?}")]
    PathNotFound {
        /// The path that was asked for.
        path: String,
        /// The part of it that is missing.
        name: String,
    },
    /// Something in a volume cannot be saved.
    #[error("{path:?} cannot be saved: {problem}")]
    NotSaved {
        /// The path inside the volume.
        path: String,
        /// Why.
        problem: String,
    },
    /// One entry of a snapshot could not be worked on.
    #[error("{path:?}: {source}")]
    AtPath {
        /// The path inside the snapshot.
        path: String,
        /// Why.
        #[source]
        source: Box<Self>,
    },
    /// The epoch an index was written to is closed by now; what it names would be lost once the epoch is compacted.
    #[error(
        "the index was written to epoch {epoch} while the repository went on to epoch {current}; nothing of it was kept, run it again"
    )]
    EpochClosed {
        /// The epoch that was written to.
        epoch: u64,
        /// The epoch by now.
        current: u64,
    },
    /// Somebody else is to maintain the repository.
    #[error("the repository is maintained by {owner:?} and not by {me:?}")]
    NotOwner {
        /// Who is.
        owner: String,
        /// Who asked.
        me: String,
    },
    /// Ages mean nothing when the clocks are far apart.
    #[error(
        "the clock of the store says {store} and the one of this machine {local}; nothing is maintained while they are more than 5 minutes apart"
    )]
    ClockSkew {
        /// The time of the store.
        store: jiff::Timestamp,
        /// The time of this machine.
        local: jiff::Timestamp,
    },
    /// Two made the same repository at once, and this one lost.
    #[error("somebody else made the repository at the same moment; try again")]
    MadeElsewhere,
    /// Another maintenance of the same repository began meanwhile.
    #[error("somebody else began to maintain the repository meanwhile; this maintenance ends here")]
    MaintainedElsewhere,
    /// An earlier write of the same writer failed, so nothing more can be written with it.
    #[error("nothing more is written after an earlier failure")]
    WriterFailed,
    /// The caller asked to stop.
    #[error("canceled")]
    Canceled,
}

impl Error {
    /// Whether the blob asked for does not exist.
    pub fn is_blob_not_found(&self) -> bool {
        matches!(self, Self::BlobNotFound { .. })
    }

    /// Adds the path in the snapshot whose work failed.
    pub(crate) fn at(self, path: &str) -> Self {
        match self {
            Self::Canceled | Self::Refused { .. } | Self::AtPath { .. } => self,
            source => Self::AtPath { path: path.to_owned(), source: Box::new(source) },
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers hand over words and errors alike")]
    pub(crate) fn malformed(what: impl Into<String>, problem: impl ToString) -> Self {
        Self::Malformed { what: what.into(), problem: problem.to_string() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers hand over words and errors alike")]
    pub(crate) fn damaged_blob(blob: &str, problem: impl ToString) -> Self {
        Self::DamagedBlob { blob: blob.to_owned(), problem: problem.to_string() }
    }

    /// An error of a file of ours: the spool of an index, or a file of the restore.
    pub(crate) fn file(action: &'static str, path: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::File { action, path: path.into(), source: source.into() }
    }
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

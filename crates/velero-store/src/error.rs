//! What can go wrong between us and an object store.

use std::io;

use crate::flaws::Flaw;

/// Why an operation on a store failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The location names a provider that is not built in.
    #[error("object store provider {provider:?} is not known; built in are {known}, others need a plugin")]
    UnknownProvider {
        /// The provider as written in the location.
        provider: String,
        /// The providers that are built in.
        known: String,
    },
    /// The location's config has keys the provider does not have.
    #[error("config has invalid keys [{}]; valid keys are [{}]", invalid.join(" "), valid.join(" "))]
    InvalidKeys {
        /// The keys that were not expected.
        invalid: Vec<String>,
        /// The keys the provider has.
        valid: Vec<String>,
    },
    /// A value of the location is wrong or missing.
    #[error("{provider} object store: {field}: {problem}")]
    InvalidConfig {
        /// The provider.
        provider: &'static str,
        /// The config key or field.
        field: String,
        /// What is wrong and what to write instead.
        problem: String,
    },
    /// A value or the credentials hold what cannot be meant.
    #[error("{flaw}")]
    Spoiled {
        /// What is odd about it.
        flaw: Flaw,
    },
    /// The object does not exist.
    #[error("object {key:?} does not exist")]
    NotFound {
        /// The key that was asked for.
        key: String,
    },
    /// The object exists and must not be written a second time.
    #[error("object {key:?} already exists and is not overwritten")]
    AlreadyExists {
        /// The key that was to be written.
        key: String,
    },
    /// The files of a backup are those of another of the same name.
    #[error("{folder:?} holds the files of another backup of this name (UID {owner}), which are left alone")]
    Foreign {
        /// The folder of the backup.
        folder: String,
        /// The UID of the other backup.
        owner: String,
    },
    /// The key cannot be used with this store.
    #[error("object key {key:?} cannot be used: {problem}")]
    InvalidKey {
        /// The key as given.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The store cannot do what was asked.
    #[error("{what} is not supported: {reason}")]
    NotSupported {
        /// What was asked.
        what: &'static str,
        /// Why it cannot be done, and what can.
        reason: String,
    },
    /// The store holds other bytes than were sent.
    #[error("object {key:?} was damaged on the way to the store: {detail}")]
    Damaged {
        /// The key that was written.
        key: String,
        /// How the stored object differs.
        detail: String,
    },
    /// What comes from the store is damaged, and differs from read to read.
    #[error(
        "object {key:?} comes damaged and different each time it is read; see what lies between the server and the store"
    )]
    Unsteady {
        /// The key that was read.
        key: String,
    },
    /// Whoever produced the bytes to upload failed.
    #[error("upload of {key:?} was given up because its content could not be produced: {source}")]
    Content {
        /// The key that was to be written.
        key: String,
        /// What the producer said.
        #[source]
        source: io::Error,
    },
    /// The store answered with an error or not at all.
    #[error("could not {action} {key:?}: {source}")]
    Request {
        /// What was tried, as a verb.
        action: &'static str,
        /// The key or prefix.
        key: String,
        /// What the store or the connection said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The location has folders at its top that do not belong to a backup store.
    #[error("backup store contains invalid top-level directories: [{}]; use an empty bucket or another prefix", folders.join(" "))]
    ForeignFolders {
        /// The names of the folders.
        folders: Vec<String>,
    },
    /// An object's content could not be understood.
    #[error("object {key:?} cannot be read: {source}")]
    Decode {
        /// The key that was read.
        key: String,
        /// What is wrong with the content.
        #[source]
        source: velero_archive::Error,
    },
    /// A name, archive or document was refused.
    #[error(transparent)]
    Archive(#[from] velero_archive::Error),
}

impl Error {
    /// Names the action and key behind an error of the client library.
    pub(crate) fn request(action: &'static str, key: &str, source: object_store::Error) -> Self {
        match source {
            object_store::Error::NotFound { .. } => Self::NotFound { key: key.to_owned() },
            source => Self::Request { action, key: key.to_owned(), source: Box::new(source) },
        }
    }

    /// Whether the object asked for does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! What a check found.

use std::fmt;

use crate::{Error, Result};

/// Where something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a blob.
    Blob(String),
    /// In a content.
    Content {
        /// The content.
        content: String,
        /// The pack it is in.
        pack: String,
    },
    /// In a file, link or directory.
    File {
        /// The snapshot.
        snapshot: String,
        /// The path in it; empty for its root.
        path: String,
    },
    /// Somewhere else.
    Other,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Blob(blob) => write!(formatter, "blob {blob:?}: {}", self.problem),
            Place::Content { content, pack } => {
                write!(formatter, "content {content} in pack {pack:?}: {}", self.problem)
            }
            Place::File { snapshot, path } => write!(formatter, "snapshot {snapshot}, {path:?}: {}", self.problem),
            Place::Other => formatter.write_str(&self.problem),
        }
    }
}

/// How much was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Blobs that are no packs.
    pub blobs: u64,
    /// Packs.
    pub packs: u64,
    /// Contents.
    pub contents: u64,
    /// Their bytes in packs.
    pub bytes: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Directories; one that several snapshots share counts once.
    pub directories: u64,
    /// Files and links in them.
    pub files: u64,
}

/// What nothing needs. Maintenance removes it; it is no damage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unreferenced {
    /// Contents no snapshot needs.
    pub contents: u64,
    /// Their bytes in packs.
    pub content_bytes: u64,
    /// Packs no index names.
    pub packs: u64,
    /// Their bytes.
    pub pack_bytes: u64,
    /// Blobs with names that are not known.
    pub unknown_blobs: u64,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// How much more is wrong that is not listed.
    pub more_problems: u64,
    /// How much was checked.
    pub checked: Checked,
    /// What nothing needs.
    pub unreferenced: Unreferenced,
}

impl VerifyReport {
    /// How many problems are listed.
    const MOST: usize = 10_000;

    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty() && self.more_problems == 0
    }

    /// How many problems there are, listed or not.
    pub(super) fn count(&self) -> u64 {
        self.problems.len() as u64 + self.more_problems
    }

    pub(super) fn add(&mut self, place: Place, problem: impl Into<String>) {
        if self.problems.len() < Self::MOST {
            self.problems.push(Problem { place, problem: problem.into() });
        } else {
            self.more_problems += 1;
        }
    }

    /// Lists an error where it belongs.
    pub(super) fn error(&mut self, error: Error) {
        match error {
            Error::DamagedBlob { blob, problem } => self.add(Place::Blob(blob), problem),
            Error::BlobNotFound { blob } => self.add(Place::Blob(blob), "it does not exist"),
            Error::DamagedContent { content, pack, problem } => self.add(Place::Content { content, pack }, problem),
            other => self.add(Place::Other, other.to_string()),
        }
    }

    /// Lists what is damage; what is the fault of the store, or the wish of the caller, ends the check.
    pub(super) fn note(&mut self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if ends_the_check(&error) => Err(error),
            Err(error) => {
                self.error(error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Whether an error says nothing about the repository.
pub(super) fn ends_the_check(error: &Error) -> bool {
    match error {
        Error::Store { .. } | Error::File { .. } | Error::Canceled => true,
        Error::AtPath { source, .. } => ends_the_check(source),
        _ => false,
    }
}

//! Where blobs are: the thin adapter between a repository and a folder or bucket.
//!
//! Everything above it is blocking code on threads of its own; a bucket's requests run on the runtime it is given.

#[cfg(feature = "bucket")]
mod bucket;
mod folder;
#[cfg(feature = "bucket")]
mod location;

use std::time::SystemTime;

use bytes::Bytes;

#[cfg(feature = "bucket")]
pub use bucket::BucketStore;
pub use folder::FolderStore;
#[cfg(feature = "bucket")]
pub use location::{directory, open_location};

use crate::{Error, Result};

/// What a list says about a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// The id of the blob.
    pub id: String,
    /// How many bytes it has.
    pub size: u64,
    /// When it was written, by the clock of the store.
    pub modified: SystemTime,
}

/// The blobs of one repository. Blobs are written once, save for the few with fixed names.
pub trait BlobStore: Send + Sync {
    /// Where it is, for messages.
    fn place(&self) -> String;

    /// Whether to send a byte takes longer than to compress it: so it is over a network, and not on a disk.
    fn bytes_are_dear(&self) -> bool {
        false
    }

    /// Reads a whole blob; [`Error::BlobNotFound`] when it does not exist.
    fn get(&self, id: &str) -> Result<Bytes>;

    /// Reads a part of a blob: fewer bytes than asked for only where the blob ends.
    fn get_range(&self, id: &str, offset: u64, length: usize) -> Result<Bytes>;

    /// Stores a blob and replaces one that exists. Either all of it is stored or nothing, and a power cut takes nothing back.
    fn put(&self, id: &str, content: Bytes) -> Result<()>;

    /// Stores a blob that nobody may see before `before` has succeeded. A store that can makes it ready meanwhile. A power cut
    /// may take it back until [`settle`](Self::settle) has succeeded.
    fn put_after(&self, id: &str, content: Bytes, before: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        before()?;
        self.put(id, content)
    }

    /// Sees to it that no power cut takes back what was stored before. Nothing to do where a store answers only then.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Removes a blob; one that does not exist is no error.
    fn delete(&self, id: &str) -> Result<()>;

    /// Shows every blob whose id begins with a prefix, in no certain order.
    fn list(&self, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()>;
}

/// All blobs whose ids begin with a prefix, by id.
pub fn list_all(store: &dyn BlobStore, prefix: &str) -> Result<Vec<BlobInfo>> {
    let mut blobs = Vec::new();
    store.list(prefix, &mut |blob| {
        blobs.push(blob);
        Ok(())
    })?;
    blobs.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(blobs)
}

/// A part of a blob that must be there whole.
pub(crate) fn get_exactly(store: &dyn BlobStore, id: &str, offset: u64, length: usize) -> Result<Bytes> {
    let found = store.get_range(id, offset, length)?;
    if found.len() == length {
        return Ok(found);
    }
    let end = offset + length as u64;
    Err(Error::damaged_blob(id, format!("it ends at byte {} and must reach byte {end}", offset + found.len() as u64)))
}

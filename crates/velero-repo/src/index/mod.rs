//! Index blobs, version 2: which content lies where in which pack. Read and searched where they lie, never parsed into
//! memory; an index of ten million contents takes a few MiB of it.

mod bytes;
mod load;
mod merge;
mod raw;
mod search;
mod writer;

use crate::content_id::ContentId;

pub use bytes::IndexBytes;
pub use load::open_index_blob;
pub(crate) use merge::merge_two;
pub use merge::{IndexMerger, merge};
pub use raw::{Entries, RawIndex};
pub use search::Index;
pub use writer::{EntrySize, IndexWriter, build_index};

/// The number of a pack in the table of one index.
pub type PackNumber = u32;

/// Where a content is, as an index says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentEntry {
    /// The content.
    pub id: ContentId,
    /// When the entry was written, in seconds.
    pub timestamp: u32,
    /// Marked as deleted: still readable, and gone once the deletion watermark passes its timestamp.
    pub deleted: bool,
    /// The pack, in the table of the index the entry comes from.
    pub pack: PackNumber,
    /// Where in the pack it begins.
    pub offset: u32,
    /// How many bytes it takes there.
    pub packed_length: u32,
    /// How many bytes it is.
    pub original_length: u32,
    /// What it is compressed with, 0 for nothing.
    pub compression: u32,
    /// The format version of its writer.
    pub format_version: u8,
    /// The encryption key; always 0.
    pub key_id: u8,
}

impl ContentEntry {
    /// Whether this entry stands against another of the same content: the later, then the one not deleted, then the one
    /// in the pack with the greater name.
    pub fn wins(&self, pack: &str, other: &Self, other_pack: &str) -> bool {
        (self.timestamp, !self.deleted, pack) > (other.timestamp, !other.deleted, other_pack)
    }

    /// Whether it has passed the watermark and no longer exists.
    pub fn is_gone(&self, watermark: Option<i64>) -> bool {
        self.deleted && watermark.is_some_and(|watermark| i64::from(self.timestamp) <= watermark)
    }
}

const HEADER: usize = 17;
const PACK_ROW: usize = 5;
const FORMAT_ROW: usize = 6;
/// The high bit of the offset word.
const DELETED: u32 = 1 << 31;
/// The bits of the offset word that are an offset.
const OFFSET: u32 = (1 << 30) - 1;

#[cfg(test)]
mod tests;

//! Finds a content in one index: a few fences in memory say which rows to read.

use super::{ContentEntry, Entries, PackNumber, RawIndex};
use crate::Result;
use crate::content_id::ContentId;

/// How many rows lie between two fences.
const STRIDE: u32 = 128;

/// An index that can be searched.
#[derive(Debug)]
pub struct Index {
    raw: RawIndex,
    /// The id of every [`STRIDE`]th entry.
    fences: Vec<ContentId>,
}

impl Index {
    /// Reads an index once and remembers where what is.
    pub fn new(raw: RawIndex) -> Result<Self> {
        let mut fences = Vec::with_capacity(raw.len().div_ceil(STRIDE) as usize);
        for (position, entry) in raw.entries().enumerate() {
            let entry = entry?;
            if position.is_multiple_of(STRIDE as usize) {
                fences.push(entry.id);
            }
        }
        Ok(Self { raw, fences })
    }

    /// The entry of a content.
    pub fn find(&self, id: ContentId) -> Result<Option<ContentEntry>> {
        Ok(self.find_at(id)?.map(|(_, entry)| entry))
    }

    /// The entry of a content, and its position among all.
    pub(crate) fn find_at(&self, id: ContentId) -> Result<Option<(u32, ContentEntry)>> {
        let fence = self.fences.partition_point(|fence| *fence <= id);
        let Some(first) = fence.checked_sub(1).map(|fence| fence as u32 * STRIDE) else {
            return Ok(None);
        };
        let rows = self.raw.rows(first, STRIDE.min(self.raw.len() - first))?;
        let (key, size) = (id.to_key(), self.raw.row_size());
        let (mut low, mut high) = (0, rows.len() / size);
        while low < high {
            let middle = low.midpoint(high);
            let row = &rows[middle * size..(middle + 1) * size];
            match row[..ContentId::KEY_SIZE].cmp(&key) {
                std::cmp::Ordering::Equal => return Ok(Some((first + middle as u32, self.raw.parse(row)?))),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// How many contents there are.
    pub fn len(&self) -> u32 {
        self.raw.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The name of the pack of an entry.
    pub fn pack_name(&self, number: PackNumber) -> &str {
        self.raw.pack_name(number)
    }

    /// The names of all packs, by number.
    pub fn packs(&self) -> &[Box<str>] {
        self.raw.packs()
    }

    /// All entries, in order.
    pub fn entries(&self) -> Entries<'_> {
        self.raw.entries()
    }

    /// The entries whose ids have a prefix letter, in order.
    pub fn entries_with_prefix(&self, prefix: char) -> impl Iterator<Item = Result<ContentEntry>> + '_ {
        let first = ContentId::with_prefix(prefix, [0; 16]);
        let fence = first.map_or(0, |first| self.fences.partition_point(|fence| *fence < first)).saturating_sub(1);
        let before = move |entry: &Result<ContentEntry>| entry.as_ref().is_ok_and(|entry| Some(entry.id) < first);
        let within =
            move |entry: &Result<ContentEntry>| entry.as_ref().map_or(true, |entry| entry.id.prefix() == Some(prefix));
        self.raw.entries_from(fence as u32 * STRIDE).skip_while(before).take_while(within)
    }

    pub(super) fn raw(&self) -> &RawIndex {
        &self.raw
    }
}

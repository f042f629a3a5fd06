//! Entries that no index blob has yet.

use std::collections::HashMap;
use std::io::Cursor;

use crate::content_id::ContentId;
use crate::index::{ContentEntry, EntrySize, IndexWriter};
use crate::{Error, Result};

/// What was added since the last flush. Compact: a backup of many small files has a hundred thousand of them.
#[derive(Default)]
pub(super) struct Pending {
    entries: HashMap<ContentId, Row>,
    packs: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

#[derive(Clone, Copy)]
struct Row {
    timestamp: u32,
    pack: u32,
    offset: u32,
    packed_length: u32,
    original_length: u32,
    compression: u32,
    format_version: u8,
    deleted: bool,
}

/// The pack of a content that is being encrypted right now.
const UNDER_WAY: u32 = u32::MAX;

impl Pending {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether a content is there or under way, and whether it is marked as deleted.
    pub(super) fn state(&self, id: ContentId) -> Option<(u32, bool)> {
        self.entries.get(&id).map(|row| (row.timestamp, row.deleted))
    }

    /// Keeps the place of a content that is about to be added, so that nobody adds it twice.
    pub(super) fn reserve(&mut self, id: ContentId, timestamp: u32) {
        let row = Row {
            timestamp,
            pack: UNDER_WAY,
            offset: 0,
            packed_length: 0,
            original_length: 0,
            compression: 0,
            format_version: 0,
            deleted: false,
        };
        self.entries.insert(id, row);
    }

    pub(super) fn put(&mut self, entry: &ContentEntry, pack: &str) {
        let pack = self.number(pack);
        let row = Row {
            timestamp: entry.timestamp,
            pack,
            offset: entry.offset,
            packed_length: entry.packed_length,
            original_length: entry.original_length,
            compression: entry.compression,
            format_version: entry.format_version,
            deleted: entry.deleted,
        };
        self.entries.insert(entry.id, row);
    }

    fn number(&mut self, pack: &str) -> u32 {
        if let Some(number) = self.numbers.get(pack) {
            return *number;
        }
        let number = self.packs.len() as u32;
        self.packs.push(pack.into());
        self.numbers.insert(pack.into(), number);
        number
    }

    /// An entry with the name of its pack; `None` while it is under way.
    pub(super) fn get(&self, id: ContentId) -> Option<(ContentEntry, &str)> {
        let row = self.entries.get(&id)?;
        let pack = self.packs.get(row.pack as usize)?;
        let entry = ContentEntry {
            id,
            timestamp: row.timestamp,
            deleted: row.deleted,
            pack: 0,
            offset: row.offset,
            packed_length: row.packed_length,
            original_length: row.original_length,
            compression: row.compression,
            format_version: row.format_version,
            key_id: 0,
        };
        Some((entry, pack))
    }

    /// The plain bytes of an index with all entries.
    pub(super) fn to_index(&self) -> Result<Vec<u8>> {
        let mut ids: Vec<_> = self.entries.keys().copied().collect();
        ids.sort_unstable();
        if let Some(id) = ids.iter().find(|id| self.get(**id).is_none()) {
            return Err(Error::malformed("the new index", format!("{id} is not written")));
        }
        let wrong = |error| Error::malformed("the new index", error);
        let rows = || ids.iter().filter_map(|id| self.get(*id));
        let mut writer = IndexWriter::new(Cursor::new(Vec::new()), EntrySize::of(rows())).map_err(wrong)?;
        for (entry, pack) in rows() {
            writer.push(&entry, pack).map_err(wrong)?;
        }
        Ok(writer.finish().map_err(wrong)?.into_inner())
    }
}

//! One index as it lies in its bytes.

use super::{ContentEntry, DELETED, FORMAT_ROW, HEADER, IndexBytes, OFFSET, PACK_ROW, PackNumber};
use crate::content_id::ContentId;
use crate::{Error, Result};

/// An index whose header, packs and formats were read; its entries stay where they are.
#[derive(Debug)]
pub struct RawIndex {
    /// For messages.
    name: String,
    bytes: IndexBytes,
    entry_size: usize,
    count: u32,
    base_timestamp: u32,
    packs: Vec<Box<str>>,
    formats: Vec<(u32, u8, u8)>,
}

impl RawIndex {
    /// Reads the tables of an index; `name` is for messages.
    pub fn open(bytes: IndexBytes, name: &str) -> Result<Self> {
        let read = |offset: u64, length: usize| {
            bytes
                .read(offset, length)
                .map_err(|_| Error::damaged_blob(name, "the index is shorter than its tables say"))
        };
        let header = read(0, HEADER)?;
        let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (version, key_size) = (header[0], header[1]);
        let entry_size = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let (count, pack_count, format_count) = (word(4), word(8), usize::from(header[12]));
        if version != 2 {
            return Err(Error::damaged_blob(name, format!("it is an index of version {version}, and only 2 is known")));
        }
        // Kopia writes an index without entries with the largest key size.
        if count > 0 && (usize::from(key_size) != ContentId::KEY_SIZE || !(16..=19).contains(&entry_size)) {
            return Err(Error::damaged_blob(
                name,
                format!("its keys have {key_size} and its entries {entry_size} bytes"),
            ));
        }
        if count == 0 {
            let (packs, formats) = (Vec::new(), Vec::new());
            return Ok(Self { entry_size, count, base_timestamp: 0, packs, formats, name: name.to_owned(), bytes });
        }
        let packs_at = HEADER as u64 + u64::from(count) * (ContentId::KEY_SIZE + entry_size) as u64;
        let formats_at = packs_at + u64::from(pack_count) * PACK_ROW as u64;
        let formats = read(formats_at, format_count * FORMAT_ROW)?;
        let formats = formats.chunks_exact(FORMAT_ROW);
        let formats =
            formats.map(|row| (u32::from_be_bytes([row[0], row[1], row[2], row[3]]), row[4], row[5])).collect();
        let packs = read_packs(&bytes, packs_at, pack_count, name)?;
        Ok(Self { entry_size, count, base_timestamp: word(13), packs, formats, name: name.to_owned(), bytes })
    }

    /// How many entries there are.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many bytes it takes.
    pub fn size(&self) -> u64 {
        self.bytes.len()
    }

    /// The names of its packs, by number.
    pub fn packs(&self) -> &[Box<str>] {
        &self.packs
    }

    /// The name of the pack of an entry of this index.
    pub fn pack_name(&self, number: PackNumber) -> &str {
        self.packs.get(number as usize).map_or("", |name| name)
    }

    /// The entries from a position on, in order; each is checked.
    pub fn entries_from(&self, position: u32) -> Entries<'_> {
        Entries { index: self, position, rows: Vec::new(), next_row: 0, last: None }
    }

    /// All entries, in order; each is checked.
    pub fn entries(&self) -> Entries<'_> {
        self.entries_from(0)
    }

    pub(super) fn row_size(&self) -> usize {
        ContentId::KEY_SIZE + self.entry_size
    }

    /// The bytes of several rows.
    pub(super) fn rows(&self, position: u32, count: u32) -> Result<Vec<u8>> {
        let offset = HEADER as u64 + u64::from(position) * self.row_size() as u64;
        let rows = self.bytes.read(offset, count as usize * self.row_size());
        rows.map_err(|error| self.damaged(format!("its entries cannot be read: {error}")))
    }

    /// The entry in the bytes of a row.
    pub(super) fn parse(&self, row: &[u8]) -> Result<ContentEntry> {
        let (key, entry) = row.split_at(ContentId::KEY_SIZE);
        let word = |at: usize| u32::from_be_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
        let three = |at: usize| u32::from_be_bytes([0, entry[at], entry[at + 1], entry[at + 2]]);
        let optional = |at: usize| u32::from(entry.get(at).copied().unwrap_or(0));
        let id = ContentId::from_key(key).ok_or_else(|| self.damaged("a key of it is no content id"))?;
        let timestamp = word(0).checked_add(self.base_timestamp);
        let timestamp = timestamp.ok_or_else(|| self.damaged(format!("the time of {id} is beyond 2106")))?;
        let pack = u32::from(u16::from_be_bytes([entry[14], entry[15]])) | optional(17) << 16;
        let format = self.formats.get(optional(16) as usize);
        let (Some(&(compression, format_version, key_id)), true) = (format, (pack as usize) < self.packs.len()) else {
            return Err(self.damaged(format!("the entry of {id} names a pack or format that is not in its tables")));
        };
        Ok(ContentEntry {
            id,
            timestamp,
            deleted: word(4) & DELETED != 0,
            offset: word(4) & OFFSET,
            original_length: three(8) | (optional(18) >> 4) << 24,
            packed_length: three(11) | (optional(18) & 15) << 24,
            pack,
            compression,
            format_version,
            key_id,
        })
    }

    pub(super) fn damaged(&self, problem: impl ToString) -> Error {
        Error::damaged_blob(&self.name, problem)
    }
}

fn read_packs(bytes: &IndexBytes, at: u64, count: u32, name: &str) -> Result<Vec<Box<str>>> {
    let damaged = || Error::damaged_blob(name, "its table of packs points nowhere");
    let rows = bytes.read(at, count as usize * PACK_ROW).map_err(|_| damaged())?;
    let rows = rows.chunks_exact(PACK_ROW).map(|row| (row[0], u32::from_be_bytes([row[1], row[2], row[3], row[4]])));
    let rows: Vec<_> = rows.collect();
    let Some(first) = rows.iter().map(|row| row.1).min() else { return Ok(Vec::new()) };
    let names = usize::try_from(bytes.len().saturating_sub(u64::from(first))).map_err(|_| damaged())?;
    // The names end the index; a table that points into its entries would make this long.
    if names as u64 > u64::from(count) * 255 + 4096 {
        return Err(damaged());
    }
    let names = bytes.read(u64::from(first), names).map_err(|_| damaged())?;
    let name = |(length, offset): &(u8, u32)| {
        let start = (offset - first) as usize;
        let text = names.get(start..start + usize::from(*length)).and_then(|text| str::from_utf8(text).ok());
        text.filter(|text| !text.is_empty()).map(Box::from).ok_or_else(damaged)
    };
    rows.iter().map(name).collect()
}

/// The entries of an index, a few at a time.
pub struct Entries<'a> {
    index: &'a RawIndex,
    position: u32,
    rows: Vec<u8>,
    next_row: usize,
    last: Option<ContentId>,
}

impl Entries<'_> {
    /// How many bytes are read at once.
    const CHUNK: usize = 32 << 10;

    fn step(&mut self) -> Result<Option<ContentEntry>> {
        let size = self.index.row_size();
        if self.next_row >= self.rows.len() {
            let left = self.index.len().saturating_sub(self.position);
            if left == 0 {
                return Ok(None);
            }
            let count = left.min((Self::CHUNK / size) as u32);
            self.rows = self.index.rows(self.position, count)?;
            self.position += count;
            self.next_row = 0;
        }
        let entry = self.index.parse(&self.rows[self.next_row..self.next_row + size])?;
        self.next_row += size;
        if self.last.is_some_and(|last| last >= entry.id) {
            return Err(self.index.damaged("its entries are not in order"));
        }
        self.last = Some(entry.id);
        Ok(Some(entry))
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<ContentEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.step().transpose();
        if let Some(Err(_)) = next {
            // Nothing behind damage can be told, and whoever passes over errors must come to an end.
            (self.position, self.next_row) = (self.index.len(), self.rows.len());
        }
        next
    }
}

//! Writes an index, entry by entry.

use std::collections::HashMap;
use std::io::{self, Cursor, Seek, SeekFrom, Write};

use super::{ContentEntry, DELETED, FORMAT_ROW, HEADER, OFFSET, PACK_ROW, PackNumber};
use crate::content_id::ContentId;

/// How many bytes an entry takes; the least that holds all of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntrySize(u16);

impl EntrySize {
    /// One format, 65,536 packs, contents below 16 MiB.
    pub const LEAST: Self = Self(16);
    /// Holds every index.
    pub const MOST: Self = Self(19);

    /// The least for some entries.
    pub fn of<'a>(entries: impl IntoIterator<Item = (ContentEntry, &'a str)>) -> Self {
        let mut packs = HashMap::new();
        let mut formats = HashMap::new();
        let mut long = false;
        for (entry, pack) in entries {
            packs.entry(pack).or_insert(());
            formats.entry((entry.compression, entry.format_version, entry.key_id)).or_insert(());
            long |= entry.original_length >= 1 << 24 || entry.packed_length >= 1 << 24;
        }
        match (formats.len() > 1, packs.len() > 1 << 16, long) {
            (_, _, true) => Self(19),
            (_, true, _) => Self(18),
            (true, _, _) => Self(17),
            _ => Self::LEAST,
        }
    }
}

/// Writes entries that come in order. Packs and formats are numbered as they first appear.
pub struct IndexWriter<W> {
    output: W,
    size: EntrySize,
    count: u32,
    last: Option<ContentId>,
    packs: HashMap<Box<str>, PackNumber>,
    formats: Vec<(u32, u8, u8)>,
}

impl<W: Write + Seek> IndexWriter<W> {
    /// An index at the start of an empty output.
    pub fn new(mut output: W, size: EntrySize) -> io::Result<Self> {
        output.write_all(&[0; HEADER])?;
        Ok(Self { output, size, count: 0, last: None, packs: HashMap::new(), formats: Vec::new() })
    }

    /// Appends an entry; `pack` is the name of its pack.
    pub fn push(&mut self, entry: &ContentEntry, pack: &str) -> io::Result<()> {
        if self.last.is_some_and(|last| last >= entry.id) {
            return Err(io::Error::other("entries of an index must come in order"));
        }
        self.last = Some(entry.id);
        let pack = self.pack_number(pack);
        let format = self.format_number((entry.compression, entry.format_version, entry.key_id))?;
        let word = (entry.offset & OFFSET) | if entry.deleted { DELETED } else { 0 };
        let mut row = [0; ContentId::KEY_SIZE + 19];
        row[..17].copy_from_slice(&entry.id.to_key());
        row[17..21].copy_from_slice(&entry.timestamp.to_be_bytes());
        row[21..25].copy_from_slice(&word.to_be_bytes());
        row[25..28].copy_from_slice(&entry.original_length.to_be_bytes()[1..]);
        row[28..31].copy_from_slice(&entry.packed_length.to_be_bytes()[1..]);
        row[31..33].copy_from_slice(&pack.to_be_bytes()[2..]);
        row[33] = format;
        row[34] = pack.to_be_bytes()[1];
        row[35] = (entry.original_length >> 24 << 4 | entry.packed_length >> 24) as u8;
        let size = ContentId::KEY_SIZE + usize::from(self.size.0);
        if row[size..].iter().any(|byte| *byte != 0) || entry.offset > OFFSET || entry.original_length >> 28 != 0 {
            return Err(io::Error::other(format!("the entry of {} does not fit", entry.id)));
        }
        self.count += 1;
        self.output.write_all(&row[..size])
    }

    fn pack_number(&mut self, name: &str) -> PackNumber {
        if let Some(number) = self.packs.get(name) {
            return *number;
        }
        let number = self.packs.len() as PackNumber;
        self.packs.insert(name.into(), number);
        number
    }

    fn format_number(&mut self, format: (u32, u8, u8)) -> io::Result<u8> {
        let known = self.formats.iter().position(|known| *known == format);
        let number = known.unwrap_or_else(|| {
            self.formats.push(format);
            self.formats.len() - 1
        });
        u8::try_from(number)
            .ok()
            .filter(|number| *number < u8::MAX)
            .ok_or_else(|| io::Error::other("more than 255 formats"))
    }

    /// Writes the tables and the header, and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        let mut packs: Vec<(PackNumber, Box<str>)> = self.packs.drain().map(|(name, number)| (number, name)).collect();
        packs.sort_unstable_by_key(|pack| pack.0);
        let row = ContentId::KEY_SIZE + usize::from(self.size.0);
        let tables = packs.len() * PACK_ROW + self.formats.len() * FORMAT_ROW;
        let mut offset = HEADER as u64 + u64::from(self.count) * row as u64 + tables as u64;
        for (_, name) in &packs {
            let length = u8::try_from(name.len()).map_err(io::Error::other)?;
            self.output.write_all(&[length])?;
            self.output.write_all(&u32::try_from(offset).map_err(io::Error::other)?.to_be_bytes())?;
            offset += u64::from(length);
        }
        for (compression, version, key_id) in &self.formats {
            self.output.write_all(&compression.to_be_bytes())?;
            self.output.write_all(&[*version, *key_id])?;
        }
        for (_, name) in &packs {
            self.output.write_all(name.as_bytes())?;
        }
        self.output.seek(SeekFrom::Start(0))?;
        self.output.write_all(&[2, ContentId::KEY_SIZE as u8])?;
        self.output.write_all(&self.size.0.to_be_bytes())?;
        self.output.write_all(&self.count.to_be_bytes())?;
        self.output.write_all(&(packs.len() as u32).to_be_bytes())?;
        self.output.write_all(&[self.formats.len() as u8, 0, 0, 0, 0])?;
        self.output.flush()?;
        Ok(self.output)
    }
}

/// The index of some entries, which are sorted first; of several with one id the last stays.
pub fn build_index(mut entries: Vec<(ContentEntry, String)>) -> io::Result<Vec<u8>> {
    entries.sort_by_key(|(entry, _)| entry.id);
    entries.reverse();
    entries.dedup_by_key(|(entry, _)| entry.id);
    entries.reverse();
    let size = EntrySize::of(entries.iter().map(|(entry, pack)| (*entry, pack.as_str())));
    let mut writer = IndexWriter::new(Cursor::new(Vec::new()), size)?;
    for (entry, pack) in &entries {
        writer.push(entry, pack)?;
    }
    Ok(writer.finish()?.into_inner())
}

//! How contents lie in a pack blob. Pure.

use std::io::{self, Cursor};

use crate::content_id::Hash;
use crate::crypto::{self, Sealer};
use crate::index::{ContentEntry, EntrySize, IndexWriter};
use crate::{Error, Result};

const PREAMBLE: usize = 32;
const ALIGNMENT: usize = 4096;
/// From here on a pack gets the room for all it may hold: to grow further would hold it twice.
const LARGE: usize = 1 << 20;

/// Fills one pack. Contents are added encrypted, so that the encryption may happen elsewhere.
pub struct PackBuilder {
    name: String,
    bytes: Vec<u8>,
    /// How long it may become.
    room: usize,
    entries: Vec<ContentEntry>,
}

impl PackBuilder {
    /// An empty pack; its name is `p` for file data or `q` for the rest, 32 random hex digits, a dash and a session.
    pub fn new(letter: char, session: &str) -> Self {
        Self::with_buffer(letter, session, Vec::new(), 0)
    }

    /// The same in a buffer that was used before, for a pack that may become so long.
    pub(crate) fn with_buffer(letter: char, session: &str, mut bytes: Vec<u8>, room: usize) -> Self {
        let name = format!("{letter}{}-{session}", crate::hex::encode(&crypto::random::<16>()));
        bytes.clear();
        bytes.extend_from_slice(&crypto::random::<PREAMBLE>());
        Self { name, bytes, room, entries: Vec::new() }
    }

    /// The name of the blob.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes it has so far; it is full once this reaches the pack size of the repository.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it holds no content.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends an encrypted content in one or more parts. Offset and packed length of the entry are set here, and the
    /// entry is returned.
    pub fn add(&mut self, entry: ContentEntry, sealed: &[&[u8]]) -> ContentEntry {
        let offset = self.bytes.len();
        if offset > LARGE && self.bytes.capacity() < self.room {
            self.bytes.reserve_exact(self.room.saturating_sub(offset));
        }
        sealed.iter().for_each(|part| self.bytes.extend_from_slice(part));
        // A pack is closed long before its offsets pass 32 bits.
        let (offset, packed_length) = (offset as u32, (self.bytes.len() - offset) as u32);
        let entry = ContentEntry { offset, packed_length, ..entry };
        self.entries.push(entry);
        entry
    }

    /// The index of its own contents; there can be hundreds of thousands.
    fn index(&mut self) -> io::Result<Vec<u8>> {
        // Of a content that was added twice the later stays.
        self.entries.reverse();
        self.entries.sort_by_key(|entry| entry.id);
        self.entries.dedup_by_key(|entry| entry.id);
        let size = EntrySize::of(self.entries.iter().map(|entry| (*entry, self.name.as_str())));
        let mut writer = IndexWriter::new(Cursor::new(Vec::new()), size)?;
        self.entries.iter().try_for_each(|entry| writer.push(entry, &self.name))?;
        Ok(writer.finish()?.into_inner())
    }

    /// Closes the pack: its blob, and the entries for the index.
    pub fn finish(mut self, sealer: &Sealer) -> Result<FinishedPack> {
        let padding = ALIGNMENT - self.bytes.len() % ALIGNMENT;
        let start = self.bytes.len();
        self.bytes.resize(start + padding, 0);
        crypto::fill_random(&mut self.bytes[start..]);
        let mut index = self.index().map_err(|error| Error::malformed("the index of a pack", error))?;
        index.extend_from_slice(&crypto::random::<32>());
        let vector = sealer.hash(&index);
        let index_offset = self.bytes.len();
        sealer.seal_into(&vector, &index, &mut self.bytes);
        let postamble =
            Postamble { vector, offset: index_offset as u64, length: (self.bytes.len() - index_offset) as u64 };
        self.bytes.extend_from_slice(&postamble.to_bytes());
        Ok(FinishedPack { name: self.name, bytes: self.bytes, entries: self.entries })
    }
}

/// A pack that is ready to be stored.
pub struct FinishedPack {
    /// The name of the blob.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// What an index says about its contents. Their pack number means nothing.
    pub entries: Vec<ContentEntry>,
}

/// The end of a pack: where its own index is, for the day all indexes are lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postamble {
    /// The initialisation vector of the index.
    pub vector: Hash,
    /// Where the encrypted index begins.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
}

impl Postamble {
    /// How many bytes at the end of a pack surely hold the postamble.
    pub const MOST: usize = 256;

    /// Reads the end of a pack.
    pub fn parse(tail: &[u8]) -> Option<Self> {
        let (length, before) = tail.split_last()?;
        let postamble = &before[before.len().checked_sub(usize::from(*length))?..];
        let (payload, checksum) = postamble.split_last_chunk::<4>()?;
        if crc32fast::hash(payload) != u32::from_be_bytes(*checksum) {
            return None;
        }
        let (version, rest) = read_varint(payload)?;
        let (vector_length, rest) = read_varint(rest)?;
        if version != 1 || vector_length != 16 {
            return None;
        }
        let (vector, rest) = rest.split_first_chunk::<16>()?;
        let (offset, rest) = read_varint(rest)?;
        let (length, rest) = read_varint(rest)?;
        rest.is_empty().then_some(Self { vector: *vector, offset, length })
    }

    /// The bytes at the end of a pack.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![1, 16];
        bytes.extend_from_slice(&self.vector);
        write_varint(self.offset, &mut bytes);
        write_varint(self.length, &mut bytes);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        // Two numbers of at most ten bytes.
        bytes.push(bytes.len() as u8);
        bytes
    }
}

fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        number |= u64::from(byte & 127) << (7 * index);
        if byte & 128 == 0 {
            return Some((number, &bytes[index + 1..]));
        }
    }
    None
}

fn write_varint(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContentId;
    use crate::hex;
    use crate::index::{IndexBytes, RawIndex};
    use crate::testing::sealer;

    #[test]
    fn the_tail_of_a_pack_of_velero_is_read_and_written() {
        let bytes = hex::decode("011007454a8b4d616cb96436fa7a738a0ba98020af0180df511f1a").unwrap();
        let postamble = Postamble::parse(&bytes).unwrap();
        assert_eq!((postamble.offset, postamble.length), (4096, 175));
        assert_eq!(hex::encode(&postamble.vector), "07454a8b4d616cb96436fa7a738a0ba9");
        assert_eq!(postamble.to_bytes(), bytes);
        for length in 0..bytes.len() {
            assert_eq!(Postamble::parse(&bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn a_pack_holds_its_contents_and_its_own_index() {
        let sealer = sealer();
        let mut pack = PackBuilder::new('p', "s1");
        for text in ["one", "two", ""] {
            let id = ContentId::data(sealer.hash(text.as_bytes()));
            let entry = ContentEntry {
                id,
                timestamp: 7,
                deleted: false,
                pack: 0,
                offset: 0,
                packed_length: 0,
                original_length: text.len() as u32,
                compression: 0,
                format_version: 3,
                key_id: 0,
            };
            pack.add(entry, &[&sealer.seal(id.hash(), text.as_bytes())]);
        }
        let finished = pack.finish(&sealer).unwrap();
        let postamble = Postamble::parse(&finished.bytes).unwrap();
        assert_eq!(postamble.offset % 4096, 0);
        let start = postamble.offset as usize;
        let mut index = finished.bytes[start..start + postamble.length as usize].to_vec();
        let index = sealer.open_in_place(&postamble.vector, &mut index).unwrap().to_vec();
        let index = RawIndex::open(IndexBytes::Memory(index.into()), "local").unwrap();
        for entry in index.entries() {
            let entry = entry.unwrap();
            assert_eq!(index.pack_name(entry.pack), finished.name);
            let start = entry.offset as usize;
            let mut sealed = finished.bytes[start..start + entry.packed_length as usize].to_vec();
            let plain = sealer.open_in_place(entry.id.hash(), &mut sealed).unwrap();
            assert_eq!(plain.len(), entry.original_length as usize);
            assert_eq!(&sealer.hash(plain), entry.id.hash());
        }
        assert_eq!(index.len(), 3);
    }
}

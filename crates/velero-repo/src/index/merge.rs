//! Many indexes become one, with the entry that stands for every content. Nothing is held but a few rows of each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufWriter, Cursor, Seek, SeekFrom, Write};

use ::bytes::Bytes;

use super::{ContentEntry, EntrySize, Index, IndexBytes, IndexWriter, RawIndex};
use crate::content_id::ContentId;
use crate::{Error, Result};

/// Up to here an index stays in memory.
const IN_MEMORY: u64 = 2 << 20;

/// Walks through all entries of several indexes in order, each content once.
///
/// Entries the watermark has passed are left out.
pub fn merge(
    indexes: &[&RawIndex],
    watermark: Option<i64>,
    mut take: impl FnMut(&ContentEntry, &str) -> Result<()>,
) -> Result<()> {
    let mut sources: Vec<_> = indexes.iter().map(|index| index.entries()).collect();
    let mut heads: Vec<Option<ContentEntry>> = Vec::with_capacity(sources.len());
    let mut order: BinaryHeap<Reverse<(ContentId, usize)>> = BinaryHeap::new();
    for (number, source) in sources.iter_mut().enumerate() {
        let head = source.next().transpose()?;
        order.extend(head.map(|entry| Reverse((entry.id, number))));
        heads.push(head);
    }
    let mut best: Option<(ContentEntry, usize)> = None;
    while let Some(Reverse((id, number))) = order.pop() {
        let Some(entry) = heads[number].take() else { continue };
        heads[number] = sources[number].next().transpose()?;
        order.extend(heads[number].map(|entry| Reverse((entry.id, number))));
        let pack = |entry: &ContentEntry, number: usize| indexes[number].pack_name(entry.pack);
        best = match best {
            Some((held, from)) if held.id == id => {
                let wins = entry.wins(pack(&entry, number), &held, pack(&held, from));
                Some(if wins { (entry, number) } else { (held, from) })
            }
            other => {
                if let Some((held, from)) = other.filter(|(held, _)| !held.is_gone(watermark)) {
                    take(&held, pack(&held, from))?;
                }
                Some((entry, number))
            }
        };
    }
    if let Some((held, from)) = best.filter(|(held, _)| !held.is_gone(watermark)) {
        take(&held, indexes[from].pack_name(held.pack))?;
    }
    Ok(())
}

/// Takes indexes as they arrive and makes one of them, in bounded memory.
pub struct IndexMerger {
    watermark: Option<i64>,
    waiting: Vec<RawIndex>,
    waiting_bytes: u64,
    runs: Vec<RawIndex>,
}

impl IndexMerger {
    /// How many indexes and bytes wait at most until they are merged into a run.
    const MOST_WAITING: usize = 128;
    const MOST_WAITING_BYTES: u64 = 16 << 20;

    /// A merger that leaves out what the watermark has passed.
    pub fn new(watermark: Option<i64>) -> Self {
        Self { watermark, waiting: Vec::new(), waiting_bytes: 0, runs: Vec::new() }
    }

    /// Takes an index.
    pub fn add(&mut self, index: RawIndex) -> Result<()> {
        self.waiting_bytes += index.size();
        self.waiting.push(index);
        if self.waiting.len() >= Self::MOST_WAITING || self.waiting_bytes >= Self::MOST_WAITING_BYTES {
            let waiting = std::mem::take(&mut self.waiting);
            self.waiting_bytes = 0;
            // Deleted entries stay until the end: an older entry of another run must not come back.
            self.runs.push(RawIndex::open(merge_into_bytes(&waiting, None)?, "merged index")?);
        }
        if self.runs.len() >= Self::MOST_WAITING {
            let runs = std::mem::take(&mut self.runs);
            self.runs.push(RawIndex::open(merge_into_bytes(&runs, None)?, "merged index")?);
        }
        Ok(())
    }

    /// The one index.
    pub fn finish(mut self) -> Result<Index> {
        self.runs.append(&mut self.waiting);
        let bytes = merge_into_bytes(&self.runs, self.watermark)?;
        Index::new(RawIndex::open(bytes, "merged index")?)
    }
}

/// Two indexes become one.
pub(crate) fn merge_two(one: &Index, other: &RawIndex, watermark: Option<i64>) -> Result<Index> {
    let bytes = merge_refs_into_bytes(&[one.raw(), other], watermark)?;
    Index::new(RawIndex::open(bytes, "merged index")?)
}

fn merge_into_bytes(indexes: &[RawIndex], watermark: Option<i64>) -> Result<IndexBytes> {
    merge_refs_into_bytes(&indexes.iter().collect::<Vec<_>>(), watermark)
}

fn merge_refs_into_bytes(indexes: &[&RawIndex], watermark: Option<i64>) -> Result<IndexBytes> {
    let most: u64 = indexes.iter().map(|index| index.size() + 3 * u64::from(index.len())).sum();
    if most <= IN_MEMORY {
        let merged = merge_into(indexes, watermark, Cursor::new(Vec::new()))?;
        return Ok(IndexBytes::Memory(Bytes::from(merged.into_inner())));
    }
    let spool = |error| Error::file("write", "temporary index", error);
    let file = tempfile::tempfile().map_err(spool)?;
    let written = merge_into(indexes, watermark, BufWriter::with_capacity(256 << 10, file))?;
    let mut file = written.into_inner().map_err(|error| spool(error.into_error()))?;
    let length = file.seek(SeekFrom::End(0)).map_err(spool)?;
    Ok(IndexBytes::File { file, length })
}

fn merge_into<W: Write + Seek>(indexes: &[&RawIndex], watermark: Option<i64>, output: W) -> Result<W> {
    let spool = |error| Error::file("write", "temporary index", error);
    let mut writer = IndexWriter::new(output, EntrySize::MOST).map_err(spool)?;
    merge(indexes, watermark, |entry, pack| writer.push(entry, pack).map_err(spool))?;
    writer.finish().map_err(spool)
}

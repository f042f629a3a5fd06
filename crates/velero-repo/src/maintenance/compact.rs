//! Many index blobs become few: of one epoch, or of several.

use super::{AdvanceStats, CompactStats, Maintenance, RangeStats, epochs};
use crate::epoch::{EpochState, MARKER_CONTENT};
use crate::index::{EntrySize, IndexMerger, IndexWriter, open_index_blob};
use crate::repository::list_epochs;
use crate::store::BlobInfo;
use crate::{Error, Result, crypto, hex, parallel};

/// How many entries a blob has at most; it is put in one piece. Readers take all blobs of a set, however they are cut.
const MOST_ENTRIES: u32 = 250_000;
/// How many requests are under way.
const AT_ONCE: usize = 8;

impl Maintenance<'_> {
    pub(super) fn list_epochs(&self) -> Result<EpochState> {
        list_epochs(self.repository.store().as_ref())
    }

    /// Compacts the oldest epoch nobody writes to any more.
    pub(super) fn compact_epoch(&self) -> Result<Option<CompactStats>> {
        let state = self.list_epochs()?;
        let Some((epoch, blobs)) = epochs::to_compact(&state) else { return Ok(None) };
        if !self.options.dry_run {
            self.compact(blobs, &format!("xs{epoch}_"))?;
            let is_there = self.list_epochs()?.compacted.contains_key(&epoch);
            is_there.then_some(()).ok_or_else(|| incomplete(&format!("epoch {epoch}")))?;
        }
        Ok(Some(CompactStats {
            superseded_index_blob_count: blobs.len() as u64,
            superseded_index_total_size: blobs.iter().map(|blob| blob.size).sum(),
            epoch,
        }))
    }

    /// Ends the write epoch when it is old and large.
    pub(super) fn advance_epoch(&self) -> Result<Option<AdvanceStats>> {
        let state = self.list_epochs()?;
        let was_advanced = epochs::is_to_advance(&state, &self.repository.format().parameters.epoch_parameters);
        let next = state.write_epoch.saturating_add(1);
        if was_advanced && !self.options.dry_run {
            self.repository.store().put(&format!("xe{next}"), bytes::Bytes::from_static(MARKER_CONTENT))?;
        }
        Ok(Some(AdvanceStats { current_epoch: if was_advanced { next } else { state.write_epoch }, was_advanced }))
    }

    /// Makes one range of many settled epochs.
    pub(super) fn make_range(&self) -> Result<Option<RangeStats>> {
        let state = self.list_epochs()?;
        let parameters = &self.repository.format().parameters.epoch_parameters;
        let Some((first, last, blobs)) = epochs::to_range(&state, parameters) else { return Ok(None) };
        if !self.options.dry_run {
            self.compact(&blobs, &format!("xr{first}_{last}_"))?;
            let ranges = self.list_epochs()?.ranges;
            let is_there = ranges.iter().any(|range| (range.first, range.last) == (first, last));
            is_there.then_some(()).ok_or_else(|| incomplete(&format!("epochs {first} to {last}")))?;
        }
        Ok(Some(RangeStats { range_min_epoch: first, range_max_epoch: last }))
    }

    /// Stores what some index blobs say together as a new set. Deleted entries stay: an older one must not come back.
    fn compact(&self, blobs: &[BlobInfo], prefix: &str) -> Result<()> {
        let (store, sealer) = (self.repository.store().as_ref(), &self.repository.format().sealer);
        let mut merger = IndexMerger::new(None);
        parallel::for_each(AT_ONCE, blobs, |blob| open_index_blob(store, sealer, blob), |index| merger.add(index))?;
        let index = merger.finish()?;
        let count = index.len().div_ceil(MOST_ENTRIES).max(1);
        let set = format!("s{}-c{count}", hex::encode(&crypto::random::<8>()));
        let mut entries = index.entries();
        let wrong = |error: std::io::Error| Error::malformed("the compacted index", error);
        for _ in 0..count {
            let rows = entries.by_ref().take(MOST_ENTRIES as usize).collect::<Result<Vec<_>>>()?;
            let size = EntrySize::of(rows.iter().map(|entry| (*entry, index.pack_name(entry.pack))));
            let mut writer = IndexWriter::new(std::io::Cursor::new(Vec::new()), size).map_err(wrong)?;
            for entry in &rows {
                writer.push(entry, index.pack_name(entry.pack)).map_err(wrong)?;
            }
            let plain = writer.finish().map_err(wrong)?.into_inner();
            let hash = sealer.hash(&plain);
            store.put(&format!("{prefix}{}-{set}", hex::encode(&hash)), sealer.seal(&hash, &plain).into())?;
        }
        Ok(())
    }
}

fn incomplete(what: &str) -> Error {
    Error::malformed(format!("the compaction of {what}"), "it was stored and is not complete in the list")
}

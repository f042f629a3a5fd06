//! Deletes what something later stands for: markers, compacted indexes, old logs.

use std::cmp::Reverse;

use super::{Action, LogStats, Maintenance, MarkerStats, SupersededStats, epochs, rules};
use crate::Result;
use crate::index::{Index, IndexMerger, open_index_blob};
use crate::store::{BlobInfo, list_all};

impl Maintenance<'_> {
    /// Epoch markers and watermarks.
    pub(super) fn delete_markers(&self) -> Result<Option<MarkerStats>> {
        let state = self.list_epochs()?;
        let parameters = &self.repository.format().parameters.epoch_parameters;
        let Some(before) = epochs::replaced_before(&state, parameters) else { return Ok(None) };
        let markers = epochs::markers_to_delete(&state);
        let watermarks = epochs::watermarks_to_delete(&state, before);
        markers.iter().try_for_each(|blob| self.delete(&blob.id, "later epochs began"))?;
        watermarks.iter().try_for_each(|blob| self.delete(&blob.id, "a later watermark stands"))?;
        Ok(Some(MarkerStats {
            deleted_epoch_marker_blob_count: markers.len() as u64,
            deleted_watermark_blob_count: watermarks.len() as u64,
        }))
    }

    /// Index blobs whose compaction everybody has seen. It is read first, and must hold all they say.
    pub(super) fn delete_superseded(&self) -> Result<Option<SupersededStats>> {
        let state = self.list_epochs()?;
        let parameters = &self.repository.format().parameters.epoch_parameters;
        let Some(before) = epochs::replaced_before(&state, parameters) else { return Ok(None) };
        let mut stats = SupersededStats {
            max_replacement_time: rules::time_of(before),
            deleted_blob_count: 0,
            deleted_total_size: 0,
        };
        for (epoch, blobs, replacement) in epochs::superseded(&state, before) {
            if let Err(error) = self.holds_all(&replacement, &blobs) {
                let problem = error.to_string();
                tracing::warn!(epoch, problem, "index blobs stay because of what replaces them");
                (self.options.tell)(&Action::KeepBlobs { epoch, problem });
                continue;
            }
            for blob in blobs {
                self.delete(&blob.id, "it was compacted")?;
                stats.deleted_blob_count += 1;
                stats.deleted_total_size += blob.size;
            }
        }
        Ok(Some(stats))
    }

    fn holds_all(&self, replacement: &[BlobInfo], blobs: &[BlobInfo]) -> Result<()> {
        let merged = self.open_merged(replacement)?;
        for blob in blobs {
            let index = open_index_blob(self.repository.store().as_ref(), &self.repository.format().sealer, blob)?;
            for entry in index.entries() {
                let entry = entry?;
                let found = merged.find(entry.id)?;
                let is_held = found.is_some_and(|found| {
                    !entry.wins(index.pack_name(entry.pack), &found, merged.pack_name(found.pack))
                });
                if !is_held {
                    let problem = format!("the compaction lacks its entry of {}", entry.id);
                    return Err(crate::Error::malformed(format!("blob {:?}", blob.id), problem));
                }
            }
        }
        Ok(())
    }

    fn open_merged(&self, blobs: &[BlobInfo]) -> Result<Index> {
        let mut merger = IndexMerger::new(None);
        for blob in blobs {
            merger.add(open_index_blob(self.repository.store().as_ref(), &self.repository.format().sealer, blob)?)?;
        }
        merger.finish()
    }

    /// Logs beyond the limits.
    pub(super) fn delete_logs(&self) -> Result<Option<LogStats>> {
        let mut logs = list_all(self.repository.store().as_ref(), "_log_")?;
        logs.sort_by_key(|log| Reverse(log.modified));
        let stay = rules::logs_that_stay(&logs, &self.parameters.log_retention, (self.clock)());
        let bytes = |logs: &[BlobInfo]| logs.iter().map(|log| log.size).sum();
        let (retained, deleted) = logs.split_at(stay);
        deleted.iter().try_for_each(|log| self.delete(&log.id, "it is older than logs are kept"))?;
        let (count, size) = (deleted.len() as u64, bytes(deleted));
        let (done, done_size) = if self.options.dry_run { (0, 0) } else { (count, size) };
        Ok(Some(LogStats {
            to_delete_blob_count: count,
            to_delete_blob_size: size,
            deleted_blob_count: done,
            deleted_blob_size: done_size,
            retained_blob_count: stay as u64,
            retained_blob_size: bytes(retained),
        }))
    }
}

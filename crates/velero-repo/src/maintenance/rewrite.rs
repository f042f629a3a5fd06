//! Moves contents out of packs that hold little, so that those can go; and drops what was deleted long ago.

use jiff::Timestamp;

use super::rules::{is_old_enough_to_rewrite, safe_drop_time, short_packs};
use super::{DropStats, Maintenance, RewriteStats};
use crate::epoch::WATERMARK_CONTENT;
use crate::index::ContentEntry;
use crate::writer::ContentWriter;
use crate::{Error, Result};

/// How many contents are put into the order of packs at once.
const WINDOW: usize = 64 << 10;

impl Maintenance<'_> {
    /// The task.
    pub(super) fn rewrite(&self) -> Result<Option<RewriteStats>> {
        let index = self.repository.refresh()?.index.clone();
        // What the next task drops is not worth moving; moved, it would count as deleted just now and stay.
        let dropped = safe_drop_time(&self.schedule).map(Timestamp::as_second);
        let mut used = vec![0_u64; index.packs().len()];
        for entry in index.entries() {
            let entry = entry?;
            if let Some(used) = used.get_mut(entry.pack as usize).filter(|_| !entry.is_gone(dropped)) {
                *used += u64::from(entry.packed_length);
            }
        }
        let packs = index.packs().iter().zip(&used).map(|(name, used)| (&**name, *used));
        let short = short_packs(packs, self.repository.format().parameters.max_pack_size);
        let writer = ContentWriter::new(self.repository, self.clock.clone())?;
        let now = (self.clock)();
        let mut stats = RewriteStats::default();
        let mut window: Vec<ContentEntry> = Vec::new();
        for entry in index.entries() {
            let entry = entry?;
            if entry.is_gone(dropped) || !short.get(entry.pack as usize).is_some_and(|short| *short) {
                continue;
            }
            let bytes = u64::from(entry.packed_length);
            if is_old_enough_to_rewrite(&entry, now) {
                stats.to_rewrite_content_count += 1;
                stats.to_rewrite_content_size += bytes;
                window.push(entry);
            } else {
                stats.retained_content_count += 1;
                stats.retained_content_size += bytes;
            }
            if window.len() >= WINDOW {
                self.rewrite_window(&writer, &mut window, &mut stats)?;
            }
        }
        self.rewrite_window(&writer, &mut window, &mut stats)?;
        writer.flush()?;
        Ok(Some(stats))
    }

    fn rewrite_window(
        &self,
        writer: &ContentWriter<'_>,
        window: &mut Vec<ContentEntry>,
        stats: &mut RewriteStats,
    ) -> Result<()> {
        window.sort_unstable_by_key(|entry| (entry.pack, entry.offset));
        for entry in window.drain(..).filter(|_| !self.options.dry_run) {
            if self.options.cancel.is_cancelled() {
                return Err(Error::Canceled);
            }
            writer.rewrite(entry.id)?;
            stats.rewritten_content_count += 1;
            stats.rewritten_content_size += u64::from(entry.packed_length);
        }
        Ok(())
    }

    /// Moves the watermark on, never back.
    pub(super) fn drop_deleted(&self, time: Timestamp) -> Result<Option<DropStats>> {
        let watermark = self.repository.refresh()?.epochs.watermark;
        if !self.options.dry_run && watermark.is_none_or(|watermark| time.as_second() > watermark) {
            let name = format!("xw{}", time.as_second());
            self.repository.store().put(&name, bytes::Bytes::from_static(WATERMARK_CONTENT))?;
            self.repository.refresh()?;
        }
        Ok(Some(DropStats { dropped_contents_deleted_before: time }))
    }
}

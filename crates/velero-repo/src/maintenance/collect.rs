//! Marks contents that no snapshot needs as deleted, and brings back those that one needs again.

use super::mark::Marker;
use super::rules::{Collected, collected};
use super::{Action, CollectStats, Maintenance};
use crate::manifest::SNAPSHOT;
use crate::writer::ContentWriter;
use crate::{Error, Result};

fn count(count: &mut u64, size: &mut u64, bytes: u32) {
    *count += 1;
    *size += u64::from(bytes);
}

impl Maintenance<'_> {
    /// The task. A snapshot that cannot be walked ends it: nothing is known to be unneeded then.
    pub(super) fn collect(&self) -> Result<Option<CollectStats>> {
        let loaded = self.repository.refresh()?;
        let mut marker = Marker::new(self.repository, loaded.index.clone(), &self.options.cancel);
        for manifest in self.repository.manifests(&|manifest| manifest.has_labels(&[("type", SNAPSHOT)]))? {
            // One that was given up before it had a root needs nothing.
            if let Some(root) = &manifest.snapshot()?.root_entry {
                marker.tree(root).map_err(|error| within(&manifest.id, error))?;
            }
        }
        let live = marker.finish();
        let writer = ContentWriter::new(self.repository, self.clock.clone())?;
        let mut stats = CollectStats::default();
        for (position, entry) in loaded.index.entries().enumerate() {
            let entry = entry?;
            if position % 4096 == 0 && self.options.cancel.is_cancelled() {
                return Err(Error::Canceled);
            }
            let (stats, bytes) = (&mut stats, entry.packed_length);
            match collected(&entry, live.contains(position as u32), self.start) {
                Collected::System => {
                    count(&mut stats.in_use_system_content_count, &mut stats.in_use_system_content_size, bytes);
                }
                Collected::TooRecent => count(
                    &mut stats.unreferenced_recent_content_count,
                    &mut stats.unreferenced_recent_content_size,
                    bytes,
                ),
                Collected::Delete => {
                    count(&mut stats.unreferenced_content_count, &mut stats.unreferenced_content_size, bytes);
                    count(&mut stats.deleted_content_count, &mut stats.deleted_content_size, bytes);
                    if !entry.deleted {
                        (self.options.tell)(&Action::DeleteContent { content: entry.id.to_string() });
                        if !self.options.dry_run {
                            writer.delete(entry.id)?;
                        }
                    }
                }
                used @ (Collected::InUse | Collected::Undelete) => {
                    count(&mut stats.in_use_content_count, &mut stats.in_use_content_size, bytes);
                    if used == Collected::Undelete {
                        count(&mut stats.recovered_content_count, &mut stats.recovered_content_size, bytes);
                        (self.options.tell)(&Action::UndeleteContent { content: entry.id.to_string() });
                        if !self.options.dry_run {
                            writer.undelete(entry.id)?;
                        }
                    }
                }
            }
        }
        writer.flush()?;
        Ok(Some(stats))
    }
}

fn within(snapshot: &str, error: Error) -> Error {
    match error {
        Error::Canceled => error,
        error => Error::malformed(format!("snapshot {snapshot:?}"), error),
    }
}

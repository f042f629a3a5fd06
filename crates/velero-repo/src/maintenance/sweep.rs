//! Deletes packs that no index names, and the markers of sessions that are long over.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::Deserialize;

use super::rules::{Fate, fate, time_of};
use super::{Maintenance, PackStats};
use crate::blob_name;
use crate::index::Index;
use crate::store::{BlobInfo, list_all};
use crate::{Error, Result};

/// How many blobs are looked at again and deleted together.
const BATCH: usize = 4096;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionMarker {
    checkpoint_time: Timestamp,
}

impl Maintenance<'_> {
    /// The task. A pack stays when the index from the beginning names it, or the one from after the list: so neither
    /// readers who know an old place nor writers who are just done lose anything.
    pub(super) fn delete_packs(&self) -> Result<Option<PackStats>> {
        let watermark = self.watermark_after_drop();
        let sessions = self.sessions()?;
        let first = Named::new(&self.first_index, watermark)?;
        let mut stats = PackStats::default();
        let mut batch = Vec::new();
        for prefix in ["p", "q", "s"] {
            self.repository.store().list(prefix, &mut |blob| {
                if first.contains(&blob.id) {
                    return Ok(());
                }
                match fate(&blob, &sessions, self.start) {
                    Fate::Unknown => {}
                    Fate::Young | Fate::InSession => {
                        stats.retained_pack_count += 1;
                        stats.retained_total_size += blob.size;
                    }
                    Fate::Delete => batch.push(blob),
                }
                Ok(())
            })?;
            // Packs first: a marker outlives what it stands for.
            self.delete_batch(std::mem::take(&mut batch), watermark, &mut stats)?;
        }
        Ok(Some(stats))
    }

    fn delete_batch(&self, blobs: Vec<BlobInfo>, watermark: Option<i64>, stats: &mut PackStats) -> Result<()> {
        if blobs.is_empty() {
            return Ok(());
        }
        let current = self.repository.refresh()?.index.clone();
        let current = Named::new(&current, watermark)?;
        for (number, blob) in blobs.into_iter().enumerate() {
            if current.contains(&blob.id) {
                continue;
            }
            if number % BATCH == BATCH - 1 {
                self.check()?;
            }
            stats.unreferenced_pack_count += 1;
            stats.unreferenced_total_size += blob.size;
            self.delete(&blob.id, "no index names it")?;
            if !self.options.dry_run {
                stats.deleted_pack_count += 1;
                stats.deleted_total_size += blob.size;
            }
        }
        Ok(())
    }

    /// The watermark, in a dry run the one that would have been set.
    fn watermark_after_drop(&self) -> Option<i64> {
        let dropped = self.report.drop.map(|stats| stats.dropped_contents_deleted_before.as_second());
        self.repository.index().epochs.watermark.max(dropped)
    }

    /// The sessions that have a marker, with their last word. A marker that cannot be read counts by its age.
    fn sessions(&self) -> Result<HashMap<String, Timestamp>> {
        let mut sessions = HashMap::new();
        for blob in list_all(self.repository.store().as_ref(), "s")? {
            let Some(session) = blob_name::session_in(&blob.id) else { continue };
            let last_word = match self.read_marker(&blob.id) {
                Ok(marker) => marker.checkpoint_time.max(time_of(blob.modified)),
                Err(error) if error.is_blob_not_found() => continue,
                Err(error @ (Error::DamagedBlob { .. } | Error::Malformed { .. })) => {
                    tracing::warn!(%error, "a session marker cannot be read");
                    time_of(blob.modified)
                }
                Err(error) => return Err(error),
            };
            let known = sessions.entry(session.to_owned()).or_insert(last_word);
            *known = (*known).max(last_word);
        }
        Ok(sessions)
    }

    fn read_marker(&self, name: &str) -> Result<SessionMarker> {
        let mut content = Vec::from(self.repository.store().get(name)?);
        let vector = blob_name::hash_in(name).ok_or_else(|| Error::damaged_blob(name, "its name has no hash"))?;
        let plain = self.repository.format().sealer.open_in_place(&vector, &mut content);
        let plain = plain.map_err(|error| Error::damaged_blob(name, error))?;
        serde_json::from_slice(plain).map_err(|error| Error::malformed(format!("blob {name:?}"), error))
    }
}

/// The packs that entries above the watermark name.
struct Named<'a>(HashSet<&'a str>);

impl<'a> Named<'a> {
    fn new(index: &'a Index, watermark: Option<i64>) -> Result<Self> {
        let mut is_named = vec![false; index.packs().len()];
        for entry in index.entries() {
            let entry = entry?;
            if !entry.is_gone(watermark)
                && let Some(is_named) = is_named.get_mut(entry.pack as usize)
            {
                *is_named = true;
            }
        }
        let names = index.packs().iter().zip(is_named).filter(|(_, is_named)| *is_named);
        Ok(Self(names.map(|(name, _)| &**name).collect()))
    }

    fn contains(&self, pack: &str) -> bool {
        self.0.contains(pack)
    }
}

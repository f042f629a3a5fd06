//! Writes an index again from what packs say of themselves.

use std::collections::HashSet;
use std::sync::Arc;

use super::contents::read_local_index;
use super::report::{VerifyReport, ends_the_check};
use crate::clock::Clock;
use crate::epoch::EpochState;
use crate::format::Format;
use crate::index::{Index, IndexMerger, build_index};
use crate::repository::{list_epochs, open_checked_index};
use crate::store::{BlobStore, list_all};
use crate::writer::index_put::{NewIndex, put_index};
use crate::{Result, blob_name};

/// How many entries go into one index blob.
const MOST_ENTRIES: usize = 100_000;

/// What a repair did, or would do.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Index blobs that cannot be read and are removed, with the others of their sets.
    pub removed: Vec<String>,
    /// Contents that no readable index names and a pack has.
    pub recovered: u64,
    /// Index blobs written.
    pub written: Vec<String>,
    /// What is wrong with packs and indexes.
    pub damage: VerifyReport,
}

/// Adds what packs hold and no readable index names to the index, and removes index blobs that cannot be read.
///
/// Contents that were marked as deleted in a lost index come back; the next maintenance finds them. A dry run writes
/// nothing.
pub fn rebuild_index(
    store: &Arc<dyn BlobStore>,
    format: &Format,
    clock: &Clock,
    dry_run: bool,
) -> Result<RepairReport> {
    let mut report = RepairReport::default();
    let epochs = list_epochs(store.as_ref())?;
    let known = readable_index(store.as_ref(), format, &epochs, &mut report)?;
    let mut merger = IndexMerger::new(None);
    for prefix in ["p", "q"] {
        for pack in list_all(store.as_ref(), prefix)? {
            if blob_name::session_in(&pack.id).is_none() {
                continue;
            }
            match read_local_index(store.as_ref(), &format.sealer, &pack) {
                Ok(index) => merger.add(index)?,
                Err(error) if ends_the_check(&error) => return Err(error),
                Err(error) => report.damage.error(error),
            }
        }
    }
    let found = merger.finish()?;
    let mut missing = Vec::new();
    for entry in found.entries() {
        let entry = entry?;
        if known.find(entry.id)?.is_none() && !entry.is_gone(epochs.watermark) {
            report.recovered += 1;
            missing.push((entry, found.pack_name(entry.pack).to_owned()));
        }
        if missing.len() >= MOST_ENTRIES {
            write(store.as_ref(), format, clock, std::mem::take(&mut missing), dry_run, &mut report)?;
        }
    }
    write(store.as_ref(), format, clock, missing, dry_run, &mut report)?;
    // Last: until the new ones are there, nothing may look whole that is not.
    if !dry_run {
        report.removed.iter().try_for_each(|blob| store.delete(blob))?;
    }
    Ok(report)
}

/// The index that is left once what cannot be read is removed. Of a set every blob must be readable.
fn readable_index(
    store: &dyn BlobStore,
    format: &Format,
    epochs: &EpochState,
    report: &mut RepairReport,
) -> Result<Index> {
    let all = list_all(store, crate::epoch::PREFIX)?;
    let indexes = all.into_iter().filter(|blob| ["xn", "xs", "xr"].iter().any(|kind| blob.id.starts_with(kind)));
    let (mut broken_sets, mut readable) = (HashSet::new(), Vec::new());
    for blob in indexes {
        match open_checked_index(store, &format.sealer, &blob) {
            Ok(_) => readable.push(blob),
            Err(error) if ends_the_check(&error) => return Err(error),
            Err(error) => {
                report.damage.error(error);
                if !blob.id.starts_with("xn") {
                    broken_sets.extend(set_of(&blob.id));
                }
                report.removed.push(blob.id);
            }
        }
    }
    let is_broken = |name: &str| set_of(name).is_some_and(|set| broken_sets.contains(&set));
    let (removed, left): (Vec<_>, Vec<_>) = readable.into_iter().partition(|blob| is_broken(&blob.id));
    report.removed.extend(removed.into_iter().map(|blob| blob.id));
    let markers = epochs.markers.values().chain(epochs.watermarks.values()).cloned();
    let left = EpochState::from_blobs(markers.chain(left));
    let mut merger = IndexMerger::new(epochs.watermark);
    for blob in left.complete_index_set() {
        merger.add(open_checked_index(store, &format.sealer, blob)?)?;
    }
    merger.finish()
}

/// The kind, epochs and set of a compaction; an `xn` blob stands for itself.
fn set_of(name: &str) -> Option<String> {
    let (before, set) = name.split_once('-').filter(|_| !name.starts_with("xn"))?;
    before.rsplit_once('_').map(|(epochs, _)| format!("{epochs}-{set}"))
}

fn write(
    store: &dyn BlobStore,
    format: &Format,
    clock: &Clock,
    entries: Vec<(crate::index::ContentEntry, String)>,
    dry_run: bool,
    report: &mut RepairReport,
) -> Result<()> {
    if entries.is_empty() || dry_run {
        return Ok(());
    }
    let plain = build_index(entries).map_err(|error| crate::Error::malformed("the rebuilt index", error))?;
    let hash = format.sealer.hash(&plain);
    let session = blob_name::new_session_id(clock().as_second());
    let new = NewIndex { hash: &hash, session: &session, sealed: format.sealer.seal(&hash, &plain).into() };
    let stored = put_index(store, clock, None, &new, &mut || Ok(()))?;
    report.written.push(stored.name);
    Ok(())
}

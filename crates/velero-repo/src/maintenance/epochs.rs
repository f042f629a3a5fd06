//! What maintenance does with epochs. Pure.

use std::time::{Duration, SystemTime};

use crate::epoch::{Epoch, EpochState};
use crate::format::EpochParameters;
use crate::store::BlobInfo;

fn nanoseconds(count: i64) -> Duration {
    Duration::from_nanos(count.max(0).unsigned_abs())
}

/// The first epoch that no range of the chain covers.
fn first_after_ranges(state: &EpochState) -> Epoch {
    state.range_chain().last().map_or(0, |range| range.last.saturating_add(1))
}

/// The epoch whose blobs are compacted next, with the blobs: the oldest that is settled and not compacted.
pub(super) fn to_compact(state: &EpochState) -> Option<(Epoch, &[BlobInfo])> {
    let mut epoch = first_after_ranges(state);
    while state.compacted.contains_key(&epoch) {
        epoch = epoch.checked_add(1)?;
    }
    let blobs = state.uncompacted.get(&epoch).filter(|blobs| state.is_settled(epoch) && !blobs.is_empty())?;
    Some((epoch, blobs))
}

/// Whether the write epoch ends: it is a day old and large.
pub(super) fn is_to_advance(state: &EpochState, parameters: &EpochParameters) -> bool {
    let blobs = state.uncompacted.get(&state.write_epoch).map_or(&[][..], Vec::as_slice);
    let times = || blobs.iter().map(|blob| blob.modified);
    let (Some(oldest), Some(newest)) = (times().min(), times().max()) else { return false };
    if newest.duration_since(oldest).unwrap_or_default() < nanoseconds(parameters.min_epoch_duration) {
        return false;
    }
    let bytes: u64 = blobs.iter().map(|blob| blob.size).sum();
    let reaches = |limit: i64, value: u64| value >= limit.max(1).unsigned_abs();
    reaches(parameters.epoch_advance_on_count_threshold, blobs.len() as u64)
        || reaches(parameters.epoch_advance_on_total_size_bytes_threshold, bytes)
}

/// The epochs that become one range, first and last, with their blobs.
pub(super) fn to_range(state: &EpochState, parameters: &EpochParameters) -> Option<(Epoch, Epoch, Vec<BlobInfo>)> {
    let first = first_after_ranges(state);
    let last = state.write_epoch.checked_sub(2)?;
    if last.checked_sub(first)? < parameters.full_checkpoint_frequency.max(1).unsigned_abs() {
        return None;
    }
    let of_epoch = |epoch: &Epoch| state.compacted.get(epoch).or_else(|| state.uncompacted.get(epoch));
    let blobs: Vec<_> = (first..=last).filter_map(|epoch| of_epoch(&epoch).cloned()).flatten().collect();
    (!blobs.is_empty()).then_some((first, last, blobs))
}

/// Replacements must be older than this, by the clock of the store: everybody has seen them by then.
pub(super) fn replaced_before(state: &EpochState, parameters: &EpochParameters) -> Option<SystemTime> {
    let from = state.write_epoch.saturating_sub(1);
    let loaded = state.uncompacted.range(from..=state.write_epoch.saturating_add(1));
    let newest = loaded.flat_map(|(_, blobs)| blobs).map(|blob| blob.modified).max()?;
    newest.checked_sub(nanoseconds(parameters.cleanup_safety_margin))
}

/// The epoch markers that no longer say anything.
pub(super) fn markers_to_delete(state: &EpochState) -> Vec<BlobInfo> {
    let before = state.write_epoch.saturating_sub(1);
    state.markers.range(..before).map(|(_, blob)| blob.clone()).collect()
}

/// The watermarks a later one replaced long enough ago.
pub(super) fn watermarks_to_delete(state: &EpochState, before: SystemTime) -> Vec<BlobInfo> {
    let replaced = state.watermarks.iter().filter(|(time, _)| Some(**time) != state.watermark);
    replaced.map(|(_, blob)| blob).filter(|blob| blob.modified < before).cloned().collect()
}

/// The epochs whose blobs were replaced long enough ago, with the blobs and what replaced them.
pub(super) fn superseded(state: &EpochState, before: SystemTime) -> Vec<(Epoch, Vec<BlobInfo>, Vec<BlobInfo>)> {
    let old_enough = |blobs: &[BlobInfo]| !blobs.is_empty() && blobs.iter().all(|blob| blob.modified < before);
    let replacement = |epoch: Epoch| state.compacted.get(&epoch).filter(|blobs| old_enough(blobs));
    let settled = state.uncompacted.iter().filter(|(epoch, _)| state.is_settled(**epoch));
    settled.filter_map(|(epoch, blobs)| Some((*epoch, blobs.clone(), replacement(*epoch)?.clone()))).collect()
}

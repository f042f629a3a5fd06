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

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "58c1a2849da1a3700028bc1066016d55";
    const HOUR: u64 = 3600;

    /// Blobs by name and hour; `#` stands for a hash.
    fn state(blobs: &[(&str, u64)]) -> EpochState {
        EpochState::from_blobs(blobs.iter().map(|(name, hour)| BlobInfo {
            id: name.replace('#', HASH),
            size: 100,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs((1000 + hour) * HOUR),
        }))
    }

    fn names<'a>(blobs: impl IntoIterator<Item = &'a BlobInfo>) -> Vec<String> {
        blobs.into_iter().map(|blob| blob.id.replace(HASH, "#")).collect()
    }

    #[test]
    fn the_oldest_settled_epoch_is_compacted() {
        for (blobs, expected) in [
            (&["xn0_#-s1-c1"][..], None),
            (&["xe1", "xn0_#-s1-c1"], None),
            (&["xe2", "xn0_#-s1-c1", "xn0_#-s2-c1", "xn1_#-s3-c1"], Some((0, 2))),
            (&["xe2", "xn0_#-s1-c1", "xn1_#-s3-c1", "xs0_#-s4-c1"], None),
            (&["xe3", "xn0_#-s1-c1", "xn1_#-s3-c1", "xs0_#-s4-c1"], Some((1, 1))),
            (&["xe3", "xn0_#-s1-c1", "xs0_#-s4-c2"], Some((0, 1))),
            (&["xe9", "xn2_#-s1-c1", "xr0_1_#-s4-c1"], Some((2, 1))),
        ] {
            let state = state(&blobs.iter().map(|name| (*name, 0)).collect::<Vec<_>>());
            assert_eq!(to_compact(&state).map(|(epoch, blobs)| (epoch, blobs.len())), expected, "{blobs:?}");
        }
    }

    #[test]
    fn an_epoch_ends_when_it_is_a_day_old_and_large() {
        let parameters = EpochParameters {
            epoch_advance_on_count_threshold: 3,
            epoch_advance_on_total_size_bytes_threshold: 1000,
            ..EpochParameters::default()
        };
        let few = EpochParameters { epoch_advance_on_total_size_bytes_threshold: 200, ..parameters };
        let two = state(&[("xn0_#-s1-c1", 0), ("xn0_#-s2-c1", 24)]);
        let three = state(&[("xn0_#-s1-c1", 0), ("xn0_#-s2-c1", 1), ("xn0_#-s3-c1", 24)]);
        let young = state(&[("xn0_#-s1-c1", 1), ("xn0_#-s2-c1", 2), ("xn0_#-s3-c1", 24)]);
        assert!(!is_to_advance(&state(&[]), &parameters));
        assert!(!is_to_advance(&two, &parameters), "old and small");
        assert!(is_to_advance(&two, &few), "old and long");
        assert!(is_to_advance(&three, &parameters), "old and many");
        assert!(!is_to_advance(&young, &parameters), "many and young");
        assert!(!is_to_advance(&state(&[("xe1", 0), ("xn0_#-s1-c1", 0), ("xn0_#-s2-c1", 24)]), &few), "another epoch");
    }

    #[test]
    fn a_range_is_made_of_eight_settled_epochs() {
        let parameters = EpochParameters::default();
        let with = |write: &str, more: &[&'static str]| {
            let mut blobs = vec![(write, 0), ("xn3_#-s1-c1", 0), ("xs0_#-s4-c1", 0), ("xn0_#-s7-c1", 0)];
            blobs.extend(more.iter().map(|name| (*name, 0)));
            to_range(&state(&blobs), &parameters).map(|(first, last, blobs)| (first, last, names(&blobs)))
        };
        assert_eq!(with("xe8", &[]), None);
        let expected = vec!["xs0_#-s4-c1".to_owned(), "xn3_#-s1-c1".to_owned()];
        assert_eq!(with("xe9", &[]), Some((0, 7, expected)));
        assert_eq!(with("xe9", &["xr0_2_#-s9-c1"]), None);
        assert_eq!(with("xe12", &["xr0_2_#-s9-c1"]), Some((3, 10, vec!["xn3_#-s1-c1".to_owned()])));
        assert_eq!(with("xe1", &[]), None);
    }

    #[test]
    fn markers_watermarks_and_indexes_go_once_what_replaced_them_is_four_hours_old() {
        let state = state(&[
            ("xe1", 0),
            ("xe2", 0),
            ("xe3", 5),
            ("xw100", 0),
            ("xw200", 6),
            ("xw300", 7),
            ("xn0_#-s1-c1", 0),
            ("xn1_#-s2-c1", 0),
            ("xn2_#-s3-c1", 0),
            ("xn3_#-s4-c1", 10),
            ("xs0_#-s5-c1", 5),
            ("xs1_#-s6-c1", 6),
            ("xs2_#-s7-c1", 0),
        ]);
        let before = replaced_before(&state, &EpochParameters::default()).unwrap();
        assert_eq!(before.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(), 1006 * HOUR);
        assert_eq!(names(&markers_to_delete(&state)), ["xe1"]);
        assert_eq!(names(&watermarks_to_delete(&state, before)), ["xw100"]);
        let gone = superseded(&state, before);
        assert_eq!(gone.len(), 1, "epoch 1 was compacted too lately, epoch 2 is not settled: {gone:?}");
        assert_eq!(
            (gone[0].0, names(&gone[0].1), names(&gone[0].2)),
            (0, vec!["xn0_#-s1-c1".to_owned()], vec!["xs0_#-s5-c1".to_owned()])
        );
        assert_eq!(replaced_before(&EpochState::default(), &EpochParameters::default()), None);
    }
}

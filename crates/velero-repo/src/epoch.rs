//! Which index blobs count: epochs and their compactions. Pure; made from one list of all blobs that begin with `x`.

use std::collections::BTreeMap;

use crate::store::BlobInfo;

/// What every index-related blob begins with.
pub const PREFIX: &str = "x";
/// The content of an epoch marker.
pub const MARKER_CONTENT: &[u8] = b"epoch-marker";
/// The content of a deletion watermark.
pub const WATERMARK_CONTENT: &[u8] = b"deletion-watermark";

/// An epoch of the repository: index blobs written at about the same time.
pub type Epoch = u64;

/// Several epochs merged into one set of blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeCheckpoint {
    /// The first epoch.
    pub first: Epoch,
    /// The last epoch.
    pub last: Epoch,
    /// The blobs that hold them together.
    pub blobs: Vec<BlobInfo>,
}

/// The state of all epochs, as one list shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EpochState {
    /// The epoch new index blobs belong to.
    pub write_epoch: Epoch,
    /// Entries deleted up to this Unix time no longer exist.
    pub watermark: Option<i64>,
    /// The epoch markers.
    pub markers: BTreeMap<Epoch, BlobInfo>,
    /// The deletion watermarks by their time.
    pub watermarks: BTreeMap<i64, BlobInfo>,
    /// Index blobs as writers put them.
    pub uncompacted: BTreeMap<Epoch, Vec<BlobInfo>>,
    /// Complete compactions of one epoch.
    pub compacted: BTreeMap<Epoch, Vec<BlobInfo>>,
    /// Complete compactions of several epochs.
    pub ranges: Vec<RangeCheckpoint>,
}

impl EpochState {
    /// From the blobs whose names begin with [`PREFIX`], sorted by name. Names that are not known are left alone.
    pub fn from_blobs(blobs: impl IntoIterator<Item = BlobInfo>) -> Self {
        let mut state = Self::default();
        let mut compacted: BTreeMap<(Epoch, String), Vec<BlobInfo>> = BTreeMap::new();
        let mut ranges: BTreeMap<(Epoch, Epoch, String), Vec<BlobInfo>> = BTreeMap::new();
        for blob in blobs {
            let name = blob.id.clone();
            match Name::parse(&name) {
                Some(Name::Marker(epoch)) => drop(state.markers.insert(epoch, blob)),
                Some(Name::Watermark(time)) => drop(state.watermarks.insert(time, blob)),
                Some(Name::Uncompacted(epoch)) => state.uncompacted.entry(epoch).or_default().push(blob),
                Some(Name::Compacted(epoch, set)) => compacted.entry((epoch, set.to_owned())).or_default().push(blob),
                Some(Name::Range(first, last, set)) => {
                    ranges.entry((first, last, set.to_owned())).or_default().push(blob);
                }
                None => {}
            }
        }
        state.write_epoch = state.markers.keys().next_back().copied().unwrap_or(0);
        state.watermark = state.watermarks.keys().next_back().copied();
        for ((epoch, set), blobs) in compacted {
            if is_complete(&set, &blobs) {
                state.compacted.entry(epoch).or_insert(blobs);
            }
        }
        for ((first, last, set), blobs) in ranges {
            // They come in order, so one of the same epochs would be the one before.
            let known = state.ranges.last().is_some_and(|range| (range.first, range.last) == (first, last));
            if is_complete(&set, &blobs) && !known {
                state.ranges.push(RangeCheckpoint { first, last, blobs });
            }
        }
        state
    }

    /// Whether nobody writes to an epoch any more.
    pub fn is_settled(&self, epoch: Epoch) -> bool {
        epoch.checked_add(2).is_some_and(|settled| settled <= self.write_epoch)
    }

    /// The ranges that cover the epochs from 0 on the furthest, with the fewest of them.
    pub fn range_chain(&self) -> Vec<&RangeCheckpoint> {
        // For each epoch that a chain can end at: how many ranges the shortest has, and the last of them.
        let mut chains: BTreeMap<Epoch, (usize, &RangeCheckpoint)> = BTreeMap::new();
        let mut ranges: Vec<_> = self.ranges.iter().filter(|range| range.first <= range.last).collect();
        ranges.sort_by_key(|range| range.first);
        for range in ranges {
            let length = match range.first.checked_sub(1) {
                None => 1,
                Some(before) => match chains.get(&before) {
                    Some((length, _)) => length + 1,
                    None => continue,
                },
            };
            let best = chains.entry(range.last).or_insert((length, range));
            if length < best.0 {
                *best = (length, range);
            }
        }
        let mut chain = Vec::new();
        let mut end = chains.keys().next_back().copied();
        while let Some((_, range)) = end.and_then(|end| chains.get(&end)) {
            chain.push(*range);
            end = range.first.checked_sub(1);
        }
        chain.reverse();
        chain
    }

    /// The blobs that together are the index of the repository.
    pub fn complete_index_set(&self) -> Vec<&BlobInfo> {
        let chain = self.range_chain();
        let next = chain.last().map_or(0, |range| range.last.saturating_add(1));
        let mut set: Vec<_> = chain.into_iter().flat_map(|range| &range.blobs).collect();
        let last = self.write_epoch.saturating_add(1);
        let epochs = self.uncompacted.keys().chain(self.compacted.keys()).copied();
        let epochs: std::collections::BTreeSet<_> = epochs.filter(|epoch| (next..=last).contains(epoch)).collect();
        for epoch in epochs {
            let compacted = self.compacted.get(&epoch).filter(|_| self.is_settled(epoch));
            set.extend(compacted.or_else(|| self.uncompacted.get(&epoch)).into_iter().flatten());
        }
        set
    }
}

/// A set says in its name how many blobs it has.
fn is_complete(set: &str, blobs: &[BlobInfo]) -> bool {
    let count = set.rsplit_once("-c").and_then(|(_, count)| count.parse::<usize>().ok());
    count.is_some_and(|count| count > 0 && blobs.len() >= count)
}

enum Name<'a> {
    Marker(Epoch),
    Watermark(i64),
    Uncompacted(Epoch),
    Compacted(Epoch, &'a str),
    Range(Epoch, Epoch, &'a str),
}

impl<'a> Name<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let (kind, rest) = name.split_at_checked(2)?;
        let set = || rest.split_once('-').map(|(_, set)| set);
        let mut numbers = rest.split('_');
        let mut number = || numbers.next()?.parse::<Epoch>().ok();
        match kind {
            "xe" => rest.parse().ok().map(Self::Marker),
            "xw" => rest.parse().ok().map(Self::Watermark),
            "xn" => number().map(Self::Uncompacted),
            "xs" => Some(Self::Compacted(number()?, set()?)),
            "xr" => Some(Self::Range(number()?, number()?, set()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "58c1a2849da1a3700028bc1066016d55";

    fn state(names: &[&str]) -> EpochState {
        let blob = |name: &&str| BlobInfo {
            id: name.replace('#', HASH),
            size: 1,
            modified: std::time::SystemTime::UNIX_EPOCH,
        };
        EpochState::from_blobs(names.iter().map(blob))
    }

    fn set(names: &[&str]) -> Vec<String> {
        state(names).complete_index_set().into_iter().map(|blob| blob.id.replace(HASH, "#")).collect()
    }

    #[test]
    fn without_markers_everything_of_the_first_two_epochs_counts() {
        let names = ["xn0_#-s1-c1", "xn1_#-s2-c1", "xn2_#-s3-c1", "xs0_#-s4-c1", "kopia.x", "xz"];
        assert_eq!(set(&names), ["xn0_#-s1-c1", "xn1_#-s2-c1"], "epoch 0 is not settled, epoch 2 not yet there");
    }

    #[test]
    fn a_settled_epoch_counts_by_its_compaction() {
        let names =
            ["xe1", "xe2", "xn0_#-s1-c1", "xn1_#-s2-c1", "xn2_#-s3-c1", "xn10_#-s5-c1", "xs0_#-s4-c1", "xs1_#-s6-c1"];
        assert_eq!(set(&names), ["xs0_#-s4-c1", "xn1_#-s2-c1", "xn2_#-s3-c1"]);
        assert_eq!(state(&names).write_epoch, 2);
    }

    #[test]
    fn half_a_compaction_does_not_count() {
        let names = ["xe2", "xn0_#-s1-c1", "xs0_a#-s4-c2"];
        assert_eq!(set(&names), ["xn0_#-s1-c1"]);
        assert_eq!(set(&["xe2", "xn0_#-s1-c1", "xs0_a#-s4-c2", "xs0_b#-s4-c2"]), ["xs0_a#-s4-c2", "xs0_b#-s4-c2"]);
    }

    #[test]
    fn the_longest_chain_of_ranges_counts_and_the_shorter_of_equal_ones() {
        let names = [
            "xe20",
            "xr0_7_#-s1-c1",
            "xr8_15_#-s2-c1",
            "xr0_3_#-s3-c1",
            "xr4_15_#-s4-c1",
            "xr17_18_#-s5-c1",
            "xs16_#-s6-c1",
            "xn3_#-s7-c1",
        ];
        assert_eq!(state(&names).range_chain().len(), 2);
        let found = set(&names);
        assert_eq!(found.last().unwrap(), "xs16_#-s6-c1");
        assert_eq!(found.len(), 3);
        let names = ["xe20", "xr0_15_#-s1-c1", "xr0_7_#-s2-c1", "xr8_15_#-s3-c1"];
        assert_eq!(set(&names), ["xr0_15_#-s1-c1"]);
    }

    #[test]
    fn a_chain_of_very_many_ranges_is_found() {
        let names: Vec<String> = (0..20_000).map(|epoch| format!("xr{epoch}_{epoch}_#-s{epoch}-c1")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let state = state(&names);
        let chain = state.range_chain();
        assert_eq!((chain.len(), chain[0].first, chain[19_999].last), (20_000, 0, 19_999));
    }

    #[test]
    fn the_greatest_watermark_counts() {
        assert_eq!(state(&["xw900", "xw1000"]).watermark, Some(1000));
        assert_eq!(state(&[]).watermark, None);
    }
}

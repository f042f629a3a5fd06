//! Which parts of which packs are fetched, and in what order. Pure.

use std::ops::Range;

use crate::index::{ContentEntry, PackNumber};

/// Up to here what lies between two contents is fetched along: a request costs more.
const MOST_GAP: u64 = 256 << 10;
/// How long a fetched part is, unless one content alone is longer.
const MOST_LENGTH: u64 = 4 << 20;

/// A part of a pack that is fetched at once, and the places its contents go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetch {
    pub(super) pack: PackNumber,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Positions in the list that was planned.
    pub(super) pieces: Range<usize>,
}

impl Fetch {
    /// How many bytes are fetched.
    pub(super) fn len(&self) -> usize {
        // Shorter than a pack.
        (self.end - self.start) as usize
    }
}

/// The order of pieces in which packs are read from start to end.
pub(super) fn order(entry: &ContentEntry) -> (PackNumber, u32) {
    (entry.pack, entry.offset)
}

/// Plans the fetches for pieces in [`order`]. Pieces with the same content share it.
pub(super) fn coalesce<'a>(entries: impl Iterator<Item = &'a ContentEntry>) -> Vec<Fetch> {
    let mut fetches: Vec<Fetch> = Vec::new();
    let mut last: Option<&ContentEntry> = None;
    for (position, entry) in entries.enumerate() {
        let start = u64::from(entry.offset);
        let end = start + u64::from(entry.packed_length);
        let same =
            last.is_some_and(|last| last.pack == entry.pack && last.offset == entry.offset && last.id == entry.id);
        last = Some(entry);
        match fetches.last_mut() {
            Some(fetch) if same => fetch.pieces.end = position + 1,
            Some(fetch)
                if fetch.pack == entry.pack
                    && (fetch.end..=fetch.end + MOST_GAP).contains(&start)
                    && end - fetch.start <= MOST_LENGTH =>
            {
                fetch.end = end;
                fetch.pieces.end = position + 1;
            }
            _ => fetches.push(Fetch { pack: entry.pack, start, end, pieces: position..position + 1 }),
        }
    }
    fetches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContentId;

    fn entry(pack: u32, offset: u32, packed_length: u32) -> ContentEntry {
        let mut hash = [0; 16];
        hash[..4].copy_from_slice(&offset.to_be_bytes());
        ContentEntry {
            id: ContentId::data(hash),
            timestamp: 1,
            deleted: false,
            pack,
            offset,
            packed_length,
            original_length: packed_length - 28,
            compression: 0,
            format_version: 3,
            key_id: 0,
        }
    }

    fn plan(entries: &[ContentEntry]) -> Vec<(u32, u64, u64, usize)> {
        let plan = coalesce(entries.iter());
        plan.into_iter().map(|fetch| (fetch.pack, fetch.start, fetch.end, fetch.pieces.len())).collect()
    }

    #[test]
    fn neighbours_are_fetched_together_and_packs_apart() {
        let entries = [entry(0, 32, 100), entry(0, 132, 100), entry(1, 32, 50), entry(1, 1_000_000, 50)];
        assert_eq!(plan(&entries), [(0, 32, 232, 2), (1, 32, 82, 1), (1, 1_000_000, 1_000_050, 1)]);
    }

    #[test]
    fn a_content_that_is_needed_often_is_fetched_once() {
        let entries = [entry(0, 32, 100), entry(0, 32, 100), entry(0, 32, 100)];
        assert_eq!(plan(&entries), [(0, 32, 132, 3)]);
    }

    #[test]
    fn a_fetch_is_bounded_and_a_long_content_stands_alone() {
        let long = 9 << 20;
        let entries = [entry(0, 32, long), entry(0, 32 + long, 3 << 20), entry(0, 32 + long + (3 << 20), 2 << 20)];
        assert_eq!(plan(&entries).len(), 3);
    }

    #[test]
    fn contents_that_overlap_are_fetched_apart() {
        assert_eq!(plan(&[entry(0, 32, 100), entry(0, 64, 100)]).len(), 2);
    }
}

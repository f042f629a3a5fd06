//! Where objects are cut into contents. Pure; the only sequential part of an upload.

mod table;

use crate::{Error, Result};
use table::TABLE;

const WINDOW: usize = 64;
/// How long the stretches are that are searched side by side.
const STRETCH: usize = 16 << 10;

/// Finds the ends of pieces in a stream of bytes.
///
/// With `BUZHASH`, an end lies where the rolling hash of the last 64 bytes has only zeros below the mask, not before
/// half and not after twice the average size. The hash is a function of these 64 bytes alone, so the first half of a
/// piece is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splitter {
    least: usize,
    most: usize,
    mask: u32,
}

impl Default for Splitter {
    /// The splitter of Velero, `DYNAMIC-4M-BUZHASH`.
    fn default() -> Self {
        Self { least: 2 << 20, most: 8 << 20, mask: (4 << 20) - 1 }
    }
}

impl Splitter {
    /// The splitter of a name in the format blob.
    pub fn named(name: &str) -> Result<Self> {
        let unknown = || {
            Error::Unsupported(format!(
                "its splitter is {name:?}, and only DYNAMIC-<size>-BUZHASH and FIXED-<size> are known"
            ))
        };
        let size = |text: &str| {
            let sizes = [("128K", 17), ("256K", 18), ("512K", 19), ("1M", 20), ("2M", 21), ("4M", 22), ("8M", 23)];
            sizes.iter().find(|(name, _)| *name == text).map(|(_, bits)| 1_usize << bits)
        };
        if let Some(size) = name.strip_prefix("DYNAMIC-").and_then(|rest| rest.strip_suffix("-BUZHASH")).and_then(size)
        {
            return Ok(Self { least: size / 2, most: size * 2, mask: size as u32 - 1 });
        }
        let fixed = name.strip_prefix("FIXED-").and_then(size).ok_or_else(unknown)?;
        Ok(Self { least: fixed, most: fixed, mask: 0 })
    }

    /// The shortest piece, save for the last of a stream; also every piece of a stream of zeros.
    pub fn shortest(&self) -> usize {
        self.least
    }

    /// The longest piece: a buffer of this size always holds a whole one.
    pub fn longest(&self) -> usize {
        self.most
    }

    /// The length of the first piece of `bytes`; `None` when the end of the piece is not among them.
    ///
    /// Call it with at least [`Self::longest`] bytes, or with all that are left: then the rest is the last piece.
    pub fn next(&self, bytes: &[u8]) -> Option<usize> {
        self.next_after(bytes, 0)
    }

    /// The same where the first `known` bytes were given before, and the end of the piece was not among them.
    pub fn next_after(&self, bytes: &[u8], known: usize) -> Option<usize> {
        let end = self.most.min(bytes.len());
        let start = self.least.max(known.min(end));
        if bytes.len() < start {
            return None;
        }
        if hash_before(bytes, start) & self.mask == 0 {
            return Some(start);
        }
        self.search(bytes, start, end).or((end == self.most).then_some(end))
    }

    /// The first end of a piece behind `start`. Two stretches are searched side by side: every step of a hash waits for the one
    /// before, and two hashes do not wait for each other.
    fn search(&self, bytes: &[u8], mut start: usize, end: usize) -> Option<usize> {
        while end - start >= 2 * STRETCH {
            let middle = start + STRETCH;
            let (mut first, mut second) = (hash_before(bytes, start), hash_before(bytes, middle));
            let mut later = None;
            let (one, other) = (steps(bytes, start, middle), steps(bytes, middle, middle + STRETCH));
            for (index, ((out, into), (other_out, other_into))) in one.zip(other).enumerate() {
                first = step(first, *out, *into);
                second = step(second, *other_out, *other_into);
                if first & self.mask == 0 {
                    return Some(start + index + 1);
                }
                if second & self.mask == 0 && later.is_none() {
                    later = Some(middle + index + 1);
                }
            }
            if later.is_some() {
                return later;
            }
            start = middle + STRETCH;
        }
        let mut hash = hash_before(bytes, start);
        let found = steps(bytes, start, end).position(|(out, into)| {
            hash = step(hash, *out, *into);
            hash & self.mask == 0
        });
        found.map(|index| start + index + 1)
    }
}

/// The bytes that leave the window and those that enter it, from one position to another.
fn steps(bytes: &[u8], start: usize, end: usize) -> impl Iterator<Item = (&u8, &u8)> {
    bytes[start - WINDOW..end - WINDOW].iter().zip(&bytes[start..end])
}

/// The hash of the window that ends at a position.
fn hash_before(bytes: &[u8], position: usize) -> u32 {
    bytes[position - WINDOW..position].iter().fold(0, |hash, byte| hash.rotate_left(1) ^ TABLE[usize::from(*byte)])
}

fn step(hash: u32, out: u8, into: u8) -> u32 {
    // What does not depend on the hash comes first, so that the next step waits less.
    let change = TABLE[usize::from(out)] ^ TABLE[usize::from(into)];
    hash.rotate_left(1) ^ change
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn generated(length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0_u64..).take(length.div_ceil(32)).flat_map(|n| Sha256::digest(n.to_be_bytes())).collect();
        bytes.truncate(length);
        bytes
    }

    fn pieces(name: &str, mut bytes: &[u8]) -> Vec<usize> {
        let splitter = Splitter::named(name).unwrap();
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let length = splitter.next(bytes).unwrap_or(bytes.len());
            found.push(length);
            bytes = &bytes[length..];
        }
        found
    }

    fn window_hash(window: impl Iterator<Item = u8>) -> u32 {
        window.fold(0, |hash: u32, byte| hash.rotate_left(1) ^ TABLE[usize::from(byte)])
    }

    #[test]
    fn windows_have_the_hashes_of_kopia() {
        assert_eq!(window_hash([0; 64].into_iter()), 0);
        assert_eq!(window_hash(0..=0x3f), 0xd9b0_c9cf);
        assert_eq!(window_hash(0xc0..=0xff), 0x4273_7eb7);
        assert_eq!(window_hash([b'a'; 64].into_iter()), 0);
    }

    #[test]
    fn pieces_end_where_kopia_ends_them() {
        let stream = generated(32 << 20);
        assert_eq!(
            pieces("DYNAMIC-4M-BUZHASH", &stream),
            [7_423_781, 5_669_076, 4_286_232, 2_887_177, 8_388_608, 3_750_025, 1_149_533]
        );
        let stream = &stream[..4 << 20];
        assert_eq!(pieces("DYNAMIC-1M-BUZHASH", stream), [1_501_899, 1_214_566, 1_265_650, 212_189]);
        let small = pieces("DYNAMIC-128K-BUZHASH", stream);
        assert_eq!(small.len(), 23);
        assert_eq!(small[..6], [93_743, 149_206, 262_144, 107_458, 262_144, 144_536]);
        assert_eq!(small[22], 213_557);
    }

    #[test]
    fn a_piece_that_comes_little_by_little_ends_where_it_does_at_once() {
        let stream = generated(2 << 20);
        let splitter = Splitter::named("DYNAMIC-128K-BUZHASH").unwrap();
        for step in [1000, 4096, 65_536, 100_000] {
            let (mut start, mut found) = (0, Vec::new());
            while start < stream.len() {
                let (mut known, mut given) = (0, step);
                let length = loop {
                    let bytes = &stream[start..stream.len().min(start + given)];
                    match splitter.next_after(bytes, known) {
                        Some(length) => break length,
                        None if start + given >= stream.len() => break bytes.len(),
                        None => (known, given) = (bytes.len(), given + step),
                    }
                };
                found.push(length);
                start += length;
            }
            assert_eq!(found, pieces("DYNAMIC-128K-BUZHASH", &stream), "{step}");
        }
    }

    #[test]
    fn zeros_are_cut_at_the_least_size_and_short_ends_stay_whole() {
        assert_eq!(pieces("DYNAMIC-4M-BUZHASH", &vec![0; 5_000_000]), [2_097_152, 2_097_152, 805_696]);
        assert_eq!(pieces("DYNAMIC-4M-BUZHASH", &vec![0; 2 << 20]), [2 << 20]);
        assert_eq!(pieces("FIXED-1M", &vec![1; (1 << 20) + 1]), [1 << 20, 1]);
        for length in [1, (2 << 20) - 1] {
            assert_eq!(pieces("DYNAMIC-4M-BUZHASH", &vec![0; length]), [length]);
        }
    }
}

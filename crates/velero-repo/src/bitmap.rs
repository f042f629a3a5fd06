//! One bit for every content of an index: ten million contents take 1.2 MiB.

/// A set of positions in an index.
#[derive(Debug, Clone)]
pub(crate) struct Bitmap(Vec<u64>);

impl Bitmap {
    /// An empty set for so many positions.
    pub(crate) fn new(length: u32) -> Self {
        Self(vec![0; (length as usize).div_ceil(64)])
    }

    /// Adds a position; `false` when it was there.
    pub(crate) fn insert(&mut self, position: u32) -> bool {
        let (word, bit) = (position as usize / 64, 1_u64 << (position % 64));
        self.0.get_mut(word).is_some_and(|word| {
            let is_new = *word & bit == 0;
            *word |= bit;
            is_new
        })
    }

    pub(crate) fn contains(&self, position: u32) -> bool {
        self.0.get(position as usize / 64).is_some_and(|word| word & (1 << (position % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::Bitmap;

    #[test]
    fn positions_are_remembered_and_those_beyond_the_end_are_not() {
        let mut set = Bitmap::new(65);
        assert!(!set.contains(64));
        assert!(set.insert(64) && set.insert(0) && !set.insert(64));
        assert!(set.contains(64) && set.contains(0) && !set.contains(1));
        assert!(!set.insert(1000) && !set.contains(1000));
    }
}

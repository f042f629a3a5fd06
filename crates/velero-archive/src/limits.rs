//! How much an archive may hold. Whoever writes one keeps to the same limits as whoever reads it: what was written can
//! be read, and reading takes no more memory than the limits allow, whatever is in the archive.

use std::io::{self, Read, Write};

use crate::{Error, Result};

/// How much an archive may hold before it is refused.
///
/// The defaults leave room for 1,000,000 objects, each with both its copies, twice over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of entries. An object of a preferred version has two.
    pub entries: u64,
    /// The largest size of one entry in bytes.
    pub entry_size: u64,
    /// The largest size of the whole archive once decompressed, in bytes.
    pub total_size: u64,
    /// The largest size of the compressed archive in bytes.
    pub compressed_size: u64,
    /// The longest path in bytes.
    pub path_length: usize,
    /// The largest sum of the lengths of all paths in bytes: readers keep names in memory.
    pub paths_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 4_000_000,
            entry_size: 16 << 20,
            total_size: 64 << 30,
            compressed_size: 8 << 30,
            path_length: 4096,
            paths_size: 1 << 30,
        }
    }
}

impl Limits {
    /// Whether an entry can be part of an archive at all.
    pub(crate) fn check_entry(&self, path: &str, size: u64) -> Result<()> {
        if path.len() > self.path_length {
            let (start, length) = (beginning(path), path.len());
            return Err(Error::PathTooLong { start, length, limit: self.path_length });
        }
        if size > self.entry_size {
            return Err(Error::EntryTooLarge { path: path.to_owned(), size, limit: self.entry_size });
        }
        Ok(())
    }
}

/// Enough of a path to find it, and no more.
fn beginning(path: &str) -> String {
    path.chars().take(100).collect()
}

/// The entries of an archive so far, held against its limits.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) limits: Limits,
    entries: u64,
    paths_size: u64,
}

impl Tally {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, entries: 0, paths_size: 0 }
    }

    /// Counts an entry, unless it is one too many.
    pub(crate) fn add(&mut self, path: &str, size: u64) -> Result<()> {
        self.limits.check_entry(path, size)?;
        let Limits { entries, paths_size, .. } = self.limits;
        self.entries += 1;
        self.paths_size += path.len() as u64;
        if self.entries > entries {
            return Err(Error::TooManyEntries { limit: entries });
        }
        if self.paths_size > paths_size {
            return Err(Error::PathsTooLarge { limit: paths_size });
        }
        Ok(())
    }
}

/// Passes bytes on and ends in an error once there are more than `limit`.
pub(crate) struct Bounded<T> {
    pub(crate) inner: T,
    pub(crate) passed: u64,
    limit: u64,
    exceeded: fn(u64) -> Error,
}

impl<T> Bounded<T> {
    /// Bounds the bytes before compression.
    pub(crate) fn plain(inner: T, limit: u64) -> Self {
        Self { inner, passed: 0, limit, exceeded: |limit| Error::TooLarge { limit } }
    }

    /// Bounds the bytes after compression.
    pub(crate) fn compressed(inner: T, limit: u64) -> Self {
        Self { inner, passed: 0, limit, exceeded: |limit| Error::CompressedTooLarge { limit } }
    }

    fn count(&mut self, bytes: usize) -> io::Result<usize> {
        self.passed += bytes as u64;
        if self.passed > self.limit { Err(io::Error::other((self.exceeded)(self.limit))) } else { Ok(bytes) }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count(count)
    }
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.count(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The limit that is behind an error of reading or writing. Others wrap errors, so it may sit several levels down.
pub(crate) fn limit_behind(error: &io::Error) -> Option<Error> {
    let mut current: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|inner| inner as _);
    while let Some(inner) = current {
        match inner.downcast_ref::<Error>() {
            Some(Error::TooLarge { limit }) => return Some(Error::TooLarge { limit: *limit }),
            Some(Error::CompressedTooLarge { limit }) => return Some(Error::CompressedTooLarge { limit: *limit }),
            _ => {}
        }
        current = match inner.downcast_ref::<io::Error>() {
            Some(nested) => nested.get_ref().map(|inner| inner as _),
            None => inner.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_objects_with_both_their_copies_are_within_the_limits() {
        let mut tally = Tally::new(Limits::default());
        let plain = format!("resources/replicasets.apps/namespaces/{}/{}.json", "n".repeat(40), "r".repeat(60));
        let versioned = format!(
            "resources/replicasets.apps/v1-preferredversion/namespaces/{}/{}.json",
            "n".repeat(40),
            "r".repeat(60)
        );
        tally.add("metadata/version", 6).unwrap();
        for _ in 0..1_000_000 {
            tally.add(&plain, 3000).unwrap();
            tally.add(&versioned, 3000).unwrap();
        }
    }

    #[test]
    fn each_limit_is_told_by_its_own_error() {
        let limits = Limits { entries: 2, entry_size: 10, path_length: 8, paths_size: 12, ..Limits::default() };
        let tally = || Tally::new(limits);
        assert!(matches!(tally().add("123456789", 0), Err(Error::PathTooLong { length: 9, limit: 8, .. })));
        assert!(matches!(tally().add("a", 11), Err(Error::EntryTooLarge { size: 11, limit: 10, .. })));
        let mut many = tally();
        assert!(many.add("a", 10).is_ok() && many.add("b", 10).is_ok());
        assert!(matches!(many.add("c", 10), Err(Error::TooManyEntries { limit: 2 })));
        let mut long = tally();
        long.add("12345678", 0).unwrap();
        assert!(matches!(long.add("87654321", 0), Err(Error::PathsTooLarge { limit: 12 })));
    }
}

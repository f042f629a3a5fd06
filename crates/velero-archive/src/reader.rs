//! Reading a backup's tarball as a stream, trusting nothing in it.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::extensions::Extensions;
use crate::layout::{RESOURCES, VERSION_PATH, check_path};
use crate::limits::{Bounded, Limits, Tally, limit_behind};
use crate::{Error, Result};

const INPUT_BUFFER: usize = 256 * 1024;

/// One file of an archive; the bytes are only valid until the next one is read.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The path, already checked to be safe.
    pub path: &'a str,
    /// The content.
    pub body: &'a [u8],
    /// The time the entry carries, in seconds since 1970.
    pub modified: u64,
}

/// What was found in an archive that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The format version, or that of the oldest backups when the archive has none.
    pub format_version: String,
    /// The number of regular files, the version file included.
    pub entries: u64,
    /// The decompressed size in bytes.
    pub size: u64,
}

/// Reads an archive from any byte source without touching the disk.
pub struct ArchiveReader<R> {
    input: R,
    limits: Limits,
}

impl<R: Read> ArchiveReader<R> {
    /// A reader with the default limits.
    pub fn new(input: R) -> Self {
        Self { input, limits: Limits::default() }
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Hands every regular file to `visit` in order, then checks that the archive is complete.
    ///
    /// Only an `Ok` at the end says that all bytes were intact: a visitor must not make its work final before.
    pub fn for_each<E, F>(self, mut visit: F) -> Result<Summary, E>
    where
        E: From<Error>,
        F: FnMut(Entry<'_>) -> Result<(), E>,
    {
        let limits = self.limits;
        let input = Bounded::compressed(self.input, limits.compressed_size);
        let gzip = MultiGzDecoder::new(BufReader::with_capacity(INPUT_BUFFER, input));
        let mut archive = tar::Archive::new(Bounded::plain(gzip, limits.total_size));
        let mut check = Check::new(limits);
        let mut extensions = Extensions::default();
        let mut body = Vec::new();
        for entry in archive.entries().map_err(damaged)?.raw(true) {
            let mut entry = entry.map_err(damaged)?;
            if extensions.take(&mut entry)? {
                continue;
            }
            let Some(path) = check.admit(&entry, extensions.path_of(&entry)?)? else {
                continue;
            };
            body.clear();
            entry.read_to_end(&mut body).map_err(damaged)?;
            check.inspect(&path, &body)?;
            let modified = entry.header().mtime().unwrap_or_default();
            visit(Entry { path: &path, body: &body, modified })?;
        }
        extensions.finish()?;
        let mut rest = archive.into_inner();
        // The checksum of the gzip stream is only compared at its very end, past the end of the tarball.
        io::copy(&mut rest, &mut io::sink()).map_err(damaged)?;
        Ok(check.finish(rest.passed)?)
    }
}

/// What has been seen so far, and whether the next entry may join it.
struct Check {
    tally: Tally,
    seen: Seen,
    files: u64,
    version: Option<String>,
}

/// How many parts [`Seen`] has: so many that each stays short at the largest number of entries.
const PARTS: usize = 4096;

/// The paths seen so far, by fingerprint: millions of paths would take many times the memory. The keys of the hashes
/// are random, so nobody can make two paths that look the same; by chance, one archive in thousands of millions has two.
///
/// Sorted parts take half the memory of a hash set, and none of them is ever copied whole together with the others.
struct Seen {
    hashes: [RandomState; 2],
    parts: Vec<Vec<u64>>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { hashes: Default::default(), parts: vec![Vec::new(); PARTS] }
    }
}

impl Seen {
    /// Adds a path; false when it was seen before.
    fn insert(&mut self, path: &str) -> bool {
        let [part, fingerprint] = self.hashes.each_ref().map(|hash| hash.hash_one(path));
        let part = &mut self.parts[part as usize % PARTS];
        let Err(place) = part.binary_search(&fingerprint) else { return false };
        if part.len() == part.capacity() {
            part.reserve_exact(part.len() / 8 + 8);
        }
        part.insert(place, fingerprint);
        true
    }
}

impl Check {
    fn new(limits: Limits) -> Self {
        Self { tally: Tally::new(limits), seen: Seen::default(), files: 0, version: None }
    }

    /// The path of an entry to read, or `None` for one without content to skip.
    fn admit<R: Read>(&mut self, entry: &tar::Entry<'_, R>, path: String) -> Result<Option<String>> {
        let kind = entry.header().entry_type();
        let size = if kind.is_file() { entry.size() } else { 0 };
        self.tally.add(&path, size)?;
        if kind.is_dir() {
            check_path(path.trim_end_matches('/'))?;
            return Ok(None);
        }
        check_path(&path)?;
        if !kind.is_file() {
            return Err(Error::NotARegularFile { path, kind: describe(kind) });
        }
        let top = path.split('/').next();
        if self.files == 0 && top != Some(RESOURCES) && path != VERSION_PATH {
            return Err(Error::Foreign { first: path });
        }
        if !self.seen.insert(&path) {
            return Err(Error::DuplicatePath { path });
        }
        self.files += 1;
        Ok(Some(path))
    }

    fn inspect(&mut self, path: &str, body: &[u8]) -> Result<()> {
        if path != VERSION_PATH {
            return Ok(());
        }
        let version = String::from_utf8_lossy(body).trim().to_owned();
        if version != "1" && !version.starts_with("1.") {
            return Err(Error::UnsupportedVersion { version });
        }
        self.version = Some(version);
        Ok(())
    }

    fn finish(self, size: u64) -> Result<Summary> {
        if self.files == 0 {
            return Err(Error::Foreign { first: String::new() });
        }
        let format_version = self.version.unwrap_or_else(|| "1".to_owned());
        Ok(Summary { format_version, entries: self.files, size })
    }
}

fn describe(kind: tar::EntryType) -> String {
    match kind {
        tar::EntryType::Symlink => "symbolic link".to_owned(),
        tar::EntryType::Link => "hard link".to_owned(),
        tar::EntryType::Fifo => "named pipe".to_owned(),
        tar::EntryType::Char | tar::EntryType::Block => "device".to_owned(),
        other => format!("special entry of type {:?}", char::from(other.as_byte())),
    }
}

/// Names the error behind a failed read: a limit, a foreign format or damage.
pub(crate) fn damaged(error: io::Error) -> Error {
    match limit_behind(&error) {
        Some(limit) => limit,
        None if error.to_string() == "invalid gzip header" => Error::NotGzip,
        None => Error::Damaged(error),
    }
}

#[cfg(test)]
#[path = "reader/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "reader/hostile_tests.rs"]
mod hostile_tests;

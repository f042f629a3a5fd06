//! Reading a backup's tarball as a stream, trusting nothing in it.

use std::collections::HashSet;
use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::layout::{RESOURCES, VERSION_PATH, check_path};
use crate::{Error, Result};

const INPUT_BUFFER: usize = 256 * 1024;

/// How much an archive may hold before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of entries.
    pub entries: u64,
    /// The largest size of one entry in bytes.
    pub entry_size: u64,
    /// The largest size of the whole archive once decompressed, in bytes.
    pub total_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 10_000_000, entry_size: 64 << 20, total_size: 64 << 30 }
    }
}

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
        let gzip = MultiGzDecoder::new(BufReader::with_capacity(INPUT_BUFFER, self.input));
        let mut archive = tar::Archive::new(Bounded { inner: gzip, read: 0, limit: limits.total_size });
        let mut check = Check::new(limits);
        let mut body = Vec::new();
        for entry in archive.entries().map_err(damaged)? {
            let mut entry = entry.map_err(damaged)?;
            let Some(path) = check.admit(&entry)? else {
                continue;
            };
            body.clear();
            entry.read_to_end(&mut body).map_err(damaged)?;
            check.inspect(&path, &body)?;
            let modified = entry.header().mtime().unwrap_or_default();
            visit(Entry { path: &path, body: &body, modified })?;
        }
        let mut rest = archive.into_inner();
        // The checksum of the gzip stream is only compared at its very end, past the end of the tarball.
        io::copy(&mut rest, &mut io::sink()).map_err(damaged)?;
        Ok(check.finish(rest.read)?)
    }
}

/// What has been seen so far, and whether the next entry may join it.
struct Check {
    limits: Limits,
    seen: HashSet<Box<str>>,
    entries: u64,
    version: Option<String>,
}

impl Check {
    fn new(limits: Limits) -> Self {
        Self { limits, seen: HashSet::new(), entries: 0, version: None }
    }

    /// The path of an entry to read, or `None` for one without content to skip.
    fn admit<R: Read>(&mut self, entry: &tar::Entry<'_, R>) -> Result<Option<String>> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(Error::TooManyEntries { limit: self.limits.entries });
        }
        let path = utf8_path(entry)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            check_path(path.trim_end_matches('/'))?;
            return Ok(None);
        }
        check_path(&path)?;
        if !kind.is_file() {
            return Err(Error::NotARegularFile { path, kind: describe(kind) });
        }
        if entry.size() > self.limits.entry_size {
            return Err(Error::EntryTooLarge { path, size: entry.size(), limit: self.limits.entry_size });
        }
        let top = path.split('/').next();
        if self.seen.is_empty() && top != Some(RESOURCES) && path != VERSION_PATH {
            return Err(Error::Foreign { first: path });
        }
        if !self.seen.insert(path.as_str().into()) {
            return Err(Error::DuplicatePath { path });
        }
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
        if self.seen.is_empty() {
            return Err(Error::Foreign { first: String::new() });
        }
        let format_version = self.version.unwrap_or_else(|| "1".to_owned());
        Ok(Summary { format_version, entries: self.seen.len() as u64, size })
    }
}

fn utf8_path<R: Read>(entry: &tar::Entry<'_, R>) -> Result<String> {
    String::from_utf8(entry.path_bytes().into_owned()).map_err(|error| Error::UnsafePath {
        path: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        reason: "it is not UTF-8",
    })
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

/// A reader that ends in an error once more than `limit` bytes came out of it.
pub(crate) struct Bounded<R> {
    pub(crate) inner: R,
    pub(crate) read: u64,
    pub(crate) limit: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read += count as u64;
        if self.read > self.limit {
            return Err(io::Error::other(Error::TooLarge { limit: self.limit }));
        }
        Ok(count)
    }
}

/// Names the error behind a failed read: a limit, a foreign format or damage.
pub(crate) fn damaged(error: io::Error) -> Error {
    match limit_behind(&error) {
        Some(limit) => Error::TooLarge { limit },
        None if error.to_string() == "invalid gzip header" => Error::NotGzip,
        None => Error::Damaged(error),
    }
}

/// The tar reader wraps errors of the source, so the limit may sit several levels down.
fn limit_behind(error: &io::Error) -> Option<u64> {
    let mut current: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|inner| inner as _);
    while let Some(inner) = current {
        if let Some(Error::TooLarge { limit }) = inner.downcast_ref::<Error>() {
            return Some(*limit);
        }
        current = match inner.downcast_ref::<io::Error>() {
            Some(nested) => nested.get_ref().map(|inner| inner as _),
            None => inner.source(),
        };
    }
    None
}

#[cfg(test)]
#[path = "reader/tests.rs"]
mod tests;

//! Writing a backup's tarball as a stream.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::layout::{FORMAT_VERSION, VERSION_PATH, check_path};
use crate::limits::{Bounded, Limits, Tally, limit_behind};
use crate::{Error, Result};

/// The gzip level used unless another is asked for.
///
/// Measured by `examples/gzip_levels.rs` on 60 MB of cluster JSON: level 2 writes 201 MB/s into 8.5 MB, level 1
/// 246 MB/s into 11.6 MB, level 6 101 MB/s into 6.9 MB. What level 1 wins on the processor it loses on the network.
pub const DEFAULT_LEVEL: u32 = 2;

/// Writes a gzip compressed tarball whose first entry is the format version.
///
/// Entries go out in the order they are appended; nothing is kept in memory beyond the compressor's window. An archive
/// that would break its limits, so that no reader takes it, ends in an error. That no path occurs twice is up to whoever
/// appends.
pub struct ArchiveWriter<W: Write> {
    // Dropped before the builder, whose own drop would put a proper end on half an archive.
    shutter: Shutter,
    tar: tar::Builder<Bounded<GzEncoder<Bounded<Gate<W>>>>>,
    tally: Tally,
    modified: u64,
}

/// An output that takes nothing more once its shutter is down.
struct Gate<W> {
    output: W,
    closed: Arc<AtomicBool>,
}

impl<W: Write> Write for Gate<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(io::Error::other("the archive was given up"));
        }
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

struct Shutter(Arc<AtomicBool>);

impl Drop for Shutter {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<W: Write> ArchiveWriter<W> {
    /// Begins an archive with the default limits; entries carry the time `modified`, in seconds since 1970.
    pub fn new(output: W, modified: u64) -> Result<Self> {
        Self::with_limits(output, modified, Limits::default())
    }

    /// Begins an archive with limits of its own.
    pub fn with_limits(output: W, modified: u64, limits: Limits) -> Result<Self> {
        Self::without_version(output, modified, DEFAULT_LEVEL, limits).begun()
    }

    /// Begins an archive with a gzip level from 0 (stored) to 9 (smallest).
    pub fn with_level(output: W, modified: u64, level: u32) -> Result<Self> {
        Self::without_version(output, modified, level, Limits::default()).begun()
    }

    fn begun(mut self) -> Result<Self> {
        self.append(VERSION_PATH, format!("{FORMAT_VERSION}\n").as_bytes())?;
        Ok(self)
    }

    /// Begins an archive whose entries, the version included, all come from another archive.
    pub(crate) fn without_version(output: W, modified: u64, level: u32, limits: Limits) -> Self {
        let closed = Arc::new(AtomicBool::new(false));
        let gate = Bounded::compressed(Gate { output, closed: closed.clone() }, limits.compressed_size);
        let encoder = GzEncoder::new(gate, Compression::new(level.min(9)));
        let tar = tar::Builder::new(Bounded::plain(encoder, limits.total_size));
        Self { shutter: Shutter(closed), tar, tally: Tally::new(limits), modified }
    }

    /// Whether a file could be appended as far as it alone can tell.
    pub fn check(&self, path: &str, body: &[u8]) -> Result<()> {
        check_path(path)?;
        self.tally.limits.check_entry(path, body.len() as u64)
    }

    /// Appends one file.
    pub fn append(&mut self, path: &str, body: &[u8]) -> Result<()> {
        self.append_modified(path, body, self.modified)
    }

    pub(crate) fn append_modified(&mut self, path: &str, body: &[u8], modified: u64) -> Result<()> {
        check_path(path)?;
        self.tally.add(path, body.len() as u64)?;
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(0o755);
        header.set_mtime(modified);
        header.set_size(body.len() as u64);
        self.tar.append_data(&mut header, path, body).map_err(failed)
    }

    /// Passes everything compressed so far on to the output.
    pub fn flush(&mut self) -> Result<()> {
        self.tar.get_mut().flush().map_err(failed)
    }

    /// Ends the archive and gives the output back.
    ///
    /// An archive that is dropped without this call is damaged on purpose: readers refuse it.
    pub fn finish(self) -> Result<W> {
        let Self { shutter, tar, .. } = self;
        let gate = tar.into_inner().and_then(|plain| plain.inner.finish()).map_err(failed)?;
        drop(shutter);
        Ok(gate.inner.output)
    }
}

/// Names the error behind a failed write: a limit, or the output.
fn failed(error: io::Error) -> Error {
    limit_behind(&error).unwrap_or(Error::Write(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;

    #[test]
    fn entries_have_the_form_velero_gives_them() {
        let mut writer = ArchiveWriter::new(Vec::new(), 1_700_000_000).unwrap();
        writer.append("resources/pods/namespaces/web/a.json", b"{}").unwrap();
        let bytes = writer.finish().unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(bytes.as_slice()));
        let headers: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                (
                    entry.path().unwrap().display().to_string(),
                    header.entry_type(),
                    header.mode().unwrap(),
                    header.mtime().unwrap(),
                    header.size().unwrap(),
                )
            })
            .collect();
        let regular = tar::EntryType::Regular;
        assert_eq!(
            headers,
            [
                ("metadata/version".to_owned(), regular, 0o755, 1_700_000_000, 6),
                ("resources/pods/namespaces/web/a.json".to_owned(), regular, 0o755, 1_700_000_000, 2),
            ]
        );
    }

    #[test]
    fn an_archive_that_was_given_up_is_not_readable() {
        let mut bytes = Vec::new();
        let mut writer = ArchiveWriter::new(&mut bytes, 0).unwrap();
        writer.append("resources/pods/namespaces/web/a.json", b"{}").unwrap();
        writer.flush().unwrap();
        drop(writer);
        let read = crate::ArchiveReader::new(bytes.as_slice()).for_each(|_| Ok::<(), Error>(()));
        assert!(read.is_err(), "half an archive reads as a whole one");
    }

    #[test]
    fn an_unsafe_path_is_not_written() {
        let mut writer = ArchiveWriter::new(Vec::new(), 0).unwrap();
        assert!(matches!(writer.append("../escape", b""), Err(Error::UnsafePath { .. })));
    }
}

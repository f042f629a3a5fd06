//! Archives that are the same bytes for the same content: sorted, dated by the commit, owned by nobody in particular.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// The system that a gzip file was made on: unknown.
const UNKNOWN_SYSTEM: u8 = 255;

/// A compressed archive being put together. All of it lies below one folder, as people expect who unpack it.
pub(super) struct Archive {
    folder: String,
    time: u64,
    entries: BTreeMap<String, Entry>,
}

struct Entry {
    content: Vec<u8>,
    mode: u32,
}

impl Archive {
    /// An empty one whose entries have that time, in seconds since 1970.
    pub(super) fn new(folder: &str, time: u64) -> Self {
        Self { folder: folder.to_owned(), time, entries: BTreeMap::new() }
    }

    /// Adds a file.
    pub(super) fn file(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.entries.insert(path.to_owned(), Entry { content: content.into(), mode: 0o644 });
    }

    /// Adds a program.
    pub(super) fn program(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.entries.insert(path.to_owned(), Entry { content: content.into(), mode: 0o755 });
    }

    /// Writes it to a file.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let failed = || format!("cannot write {}", path.display());
        let file = File::create(path).with_context(failed)?;
        self.write_to(file).and_then(|file| file.sync_all()).with_context(failed)
    }

    fn write_to<W: Write>(&self, output: W) -> io::Result<W> {
        let gzip = GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM).write(output, Compression::default());
        let mut builder = Builder::new(gzip);
        for (path, entry) in &self.entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Regular);
            header.set_size(entry.content.len() as u64);
            header.set_mode(entry.mode);
            header.set_mtime(self.time);
            header.set_uid(0);
            header.set_gid(0);
            builder.append_data(&mut header, format!("{}/{path}", self.folder), entry.content.as_slice())?;
        }
        builder.into_inner()?.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn bytes(paths: &[&str]) -> Vec<u8> {
        let mut archive = Archive::new("velero-v1", 1_700_000_000);
        for path in paths {
            archive.file(path, path.as_bytes());
        }
        archive.program("velero", b"program".as_slice());
        archive.write_to(Vec::new()).unwrap()
    }

    #[test]
    fn the_same_content_makes_the_same_bytes_whatever_the_order() {
        assert_eq!(bytes(&["LICENSE", "docs/a", "docs/b"]), bytes(&["docs/b", "LICENSE", "docs/a"]));
        assert_ne!(bytes(&["LICENSE"]), bytes(&["README"]));
    }

    #[test]
    fn entries_are_sorted_dated_by_the_commit_and_owned_by_nobody_in_particular() {
        let mut archive = tar::Archive::new(GzDecoder::new(io::Cursor::new(bytes(&["b", "a"]))));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header().clone();
            assert_eq!((header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap()), (1_700_000_000, 0, 0));
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            found.push((entry.path().unwrap().display().to_string(), header.mode().unwrap(), text));
        }
        let expected =
            [("velero-v1/a", 0o644, "a"), ("velero-v1/b", 0o644, "b"), ("velero-v1/velero", 0o755, "program")];
        assert_eq!(found, expected.map(|(path, mode, text)| (path.to_owned(), mode, text.to_owned())));
    }
}

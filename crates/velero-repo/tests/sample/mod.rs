//! Unpacks the sample repositories.
#![allow(dead_code, clippy::unwrap_used, reason = "every test file uses a part of it, and all of it is test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use velero_repo::directory::EntryKind;
use velero_repo::store::FolderStore;
use velero_repo::{Repository, Result};

pub(crate) const PASSWORD: &str = "static-passw0rd";

pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) expected: BTreeMap<String, Expected>,
    folder: tempfile::TempDir,
}

#[derive(Deserialize)]
pub(crate) struct Expected {
    pub(crate) path: String,
    pub(crate) root: String,
    pub(crate) entries: Vec<ExpectedEntry>,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedEntry {
    pub(crate) path: String,
    #[serde(rename = "type")]
    pub(crate) kind: EntryKind,
    pub(crate) mode: String,
    pub(crate) mtime: jiff::Timestamp,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: Option<u64>,
    pub(crate) sha256: Option<String>,
    pub(crate) target: Option<String>,
}

impl Expected {
    pub(crate) fn is_block_volume(&self) -> bool {
        self.path.ends_with("blockpvc")
    }

    /// The bytes of files and link targets, and how many of both there are.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let bytes =
            |entry: &ExpectedEntry| entry.size.unwrap_or_else(|| entry.target.as_ref().map_or(0, |to| to.len() as u64));
        let entries = self.entries.iter().filter(|entry| entry.kind != EntryKind::Directory);
        entries.fold((0, 0), |(sum, count), entry| (sum + bytes(entry), count + 1))
    }
}

impl ExpectedEntry {
    /// A file of which nothing but its bytes is to be compared.
    pub(crate) fn file(path: String, content: &[u8]) -> Self {
        Self {
            path,
            kind: EntryKind::File,
            mode: String::new(),
            mtime: jiff::Timestamp::UNIX_EPOCH,
            uid: 0,
            gid: 0,
            size: Some(content.len() as u64),
            sha256: Some(hash(content)),
            target: None,
        }
    }
}

impl Sample {
    pub(crate) fn basic() -> Self {
        Self::unpack("basic")
    }

    pub(crate) fn maintained() -> Self {
        Self::unpack("maintained")
    }

    pub(crate) fn all() -> [Self; 2] {
        [Self::basic(), Self::maintained()]
    }

    fn unpack(name: &'static str) -> Self {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../velero-repo/tests/data");
        let folder = tempfile::tempdir().unwrap();
        let archive = std::fs::File::open(data.join(format!("velero-{name}.tar.gz"))).unwrap();
        tar::Archive::new(flate2::read::GzDecoder::new(archive)).unpack(folder.path()).unwrap();
        let expected = std::fs::read(data.join(format!("expected-{name}.json"))).unwrap();
        Self { name, expected: serde_json::from_slice(&expected).unwrap(), folder }
    }

    /// A repository that a test made.
    pub(crate) fn of(name: &'static str, folder: tempfile::TempDir, expected: BTreeMap<String, Expected>) -> Self {
        Self { name, expected, folder }
    }

    /// Where the repository is.
    pub(crate) fn path(&self) -> PathBuf {
        let mut path = self.folder.path().to_owned();
        while !path.join("kopia.repository.f").exists() {
            let below = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            path = below.into_iter().find(|path| path.is_dir()).unwrap();
        }
        path
    }

    pub(crate) fn store(&self) -> Arc<FolderStore> {
        Arc::new(FolderStore::open(self.path()).unwrap())
    }

    pub(crate) fn open(&self) -> Result<Repository> {
        Repository::open(self.store(), PASSWORD)
    }

    /// A snapshot with files of all kinds.
    pub(crate) fn tree(&self) -> (&str, &Expected) {
        let largest = self.expected.iter().filter(|(_, expected)| !expected.is_block_volume());
        largest
            .map(|(id, expected)| (id.as_str(), expected))
            .max_by_key(|(_, expected)| expected.entries.len())
            .unwrap()
    }
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All paths below a folder.
pub(crate) fn paths(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(paths(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

//! Random folders, what is in them, and stores that die.
#![allow(dead_code, clippy::unwrap_used, reason = "every test file uses a part of it, and all of it is test")]

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use velero_repo::clock::system_clock;
use velero_repo::format::{FormatBlob, FormatKeys, Parameters, REPOSITORY_BLOB};
use velero_repo::store::{BlobInfo, BlobStore, FolderStore};
use velero_repo::{Error, Repository, Result};

use crate::sample::PASSWORD;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A repository as Velero makes it.
pub(crate) fn new_repository() -> (tempfile::TempDir, Repository) {
    let place = tempfile::tempdir().unwrap();
    let store = Arc::new(FolderStore::open(place.path()).unwrap());
    let repository = Repository::create(store, PASSWORD, DAY, &system_clock()).unwrap();
    (place, repository)
}

/// One with small pieces, so that small files have several.
pub(crate) fn small_repository() -> (tempfile::TempDir, Repository) {
    let place = tempfile::tempdir().unwrap();
    let repository = small_repository_in(place.path());
    (place, repository)
}

/// The same in a certain folder.
pub(crate) fn small_repository_in(place: &Path) -> Repository {
    let store = Arc::new(FolderStore::open(place).unwrap());
    let unique_id = [7; 32];
    let keys = FormatKeys::derive(PASSWORD, &unique_id).unwrap();
    let splitter = "DYNAMIC-128K-BUZHASH".to_owned();
    let parameters = Parameters { splitter, max_pack_size: 1 << 20, ..Parameters::new_of_velero() };
    let blob = serde_json::to_vec(&FormatBlob::seal(&unique_id, &keys, &parameters)).unwrap();
    store.put(REPOSITORY_BLOB, blob.into()).unwrap();
    Repository::create(store, PASSWORD, DAY, &system_clock()).unwrap()
}

/// Numbers that look random and are always the same.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
    }

    /// Bytes that can be compressed, as text and tables can: words of which no two stretches are alike.
    pub(crate) fn text(&mut self, length: usize) -> Vec<u8> {
        let words = ["volume ", "backup ", "restore\n", "0, ", "snapshot "];
        let mut text = Vec::with_capacity(length + 32);
        while text.len() < length {
            let number = self.next();
            text.extend_from_slice(words[number as usize % words.len()].as_bytes());
            text.extend_from_slice(format!("{:x} ", number >> 40).as_bytes());
        }
        text.truncate(length);
        text
    }

    fn size(&mut self) -> usize {
        let (least, most) = (64 << 10, 256 << 10);
        let sizes = [0, 1, 100, least - 1, least, least + 1, 2 * least, most - 1, most, most + 1, 700_000];
        sizes[self.below(sizes.len() as u64) as usize]
    }

    fn name(&mut self) -> String {
        let words = ["a", "B", "é", "☃", "<&>", "with space", "\"quote\\", "\n", "\u{2028}", "x.log", "\u{1}\u{7f}"];
        format!("{}{}", words[self.below(words.len() as u64) as usize], self.below(1000))
    }

    /// Fills a folder.
    pub(crate) fn tree(&mut self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        if self.below(8) == 0 {
            for number in 0..2000 {
                std::fs::write(folder.join(format!("many-{number}")), number.to_string()).unwrap();
            }
        }
        self.fill(folder, 3);
    }

    fn fill(&mut self, folder: &Path, depth: u32) {
        for _ in 0..self.below(8) {
            let path = folder.join(self.name());
            if path.symlink_metadata().is_ok() {
                continue;
            }
            match self.below(8) {
                0 | 1 if depth > 0 => {
                    std::fs::create_dir(&path).unwrap();
                    self.fill(&path, depth - 1);
                    self.attributes(&path);
                }
                2 => symlink(format!("../{}", self.name()), &path).unwrap(),
                3 => {
                    std::fs::write(&path, vec![0; self.size()]).unwrap();
                    self.attributes(&path);
                }
                kind => {
                    let size = self.size();
                    let content = if kind < 6 { self.text(size) } else { self.bytes(size) };
                    std::fs::write(&path, content).unwrap();
                    self.attributes(&path);
                }
            }
        }
    }

    fn attributes(&mut self, path: &Path) {
        let modes = [0o644, 0o600, 0o755, 0o4755, 0o2755, 0o1777, 0o700];
        let mode = modes[self.below(modes.len() as u64) as usize];
        let epoch = SystemTime::UNIX_EPOCH;
        let time = match self.below(10) {
            0 => epoch,
            1 => epoch - Duration::from_nanos(self.below(1_000_000_000_000_000_000)),
            _ => epoch + Duration::from_nanos(self.below(2_000_000_000_000_000_000)),
        };
        if rustix::process::geteuid().is_root() {
            let owner = |number| (number > 0).then_some(u32::try_from(number * 1000).unwrap());
            lchown(path, owner(self.below(3)), owner(self.below(3))).unwrap();
        }
        // After the owner, whose change takes bits of the mode away.
        let file = std::fs::File::open(path).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
        file.set_modified(time).unwrap();
    }

    /// Changes a few things.
    pub(crate) fn change(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match self.below(6) {
                0 if path.is_dir() && !path.is_symlink() => std::fs::remove_dir_all(&path).unwrap(),
                0 => std::fs::remove_file(&path).unwrap(),
                1 if path.is_file() => {
                    let size = self.size();
                    std::fs::write(&path, self.bytes(size)).unwrap();
                }
                2 if path.is_dir() && !path.is_symlink() => self.fill(&path, 1),
                _ => {}
            }
        }
    }
}

/// Everything that is saved of a folder, by path.
pub(crate) type Tree = BTreeMap<String, Row>;

/// Everything that is saved of a file, a link or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) mode: u32,
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
    pub(crate) owner: (u32, u32),
    /// The hash of a file, the target of a link.
    pub(crate) content: String,
}

pub(crate) fn describe(folder: &Path) -> Tree {
    let mut found = Tree::new();
    describe_into(folder, "", &mut found);
    found
}

fn describe_into(path: &Path, name: &str, found: &mut Tree) {
    let metadata = path.symlink_metadata().unwrap();
    let content = if metadata.is_dir() {
        String::new()
    } else if metadata.is_symlink() {
        std::fs::read_link(path).unwrap().to_str().unwrap().to_owned()
    } else {
        crate::sample::hash(&std::fs::read(path).unwrap())
    };
    let row = Row {
        mode: metadata.mode(),
        seconds: metadata.mtime(),
        nanoseconds: metadata.mtime_nsec(),
        owner: (metadata.uid(), metadata.gid()),
        content,
    };
    found.insert(name.to_owned(), row);
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let below = entry.file_name().to_str().unwrap().to_owned();
            let below = if name.is_empty() { below } else { format!("{name}/{below}") };
            describe_into(&entry.path(), &below, found);
        }
    }
}

/// A store that dies at one call and stays dead.
pub(crate) struct DyingStore {
    inner: FolderStore,
    left: AtomicI64,
}

impl DyingStore {
    pub(crate) fn new(inner: FolderStore, calls: i64) -> Self {
        Self { inner, left: AtomicI64::new(calls) }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.left.load(Ordering::Relaxed) < 0
    }

    fn call(&self, action: &'static str, blob: &str) -> Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Ok(());
        }
        Err(Error::Store { action, blob: blob.to_owned(), source: "the store is dead".into() })
    }
}

impl BlobStore for DyingStore {
    fn place(&self) -> String {
        self.inner.place()
    }

    fn get(&self, id: &str) -> Result<Bytes> {
        self.call("read", id)?;
        self.inner.get(id)
    }

    fn get_range(&self, id: &str, offset: u64, length: usize) -> Result<Bytes> {
        self.call("read", id)?;
        self.inner.get_range(id, offset, length)
    }

    fn put(&self, id: &str, content: Bytes) -> Result<()> {
        self.call("write", id)?;
        self.inner.put(id, content)
    }

    fn delete(&self, id: &str) -> Result<()> {
        self.call("delete", id)?;
        self.inner.delete(id)
    }

    fn list(&self, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()> {
        self.call("list", prefix)?;
        self.inner.list(prefix, visit)
    }
}

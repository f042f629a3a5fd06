//! The keys of the sample repository, for unit tests.

use crate::crypto::{Key, Sealer};
use crate::hex;

pub(crate) const PASSWORD: &str = "static-passw0rd";

pub(crate) fn key(digits: &str) -> Key {
    Key(hex::decode(digits).unwrap().try_into().unwrap())
}

pub(crate) fn sealer() -> Sealer {
    Sealer::new(
        key("56c7a8d4cf43dec51666de7cd0d6f90a8c2f90a707a8c884729c731617923860"),
        &key("e112b2188c1e82b3809bd3563028bf60d5af289e307b708fd773e824f5dd133f"),
    )
}

/// A repository with a clock that tests move, in a folder that can die.
pub(crate) mod bench {
    use std::collections::HashMap;
    use std::path::Path;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::sync::{Arc, Mutex, OnceLock};
    use std::time::{Duration, SystemTime};

    use bytes::Bytes;
    use jiff::Timestamp;

    use super::PASSWORD;
    use crate::directory::{self, DirectoryEntry, EntryKind, Mode, Summary};
    use crate::format::Format;
    use crate::manifest::{Labels, Snapshot, Source};
    use crate::object::{ContentSource as _, ObjectId};
    use crate::store::{BlobInfo, BlobStore, FolderStore, list_all};
    use crate::writer::ContentWriter;
    use crate::{Clock, Error, Repository, Result};

    pub(crate) const START: i64 = 1_800_000_000;
    pub(crate) const HOUR: i64 = 3600;

    /// A folder whose times are those of a clock, and which fails from a certain change on.
    pub(crate) struct MovedStore {
        inner: FolderStore,
        times: Mutex<HashMap<String, i64>>,
        pub(crate) seconds: Arc<AtomicI64>,
        /// How far the clock of the store is ahead.
        pub(crate) ahead: AtomicI64,
        /// How many changes are left until it dies.
        pub(crate) changes_left: AtomicI64,
        /// Whether the change it dies at is made and only its answer lost.
        pub(crate) loses_answer: bool,
    }

    impl MovedStore {
        pub(crate) fn new(folder: &Path, seconds: Arc<AtomicI64>) -> Self {
            Self {
                inner: FolderStore::open(folder).unwrap(),
                times: Mutex::default(),
                seconds,
                ahead: AtomicI64::new(0),
                changes_left: AtomicI64::new(i64::MAX),
                loses_answer: false,
            }
        }

        fn change(&self, id: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
            let left = self.changes_left.fetch_sub(1, Ordering::SeqCst);
            if left > 0 || (left == 0 && self.loses_answer) {
                make()?;
            }
            if left > 0 {
                return Ok(());
            }
            Err(Error::Store { action: "change", blob: id.to_owned(), source: "the store is dead".into() })
        }
    }

    impl BlobStore for MovedStore {
        fn place(&self) -> String {
            self.inner.place()
        }

        fn get(&self, id: &str) -> Result<Bytes> {
            self.inner.get(id)
        }

        fn get_range(&self, id: &str, offset: u64, length: usize) -> Result<Bytes> {
            self.inner.get_range(id, offset, length)
        }

        fn put(&self, id: &str, content: Bytes) -> Result<()> {
            self.change(id, || {
                let now = self.seconds.load(Ordering::SeqCst) + self.ahead.load(Ordering::SeqCst);
                self.times.lock().unwrap().insert(id.to_owned(), now);
                self.inner.put(id, content)
            })
        }

        fn delete(&self, id: &str) -> Result<()> {
            self.change(id, || self.inner.delete(id))
        }

        fn list(&self, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()> {
            self.inner.list(prefix, &mut |mut blob| {
                let seconds = self.times.lock().unwrap().get(&blob.id).copied().unwrap_or(START);
                blob.modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
                visit(blob)
            })
        }
    }

    /// The blobs of an empty repository, made once: keys take long.
    fn empty() -> &'static (Vec<(String, Bytes)>, Format) {
        static EMPTY: OnceLock<(Vec<(String, Bytes)>, Format)> = OnceLock::new();
        EMPTY.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let store = Arc::new(FolderStore::open(folder.path()).unwrap());
            let clock: Clock = Arc::new(|| Timestamp::from_second(START).unwrap());
            let day = Duration::from_secs(24 * 3600);
            let repository = Repository::create(Arc::clone(&store) as _, PASSWORD, day, &clock).unwrap();
            let blobs = list_all(store.as_ref(), "").unwrap();
            let blobs = blobs.into_iter().map(|blob| (blob.id.clone(), store.get(&blob.id).unwrap())).collect();
            (blobs, repository.format().clone())
        })
    }

    pub(crate) struct Bench {
        _folder: tempfile::TempDir,
        pub(crate) store: Arc<MovedStore>,
        pub(crate) format: Format,
        pub(crate) clock: Clock,
    }

    impl Bench {
        pub(crate) fn new() -> Self {
            let (blobs, format) = empty();
            let bench = Self::in_folder(Arc::new(AtomicI64::new(START)), format.clone(), false);
            blobs.iter().for_each(|(id, content)| bench.store.put(id, content.clone()).unwrap());
            bench
        }

        fn in_folder(seconds: Arc<AtomicI64>, format: Format, loses_answer: bool) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let told = Arc::clone(&seconds);
            let clock: Clock = Arc::new(move || Timestamp::from_second(told.load(Ordering::SeqCst)).unwrap());
            let store = Arc::new(MovedStore { loses_answer, ..MovedStore::new(folder.path(), seconds) });
            Self { _folder: folder, store, format, clock }
        }

        /// The same blobs with the same times in another folder, which dies after some changes.
        pub(crate) fn copy(&self, changes: i64, loses_answer: bool) -> Self {
            let seconds = Arc::new(AtomicI64::new(self.store.seconds.load(Ordering::SeqCst)));
            let bench = Self::in_folder(seconds, self.format.clone(), loses_answer);
            for blob in list_all(self.store.as_ref(), "").unwrap() {
                bench.store.inner.put(&blob.id, self.store.get(&blob.id).unwrap()).unwrap();
            }
            *bench.store.times.lock().unwrap() = self.store.times.lock().unwrap().clone();
            bench.store.changes_left.store(changes, Ordering::SeqCst);
            bench
        }

        pub(crate) fn open(&self) -> Repository {
            Repository::open_with(Arc::clone(&self.store) as _, self.format.clone()).unwrap()
        }

        pub(crate) fn pass(&self, seconds: i64) {
            self.store.seconds.fetch_add(seconds, Ordering::SeqCst);
        }

        pub(crate) fn blobs(&self, prefix: &str) -> Vec<String> {
            list_all(self.store.as_ref(), prefix).unwrap().into_iter().map(|blob| blob.id).collect()
        }

        /// Saves a snapshot of files by name and content. Returns its id.
        pub(crate) fn save(&self, files: &[(&str, &str)]) -> String {
            let repository = self.open();
            let writer = ContentWriter::new(&repository, self.clock.clone()).unwrap();
            let entries: Vec<_> = files
                .iter()
                .map(|(name, text)| {
                    let content = writer.write(None, text.as_bytes(), false).unwrap();
                    entry(name, EntryKind::File, text.len() as u64, ObjectId::direct(content))
                })
                .collect();
            let id = save_entries(&writer, &entries);
            writer.flush().unwrap();
            id
        }

        pub(crate) fn forget(&self, id: &str) {
            let repository = self.open();
            let writer = ContentWriter::new(&repository, self.clock.clone()).unwrap();
            assert!(writer.delete_manifest(id).unwrap());
            writer.flush().unwrap();
        }

        /// The files of a snapshot, read by a client of its own.
        pub(crate) fn read(&self, id: &str) -> Result<Vec<(String, String)>> {
            let repository = self.open();
            let root = repository.snapshot(id)?.root()?.object;
            let mut files = Vec::new();
            directory::for_each_entry(&repository, root, |entry| {
                let content = repository.content(entry.object.content)?;
                files.push((entry.name, String::from_utf8(content.to_vec()).unwrap()));
                Ok(())
            })?;
            Ok(files)
        }
    }

    pub(crate) fn entry(name: &str, kind: EntryKind, size: u64, object: ObjectId) -> DirectoryEntry {
        DirectoryEntry {
            name: name.to_owned(),
            kind,
            mode: Mode(0o644),
            size,
            mtime: Timestamp::from_second(1).unwrap(),
            uid: 0,
            gid: 0,
            object,
            summary: None,
        }
    }

    /// Writes a directory and a snapshot of it. Returns the id.
    pub(crate) fn save_entries(writer: &ContentWriter<'_>, entries: &[DirectoryEntry]) -> String {
        let bytes = directory::write(entries, &Summary::default());
        let root = ObjectId::direct(writer.write(Some('k'), &bytes, false).unwrap());
        let snapshot = Snapshot {
            id: String::new(),
            source: Source::default(),
            description: String::new(),
            start_time: writer.now(),
            end_time: writer.now(),
            stats: crate::manifest::Stats::default(),
            incomplete: String::new(),
            root_entry: Some(entry("root", EntryKind::Directory, 0, root)),
            tags: Labels::new(),
            pins: Vec::new(),
        };
        let labels: Labels = [("type".to_owned(), crate::manifest::SNAPSHOT.to_owned())].into();
        writer.put_manifest(labels, &snapshot).unwrap()
    }
}

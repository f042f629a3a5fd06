//! The rules for writers, with a clock that is moved and epochs that end while we write.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use super::*;
use crate::manifest::Labels;
use crate::store::{BlobInfo, BlobStore, FolderStore, list_all};
use crate::testing::PASSWORD;

const START: i64 = 1_800_000_000;

/// A folder that does something right before blobs of a kind are stored.
struct Intruded {
    inner: FolderStore,
    before_put: Mutex<Vec<(&'static str, Bytes, &'static str)>>,
    lists: AtomicI64,
    /// What is there, in the order in which it came; a dot when no power cut takes it back any more.
    came: Mutex<Vec<String>>,
}

impl BlobStore for Intruded {
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
        let mut intruders = self.before_put.lock().unwrap();
        while let Some(at) = intruders.iter().position(|(prefix, ..)| id.starts_with(prefix)) {
            let (_, content, name) = intruders.remove(at);
            self.inner.put(name, content)?;
        }
        drop(intruders);
        if id.starts_with('s') {
            // Whoever does not wait for the marker is there before it.
            std::thread::sleep(Duration::from_millis(50));
        }
        self.inner.put(id, content)?;
        self.came.lock().unwrap().push(id.to_owned());
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.came.lock().unwrap().push(".".to_owned());
        self.inner.settle()
    }

    fn delete(&self, id: &str) -> Result<()> {
        self.inner.delete(id)
    }

    fn list(&self, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.inner.list(prefix, visit)
    }
}

struct Bench {
    _folder: tempfile::TempDir,
    store: Arc<Intruded>,
    repository: Repository,
    seconds: Arc<AtomicI64>,
    clock: Clock,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let inner = FolderStore::open(folder.path()).unwrap();
        let store = Arc::new(Intruded {
            inner,
            before_put: Mutex::default(),
            lists: AtomicI64::new(0),
            came: Mutex::default(),
        });
        let seconds = Arc::new(AtomicI64::new(START));
        let told = Arc::clone(&seconds);
        let clock: Clock = Arc::new(move || Timestamp::from_second(told.load(Ordering::Relaxed)).unwrap());
        let day = Duration::from_secs(24 * 3600);
        let repository = Repository::create(Arc::clone(&store) as _, PASSWORD, day, &clock).unwrap();
        Self { _folder: folder, store, repository, seconds, clock }
    }

    fn writer(&self) -> ContentWriter<'_> {
        ContentWriter::new(&self.repository, self.clock.clone()).unwrap()
    }

    fn pass(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    fn blobs(&self, prefix: &str) -> Vec<String> {
        list_all(self.store.as_ref(), prefix).unwrap().into_iter().map(|blob| blob.id).collect()
    }

    /// A second client, which sees what is stored and nothing else.
    fn other(&self) -> Repository {
        Repository::open_with(Arc::clone(&self.store) as _, self.repository.format().clone()).unwrap()
    }

    fn end_epochs(&self, before: &'static str, markers: &[&'static str]) {
        let marker = |name: &&'static str| (before, Bytes::from_static(crate::epoch::MARKER_CONTENT), *name);
        self.store.before_put.lock().unwrap().extend(markers.iter().map(marker));
    }
}

#[test]
fn a_new_repository_has_what_velero_expects_and_is_not_made_twice() {
    let bench = Bench::new();
    let kinds: Vec<_> = bench.blobs("").iter().map(|name| name.chars().next().unwrap()).collect();
    assert_eq!(kinds, ['k', 'k', 'q', 'u', 'x']);
    assert_eq!(crate::repository_state(bench.store.as_ref()).unwrap(), crate::RepositoryState::Ready);
    let found = bench.other().manifests(&|manifest| manifest.has_labels(&[("type", crate::MAINTENANCE)])).unwrap();
    assert_eq!(found.len(), 1);
    let before = bench.blobs("");
    Repository::create(Arc::clone(&bench.store) as _, PASSWORD, Duration::from_secs(1), &bench.clock).unwrap();
    assert_eq!(bench.blobs(""), before);
}

#[test]
fn contents_are_stored_once_and_visible_with_the_flush() {
    let bench = Bench::new();
    let writer = bench.writer();
    let one = writer.write(None, b"one", false).unwrap();
    assert_eq!(writer.write(None, b"one", false).unwrap(), one);
    let list = writer.write(Some('x'), &b"words ".repeat(1000), true).unwrap();
    assert!(bench.other().find(one).unwrap().is_none());
    writer.flush().unwrap();
    assert_eq!(bench.blobs("s").len(), 0);
    assert_eq!(writer.written().contents, 2);
    for repository in [&bench.other(), &bench.repository] {
        assert_eq!(repository.content(one).unwrap().as_ref(), b"one");
        assert_eq!(repository.content(list).unwrap().len(), 6000);
    }
    let entry = bench.repository.find(list).unwrap().unwrap();
    assert_eq!((entry.compression, entry.format_version), (compression::ZSTD_FASTEST, 3));
    let blobs = bench.blobs("");
    writer.write(None, b"one", false).unwrap();
    writer.flush().unwrap();
    assert_eq!(bench.blobs(""), blobs, "nothing new, nothing written");
}

#[test]
fn the_marker_comes_before_all_packs_and_the_index_once_they_are_settled() {
    let bench = Bench::new();
    let writer = bench.writer();
    for round in 0..3_u8 {
        bench.store.came.lock().unwrap().clear();
        let mut data = vec![0; 5 << 20];
        for _ in 0..if round == 0 { 1 } else { 5 } {
            crypto_fill(&mut data);
            writer.write(None, &data, false).unwrap();
        }
        writer.write(Some('k'), &[round], false).unwrap();
        writer.flush().unwrap();
        let came = bench.store.came.lock().unwrap();
        let kinds: String = came.iter().filter_map(|id| id.chars().next()).collect();
        assert!(kinds.starts_with('s') && kinds.ends_with(".x."), "{kinds}");
        assert_eq!(kinds.len(), if round == 0 { 6 } else { 7 }, "{kinds}");
        assert_eq!(bench.blobs("s").len(), 0, "and it goes");
    }
    bench.store.came.lock().unwrap().clear();
    assert!(writer.delete(writer.write(None, b"short", false).unwrap()).unwrap());
    writer.flush().unwrap();
    assert!(writer.delete(writer.write(None, b"short", false).unwrap()).unwrap());
    writer.flush().unwrap();
    let kinds: String = bench.store.came.lock().unwrap().iter().filter_map(|id| id.chars().next()).collect();
    assert_eq!(kinds, "sp.x.sp.x.");
}

#[test]
fn a_compressed_content_is_rewritten_deleted_and_brought_back_compressed() {
    let bench = Bench::new();
    let writer = bench.writer();
    let text = b"some words and numbers ".repeat(100_000);
    let id = writer.write(None, &text, true).unwrap();
    assert_eq!(writer.write(None, &text, false).unwrap(), id, "the id is that of the plain bytes");
    let mut noise = vec![0; 100_000];
    crypto_fill(&mut noise);
    let plain = writer.write(None, &noise, true).unwrap();
    writer.flush().unwrap();
    assert!(writer.written().bytes < 200_000);
    let check = |repository: &Repository, deleted| {
        let entry = repository.find(id).unwrap().unwrap();
        assert_eq!((entry.compression, entry.deleted), (compression::ZSTD_FASTEST, deleted));
        assert_eq!(entry.original_length as usize, text.len());
        assert!((entry.packed_length as usize) < text.len() / 10);
        assert!(repository.content(id).unwrap() == text);
        let entry = repository.find(plain).unwrap().unwrap();
        assert_eq!((entry.compression, entry.packed_length), (compression::NONE, 100_000 + 28));
        assert!(repository.content(plain).unwrap() == noise);
    };
    check(&bench.other(), false);
    writer.rewrite(plain).unwrap();
    for step in
        [ContentWriter::rewrite, |writer: &ContentWriter<'_>, id| writer.delete(id).map(drop), ContentWriter::rewrite]
    {
        step(&writer, id).unwrap();
        writer.flush().unwrap();
    }
    check(&bench.other(), true);
    writer.undelete(id).unwrap();
    writer.flush().unwrap();
    check(&bench.other(), false);
    assert_eq!(bench.repository.find(plain).unwrap().unwrap().key_id, 0);
}

#[test]
fn many_hands_store_the_same_content_once() {
    let bench = Bench::new();
    let writer = bench.writer();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for number in 0..50_u32 {
                    writer.write(None, &number.to_be_bytes().repeat(1000), false).unwrap();
                }
            });
        }
    });
    writer.flush().unwrap();
    assert_eq!(writer.written().contents, 50);
    assert_eq!(bench.blobs("p").len(), 1);
}

#[test]
fn packs_are_closed_once_they_reach_their_size() {
    let bench = Bench::new();
    let writer = bench.writer();
    let mut data = vec![0; 5 << 20];
    let mut ids = Vec::new();
    for _ in 0..9 {
        crypto_fill(&mut data);
        ids.push((writer.write(None, &data, false).unwrap(), data.clone()));
    }
    writer.flush().unwrap();
    let mut sizes: Vec<_> = list_all(bench.store.as_ref(), "p").unwrap().iter().map(|blob| blob.size >> 20).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [15, 15, 15]);
    for (id, data) in ids {
        assert_eq!(bench.other().content(id).unwrap(), data);
    }
}

fn crypto_fill(data: &mut [u8]) {
    crate::crypto::fill_random(data);
}

#[test]
fn entries_are_deleted_brought_back_and_always_later_than_before() {
    let bench = Bench::new();
    let writer = bench.writer();
    let id = writer.write(None, b"content", false).unwrap();
    writer.flush().unwrap();
    let first = bench.repository.find(id).unwrap().unwrap();
    assert!(writer.delete(id).unwrap());
    assert!(!writer.delete(ContentId::data([1; 16])).unwrap());
    writer.flush().unwrap();
    let deleted = bench.other().find(id).unwrap().unwrap();
    assert!(deleted.deleted && deleted.timestamp == first.timestamp + 1, "the clock stands, the entry is later");
    assert_eq!(deleted.offset, first.offset);
    assert_eq!(bench.other().content(id).unwrap().as_ref(), b"content", "still readable");
    writer.rewrite(id).unwrap();
    writer.flush().unwrap();
    assert!(bench.other().find(id).unwrap().unwrap().deleted, "rewritten as it was");
    writer.undelete(id).unwrap();
    writer.flush().unwrap();
    assert!(!bench.other().find(id).unwrap().unwrap().deleted);
    writer.delete(id).unwrap();
    writer.flush().unwrap();
    let before = bench.blobs("p").len();
    assert_eq!(writer.write(None, b"content", false).unwrap(), id);
    writer.flush().unwrap();
    assert!(!bench.other().find(id).unwrap().unwrap().deleted, "known but deleted is written again");
    assert_eq!(bench.blobs("p").len(), before + 1);
}

#[test]
fn a_list_of_epochs_older_than_five_minutes_is_not_used() {
    let bench = Bench::new();
    let writer = bench.writer();
    let write = |number: u32| {
        writer.write(None, &number.to_be_bytes(), false).unwrap();
        let before = bench.store.lists.load(Ordering::Relaxed);
        writer.flush().unwrap();
        bench.store.lists.load(Ordering::Relaxed) - before
    };
    assert_eq!(write(1), 2, "before and after");
    bench.pass(299);
    assert_eq!(write(2), 1, "the list after the last put is young enough");
    bench.pass(301);
    assert_eq!(write(3), 2);
}

#[test]
fn an_index_follows_the_epoch_and_one_epoch_behind_is_good_enough() {
    let bench = Bench::new();
    let writer = bench.writer();
    let one = writer.write(None, b"one", false).unwrap();
    bench.end_epochs("xn", &["xe1"]);
    writer.flush().unwrap();
    let two = writer.write(None, b"two", false).unwrap();
    writer.flush().unwrap();
    assert_eq!(bench.blobs("xn1").len(), 1);
    for id in [one, two] {
        assert!(bench.other().find(id).unwrap().is_some());
    }
}

#[test]
fn an_index_in_an_epoch_that_settled_meanwhile_is_taken_back_and_the_writer_fails() {
    let bench = Bench::new();
    let before = bench.blobs("xn");
    let writer = bench.writer();
    let id = writer.write(None, b"late", false).unwrap();
    bench.end_epochs("xn", &["xe1", "xe2"]);
    assert!(matches!(writer.flush(), Err(Error::EpochClosed { epoch: 0, current: 2 })));
    assert_eq!(bench.blobs("xn"), before);
    assert!(matches!(writer.write(None, b"more", false), Err(Error::WriterFailed)));
    assert!(matches!(writer.flush(), Err(Error::WriterFailed)));
    assert_eq!(bench.blobs("s").len(), 1, "the marker protects the packs until maintenance removes both");
    let again = bench.writer();
    assert_eq!(again.write(None, b"late", false).unwrap(), id);
    again.flush().unwrap();
    assert_eq!(bench.blobs("xn2").len(), 1);
    assert_eq!(bench.other().content(id).unwrap().as_ref(), b"late");
}

#[test]
fn writing_for_ten_minutes_flushes_by_itself() {
    let bench = Bench::new();
    let writer = bench.writer();
    let one = writer.write(None, b"one", false).unwrap();
    bench.pass(599);
    writer.write(None, b"two", false).unwrap();
    assert!(bench.other().find(one).unwrap().is_none());
    bench.pass(1);
    let three = writer.write(None, b"three", false).unwrap();
    assert!(bench.other().find(one).unwrap().is_some());
    assert!(bench.other().find(three).unwrap().is_none());
}

#[test]
fn an_entry_is_later_than_the_watermark_even_when_the_clock_is_not() {
    let bench = Bench::new();
    let name = format!("xw{}", START + 100);
    bench.store.put(&name, Bytes::from_static(crate::epoch::WATERMARK_CONTENT)).unwrap();
    bench.repository.refresh().unwrap();
    let writer = bench.writer();
    let id = writer.write(None, b"content", false).unwrap();
    writer.flush().unwrap();
    assert_eq!(i64::from(bench.repository.find(id).unwrap().unwrap().timestamp), START + 101);
}

fn labels(kind: &str, name: &str) -> Labels {
    [("type".to_owned(), kind.to_owned()), ("name".to_owned(), name.to_owned())].into()
}

#[test]
fn manifests_are_put_replaced_and_deleted() {
    let bench = Bench::new();
    let writer = bench.writer();
    assert!(writer.put_manifest(Labels::new(), &1).is_err(), "no type");
    let first = writer.put_manifest(labels("policy", "a"), &1).unwrap();
    writer.put_manifest(labels("policy", "b"), &2).unwrap();
    writer.flush().unwrap();
    let second = writer.replace_manifest(labels("policy", "a"), &3).unwrap();
    writer.flush().unwrap();
    let policies = |repository: &Repository| repository.manifests(&|one| one.has_labels(&[("type", "policy")]));
    let ids = |repository: &Repository| policies(repository).unwrap().into_iter().map(|one| one.id).collect::<Vec<_>>();
    let found = ids(&bench.other());
    assert!(found.len() == 2 && found.contains(&second) && !found.contains(&first), "{found:?}");
    assert!(writer.delete_manifest(&second).unwrap());
    assert!(!writer.delete_manifest("none").unwrap());
    writer.flush().unwrap();
    assert_eq!(ids(&bench.other()).len(), 1);
    let other = bench.other();
    assert_eq!(policies(&other).unwrap()[0].data.as_ref().unwrap().get(), "2");
}

#[test]
fn many_contents_with_manifests_become_one_in_one_index_blob() {
    let bench = Bench::new();
    let writer = bench.writer();
    for number in 0..20 {
        writer.put_manifest(labels("policy", "a"), &number).unwrap();
        writer.flush().unwrap();
        let other = bench.other();
        let contents =
            other.index().index.entries_with_prefix('m').filter(|entry| !entry.as_ref().unwrap().deleted).count();
        assert!(contents <= 16, "{contents}");
        let found = other.manifests(&|one| one.has_labels(&[("type", "policy")])).unwrap();
        assert_eq!(found.len(), number + 1);
        assert_eq!(found.iter().filter(|one| one.data.as_ref().unwrap().get() == number.to_string()).count(), 1);
    }
    assert_eq!(bench.blobs("xn").len(), 21, "one for each flush and one of the creation");
}

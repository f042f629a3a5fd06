//! Bits that flip and blobs that end early, anywhere in the samples and in what we wrote: `verify` finds each, nothing panics, and nothing is
//! restored wrong in silence. The normal run takes a thousand, the ignored one ten thousand.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use velero_repo::clock::system_clock;
use velero_repo::directory::{EntryKind, for_each_entry};
use velero_repo::format::Format;
use velero_repo::pack::Postamble;
use velero_repo::restore::{Counters, RestoreOptions, restore_into_folder};
use velero_repo::store::{BlobInfo, BlobStore, FolderStore, list_all};
use velero_repo::upload::{self, SnapshotRequest, UploadOptions, upload_folder};
use velero_repo::verify::{Place, VerifyOptions, VerifyReport, rebuild_index, verify_repository, verify_snapshot};
use velero_repo::{Error, Repository, Result};

use crate::sample::{Expected, ExpectedEntry, PASSWORD, Sample, hash};
use crate::trees::{Random, new_repository};

/// A repository that we wrote: half of its contents are compressed.
fn ours() -> Sample {
    let (place, repository) = new_repository();
    let volume = tempfile::tempdir().unwrap();
    let mut random = Random::new(15);
    let mut entries = Vec::new();
    for (number, length) in [300, 20_000, 300_000].into_iter().enumerate() {
        for (kind, content) in [("text", random.text(length)), ("noise", random.bytes(length / 10))] {
            let path = format!("{kind}-{number}");
            std::fs::write(volume.path().join(&path), &content).unwrap();
            entries.push(ExpectedEntry::file(path, &content));
        }
    }
    let request = SnapshotRequest::of_velero("snapshot-pod-volume", "ours", BTreeMap::new());
    let options = UploadOptions { compress: Some(true), ..UploadOptions::default() };
    let counters = upload::Counters::default();
    let saved = upload_folder(&repository, volume.path(), &request, &options, &counters).unwrap();
    assert!(saved.written.bytes < 280_000, "{} bytes: nothing was compressed", saved.written.bytes);
    let root = saved.snapshot.root().unwrap().object.to_string();
    Sample::of("ours", place, [(saved.id, Expected { path: "ours".to_owned(), root, entries })].into())
}

/// The samples of Velero and one of ours.
fn benches() -> [Bench; 3] {
    let [basic, maintained] = Sample::all();
    [basic, maintained, ours()].map(Bench::new)
}

/// The blobs of a sample in memory, one of them changed.
#[derive(Clone)]
struct Changed {
    blobs: Arc<BTreeMap<String, Bytes>>,
    changed: Option<(String, Option<Bytes>)>,
}

impl BlobStore for Changed {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn get(&self, id: &str) -> Result<Bytes> {
        let found = match &self.changed {
            Some((changed, content)) if changed == id => content.as_ref(),
            _ => self.blobs.get(id),
        };
        found.cloned().ok_or_else(|| Error::BlobNotFound { blob: id.to_owned() })
    }

    fn get_range(&self, id: &str, offset: u64, length: usize) -> Result<Bytes> {
        let whole = self.get(id)?;
        let start = (offset as usize).min(whole.len());
        Ok(whole.slice(start..(start + length).min(whole.len())))
    }

    fn put(&self, _: &str, _: Bytes) -> Result<()> {
        unreachable!("nothing is written by who reads")
    }

    fn delete(&self, _: &str) -> Result<()> {
        unreachable!("nothing is deleted by who reads")
    }

    fn list(&self, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()> {
        for id in self.blobs.keys().filter(|id| id.starts_with(prefix)) {
            if let Ok(content) = self.get(id) {
                visit(BlobInfo {
                    id: id.clone(),
                    size: content.len() as u64,
                    modified: std::time::SystemTime::UNIX_EPOCH,
                })?;
            }
        }
        Ok(())
    }
}

struct Bench {
    sample: Sample,
    store: Changed,
    format: Format,
}

impl Bench {
    fn new(sample: Sample) -> Self {
        let folder = sample.store();
        let blobs = list_all(folder.as_ref(), "").unwrap();
        let blobs = blobs.into_iter().map(|blob| (blob.id.clone(), folder.get(&blob.id).unwrap())).collect();
        let format = sample.open().unwrap().format().clone();
        Self { sample, store: Changed { blobs: Arc::new(blobs), changed: None }, format }
    }

    fn with(&self, id: &str, content: Option<Bytes>) -> Arc<Changed> {
        Arc::new(Changed { changed: Some((id.to_owned(), content)), ..self.store.clone() })
    }

    fn verify(&self, store: Arc<Changed>) -> Result<VerifyReport> {
        verify_repository(store, self.format.clone(), &VerifyOptions { parallel: 1, ..VerifyOptions::default() })
    }

    /// Restores every tree: an error, or every file as it must be.
    fn restore(&self, store: Arc<Changed>) -> Result<()> {
        let repository = Repository::open_with(store, self.format.clone())?;
        for (id, expected) in self.sample.expected.iter().filter(|(_, expected)| !expected.is_block_volume()) {
            let target = tempfile::tempdir().unwrap();
            let root = repository.snapshot(id)?.root()?.clone();
            let options = RestoreOptions { parallel: 1, ..RestoreOptions::default() };
            restore_into_folder(&repository, &root, target.path(), &options, &Counters::default())?;
            for entry in expected.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
                let found = std::fs::read(target.path().join(&entry.path)).unwrap();
                assert_eq!(Some(hash(&found)), entry.sha256, "wrong bytes in {}", entry.path);
            }
        }
        Ok(())
    }
}

/// Reads every file of a sample: an error, or the bytes that were saved.
fn read_all(bench: &Bench, store: Arc<Changed>) -> Result<()> {
    let repository = Repository::open_with(store, bench.format.clone())?;
    for (id, expected) in bench.sample.expected.iter().filter(|(_, expected)| !expected.is_block_volume()) {
        let mut waiting = vec![(String::new(), repository.snapshot(id)?.root()?.object)];
        let mut files = BTreeMap::new();
        while let Some((folder, directory)) = waiting.pop() {
            for_each_entry(&repository, directory, |entry| {
                let path = format!("{folder}{}", entry.name);
                match entry.kind {
                    EntryKind::Directory => waiting.push((format!("{path}/"), entry.object)),
                    EntryKind::File => drop(files.insert(path, repository.object(entry.object)?.read_all(1 << 28)?)),
                    EntryKind::Symlink => {}
                }
                Ok(())
            })?;
        }
        for entry in expected.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
            assert_eq!(Some(hash(&files[&entry.path])), entry.sha256, "wrong bytes in {}", entry.path);
        }
    }
    Ok(())
}

/// Numbers that are the same in every run.
fn scattered(seed: u64) -> impl FnMut() -> usize {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize
    }
}

/// Whether nobody ever reads a bit: the random bytes around the contents of a pack, and the words about the maker.
fn is_filler(id: &str, whole: &[u8], position: usize) -> bool {
    if id.starts_with(['p', 'q']) {
        let index = Postamble::parse(whole).unwrap().offset as usize;
        return position < 32 || (index - 4096..index).contains(&position);
    }
    id == "kopia.repository" && {
        let text = String::from_utf8(whole.to_vec()).unwrap();
        let field = |name: &str| {
            let start = text.find(&format!("\"{name}\": \"")).unwrap() + name.len() + 5;
            start..start + text[start..].find('"').unwrap()
        };
        let blank = whole[position].is_ascii_whitespace();
        blank || ["tool", "buildVersion", "buildInfo"].iter().any(|name| field(name).contains(&position))
    }
}

fn damage(seed: u64, rounds: usize) {
    let benches = benches();
    let mut next = scattered(seed);
    let (mut found, mut filler, mut named) = (0, 0, 0);
    for round in 0..rounds {
        let bench = &benches[round % 3];
        let ids: Vec<_> = bench.store.blobs.keys().collect();
        let id = ids[next() % ids.len()];
        let whole = &bench.store.blobs[id];
        let cuts = round % 5 == 0;
        let mut position = next() % whole.len();
        // Small packs are mostly filler; now and then a bit of it shows that it does no harm.
        while !cuts && round % 20 != 1 && is_filler(id, whole, position) {
            position = next() % whole.len();
        }
        let changed = if cuts {
            whole.slice(..position)
        } else {
            let mut changed = whole.to_vec();
            changed[position] ^= 1 << (next() % 8);
            Bytes::from(changed)
        };
        let store = bench.with(id, Some(changed));
        let report = bench.verify(Arc::clone(&store)).unwrap();
        if report.is_good() {
            assert!(!cuts && is_filler(id, whole, position), "{id}: bit at {position} of {}", whole.len());
            filler += 1;
        } else {
            found += 1;
            named += u64::from(report.problems.iter().any(|problem| matches!(problem.place, Place::File { .. })));
        }
        // What is found and what nobody reads alike: never other bytes than were saved.
        let outcome = if round % 100 == 0 { bench.restore(store) } else { read_all(bench, store) };
        assert!(!report.is_good() || outcome.is_ok(), "{id} at {position}: {outcome:?}");
    }
    println!("{found} found, {named} of them with files, {filler} in bytes that nobody reads");
    assert!(found >= rounds * 9 / 10 && named > 0, "{found} of {rounds}, {named} with files");
}

#[test]
fn a_thousand_flipped_bits_and_early_ends_are_found() {
    damage(1, 1000);
}

#[test]
#[ignore = "ten times the normal run, with another seed"]
fn ten_thousand_flipped_bits_and_early_ends_are_found() {
    damage(2, 10_000);
}

#[test]
fn the_samples_are_good_whole_and_snapshot_by_snapshot() {
    for bench in Sample::all().map(Bench::new) {
        let report = bench.verify(Arc::new(bench.store.clone())).unwrap();
        assert!(report.is_good(), "{:?}", report.problems);
        assert_eq!(report.checked.snapshots as usize, bench.sample.expected.len());
        assert!(report.checked.contents > 20 && report.checked.files > 1 && report.checked.blobs > 5, "{report:?}");
        for id in bench.sample.expected.keys() {
            let store = Arc::new(bench.store.clone());
            let report = verify_snapshot(store, bench.format.clone(), id, &VerifyOptions::default()).unwrap();
            assert!(report.is_good() && report.checked.contents > 0, "{:?}", report.problems);
        }
        let missing =
            verify_snapshot(Arc::new(bench.store.clone()), bench.format.clone(), "0", &VerifyOptions::default());
        assert!(matches!(missing, Err(Error::SnapshotNotFound { .. })));
    }
}

#[test]
fn a_lost_pack_is_named_with_the_files_that_were_in_it() {
    let bench = Bench::new(Sample::basic());
    let (id, expected) = bench.sample.tree();
    let repository = bench.sample.open().unwrap();
    let content = bench.format.sealer.hash(b"hello, kopia\n");
    let entry = repository.find(velero_repo::ContentId::data(content)).unwrap().unwrap();
    let pack = repository.index().index.pack_name(entry.pack).to_owned();
    let store = bench.with(&pack, None);
    for report in [
        bench.verify(Arc::clone(&store)).unwrap(),
        verify_snapshot(store, bench.format.clone(), id, &VerifyOptions::default()).unwrap(),
    ] {
        let blob = report.problems.iter().find(|problem| problem.place == Place::Blob(pack.clone()));
        assert!(blob.unwrap().problem.contains("does not exist"));
        let file = Place::File { snapshot: id.to_owned(), path: "hello.txt".to_owned() };
        assert!(report.problems.iter().any(|problem| problem.place == file), "{:?}", report.problems);
    }
    assert!(expected.entries.iter().any(|entry| entry.path == "hello.txt"));
}

#[test]
fn lost_and_damaged_indexes_are_rebuilt_from_packs() {
    for damaged in [false, true] {
        let sample = Sample::basic();
        let store: Arc<dyn BlobStore> = Arc::new(FolderStore::open(sample.path()).unwrap());
        let format = sample.open().unwrap().format().clone();
        for blob in list_all(store.as_ref(), "xn").unwrap() {
            if damaged {
                store.put(&blob.id, store.get(&blob.id).unwrap().slice(1..)).unwrap();
            } else {
                store.delete(&blob.id).unwrap();
            }
        }
        let before = list_all(store.as_ref(), "").unwrap();
        let would = rebuild_index(&store, &format, &system_clock(), true).unwrap();
        assert!(would.recovered > 10 && list_all(store.as_ref(), "").unwrap() == before, "a dry run writes nothing");
        let report = rebuild_index(&store, &format, &system_clock(), false).unwrap();
        assert_eq!((report.recovered, report.written.len()), (would.recovered, 1));
        assert_eq!(report.removed.is_empty(), !damaged);
        let repository = Repository::open(Arc::clone(&store), PASSWORD).unwrap();
        for (id, expected) in &sample.expected {
            assert_eq!(repository.snapshot(id).unwrap().root().unwrap().object.to_string(), expected.root);
        }
        let verified = verify_repository(store, format, &VerifyOptions::default()).unwrap();
        assert!(verified.is_good(), "{:?}", verified.problems);
    }
}

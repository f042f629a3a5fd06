//! Writers and maintainers of both kinds on one repository, while days pass: every snapshot that was reported complete and
//! not forgotten is there to the last byte, and kopia's own checks find nothing to say.
//!
//! Days pass by making everything in the repository older: the times of its blobs, of the entries in its indexes, and of
//! its maintenance history. Nobody is at work in that moment: no work of seconds lasts hours.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use jiff::{SignedDuration, Timestamp};
use velero_repo::clock::system_clock;
use velero_repo::epoch::WATERMARK_CONTENT;
use velero_repo::format::Format;
use velero_repo::index::{build_index, open_index_blob};
use velero_repo::maintenance::{MaintenanceOptions, Mode, Schedule, maintain};
use velero_repo::restore::{RestoreOptions, restore_into_folder};
use velero_repo::store::{BlobInfo, BlobStore as _, FolderStore, list_all};
use velero_repo::upload::{Counters, SnapshotRequest, UploadOptions, forget, upload_folder};
use velero_repo::verify::{VerifyOptions, verify_repository};
use velero_repo::{Repository, restore};
use velero_testkit::kopia::{Kopia, KopiaPeer};

use crate::sample;
use crate::trees::{Random, Tree, describe, small_repository};

/// How much time passes at once.
const STEP: Duration = Duration::from_secs(13 * 3600);
/// How many snapshots a writer keeps.
const KEPT: usize = 6;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Ours,
    Velero,
}

/// A repository that many work on.
struct Scene {
    place: tempfile::TempDir,
    format: Format,
    /// Held by all who work; alone by who lets time pass.
    time: RwLock<()>,
    over: AtomicBool,
    /// What must be there at the end, by snapshot.
    complete: Mutex<BTreeMap<String, Tree>>,
    saved: AtomicU64,
    maintained: [AtomicU64; 2],
    failures: Mutex<Vec<String>>,
}

impl Scene {
    fn new() -> Self {
        let (place, repository) = small_repository();
        let format = repository.format().clone();
        Self {
            place,
            format,
            time: RwLock::default(),
            over: AtomicBool::new(false),
            complete: Mutex::default(),
            saved: AtomicU64::new(0),
            maintained: Default::default(),
            failures: Mutex::default(),
        }
    }

    fn store(&self) -> Arc<FolderStore> {
        Arc::new(FolderStore::open(self.place.path()).unwrap())
    }

    fn open(&self) -> Repository {
        Repository::open_with(self.store(), self.format.clone()).unwrap()
    }

    fn failed(&self, who: &str, error: impl std::fmt::Display) {
        self.failures.lock().unwrap().push(format!("{who}: {error}"));
    }

    /// Saves a folder that changes, and forgets the oldest, until it is over.
    fn write(&self, kind: Kind, number: u64) {
        let mut peer = (kind == Kind::Velero).then(|| KopiaPeer::start(self.place.path()).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("volume");
        let mut random = Random::new(number);
        random.tree(&volume);
        let source = format!("writer/{number}");
        let mut mine: Vec<String> = Vec::new();
        while !self.over.load(Ordering::Relaxed) {
            let _now = self.time.read().unwrap();
            let tree = describe(&volume);
            let saved = match &mut peer {
                Some(peer) => {
                    peer.backup(&volume, &source).map(|saved| saved.snapshot).map_err(|error| format!("{error:#}"))
                }
                None => self.save(&volume, &source).map_err(|error| error.to_string()),
            };
            match saved {
                Ok(id) => {
                    self.saved.fetch_add(1, Ordering::Relaxed);
                    self.complete.lock().unwrap().insert(id.clone(), tree);
                    mine.push(id);
                }
                Err(error) => self.failed(&source, error),
            }
            if mine.len() > KEPT {
                let old = mine.remove(random.below(KEPT as u64 / 2) as usize);
                self.complete.lock().unwrap().remove(&old);
                let forgotten = match &mut peer {
                    Some(peer) => peer.forget(&old).map_err(|error| format!("{error:#}")),
                    None => forget(&self.open(), &[old], &system_clock()).map(drop).map_err(|error| error.to_string()),
                };
                forgotten.unwrap_or_else(|error| self.failed(&source, error));
            }
            random.change(&volume);
        }
    }

    fn save(&self, volume: &Path, source: &str) -> velero_repo::Result<String> {
        let request = SnapshotRequest::of_velero("snapshot-pod-volume", source, BTreeMap::new());
        let (options, counters) = (UploadOptions::default(), Counters::default());
        Ok(upload_folder(&self.open(), volume, &request, &options, &counters)?.id)
    }

    /// Maintains again and again until it is over.
    fn maintain(&self, kind: Kind) {
        let mut peer = (kind == Kind::Velero).then(|| KopiaPeer::start(self.place.path()).unwrap());
        for number in 0.. {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let now = self.time.read().unwrap();
            let full = number % 3 != 2;
            let done = match &mut peer {
                Some(peer) => {
                    let done = peer.maintain(if full { "full" } else { "quick" });
                    done.map(|()| true).map_err(|error| format!("{error:#}"))
                }
                None => {
                    let mode = Some(if full { Mode::Full } else { Mode::Quick });
                    let options = MaintenanceOptions { mode, ..MaintenanceOptions::default() };
                    let report = maintain(&self.open(), &options, &system_clock());
                    report.map(|report| report.skipped.is_none()).map_err(|error| error.to_string())
                }
            };
            drop(now);
            match done {
                Ok(done) => drop(self.maintained[kind as usize].fetch_add(u64::from(done), Ordering::Relaxed)),
                Err(error) => {
                    self.failed(if kind == Kind::Ours { "our maintainer" } else { "Velero's maintainer" }, error)
                }
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Makes everything older.
    fn pass(&self) {
        let _alone = self.time.write().unwrap();
        let store = self.store();
        let mut times: BTreeMap<String, SystemTime> = BTreeMap::new();
        for blob in list_all(store.as_ref(), "").unwrap() {
            let id = match &blob.id[..2] {
                "xn" | "xs" | "xr" => self.older_index(&store, &blob),
                "xw" => {
                    let time: u64 = blob.id[2..].parse().unwrap();
                    store.delete(&blob.id).unwrap();
                    let id = format!("xw{}", time - STEP.as_secs());
                    store.put(&id, WATERMARK_CONTENT.into()).unwrap();
                    id
                }
                _ => blob.id.clone(),
            };
            times.insert(id, blob.modified - STEP);
        }
        self.older_schedule(&store);
        for path in sample::paths(self.place.path()).into_iter().filter(|path| path.is_file()) {
            let id = path.strip_prefix(self.place.path()).unwrap().to_str().unwrap().replace('/', "");
            if let Some(time) = id.strip_suffix(".f").and_then(|id| times.get(id)) {
                std::fs::File::options().write(true).open(&path).unwrap().set_modified(*time).unwrap();
            }
        }
    }

    fn older_index(&self, store: &FolderStore, blob: &BlobInfo) -> String {
        let sealer = &self.format.sealer;
        let index = open_index_blob(store, sealer, blob).unwrap();
        let entries = index.entries().map(|entry| {
            let mut entry = entry.unwrap();
            entry.timestamp -= STEP.as_secs() as u32;
            (entry, index.pack_name(entry.pack).to_owned())
        });
        let plain = build_index(entries.collect()).unwrap();
        let hash = sealer.hash(&plain);
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let (before, after) = blob
            .id
            .split_once('-')
            .map_or((blob.id.as_str(), String::new()), |(before, after)| (before, format!("-{after}")));
        let id = format!("{}{digits}{after}", &before[..before.len() - 32]);
        store.put(&id, sealer.seal(&hash, &plain).into()).unwrap();
        store.delete(&blob.id).unwrap();
        id
    }

    fn older_schedule(&self, store: &FolderStore) {
        let mut schedule = Schedule::load(store, &self.format).unwrap();
        let older = |time: &mut Timestamp| {
            if *time > Timestamp::UNIX_EPOCH {
                *time -= SignedDuration::try_from(STEP).unwrap();
            }
        };
        older(&mut schedule.next_full);
        older(&mut schedule.next_quick);
        for run in schedule.runs.values_mut().flatten() {
            older(&mut run.start);
            older(&mut run.end);
        }
        schedule.store(store, &self.format).unwrap();
    }

    /// Everything that must be there is there.
    fn check(&self) {
        let repository = self.open();
        let report = verify_repository(self.store(), self.format.clone(), &VerifyOptions::default()).unwrap();
        assert!(report.is_good(), "{:#?}", report.problems);
        for (id, tree) in self.complete.lock().unwrap().iter() {
            let target = tempfile::tempdir().unwrap();
            let snapshot = repository.snapshot(id).unwrap();
            let (root, options) = (snapshot.root().unwrap(), RestoreOptions::default());
            restore_into_folder(&repository, root, target.path(), &options, &restore::Counters::default()).unwrap();
            assert_eq!(describe(target.path()), *tree, "snapshot {id} of {}", snapshot.source.path);
        }
        let kopia = Kopia::connect(self.place.path()).unwrap();
        kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).unwrap();
        kopia.run(&["content", "verify", "--full", "--download-percent=100"]).unwrap();
        kopia.run(&["index", "inspect", "--all"]).unwrap();
    }
}

/// So many writers of each kind and a maintainer of each for a time.
fn together(writers: u64, length: Duration) {
    let scene = Scene::new();
    thread::scope(|scope| {
        for number in 0..writers {
            let scene = &scene;
            scope.spawn(move || scene.write(Kind::Ours, 2 * number));
            scope.spawn(move || scene.write(Kind::Velero, 2 * number + 1));
        }
        for kind in [Kind::Ours, Kind::Velero] {
            let scene = &scene;
            scope.spawn(move || scene.maintain(kind));
        }
        let begun = Instant::now();
        while begun.elapsed() < length {
            thread::sleep(length / 40);
            scene.pass();
        }
        scene.over.store(true, Ordering::Relaxed);
    });
    let failures = scene.failures.lock().unwrap().join("\n");
    let maintained = scene.maintained.each_ref().map(|count| count.load(Ordering::Relaxed));
    let epoch = scene.open().index().epochs.write_epoch;
    let saved = scene.saved.load(Ordering::Relaxed);
    println!("{saved} snapshots, {maintained:?} maintenances, epoch {epoch}; what failed:\n{failures}");
    scene.check();
    assert!(saved > 4 * writers && maintained.iter().all(|count| *count > 0) && epoch > 1);
}

#[test]
fn a_repository_that_we_alone_maintain_shrinks_and_stays_good() {
    let scene = Scene::new();
    let mut peer = KopiaPeer::start(scene.place.path()).unwrap();
    let (folder, mut random) = (tempfile::tempdir().unwrap(), Random::new(99));
    let volume = folder.path().join("volume");
    random.tree(&volume);
    let (mut packs, mut compacted, mut saved) = (0, 0, Vec::new());
    for _ in 0..10 {
        random.change(&volume);
        std::fs::write(volume.join("changes"), random.bytes(3 << 20)).unwrap();
        let tree = describe(&volume);
        let ids = [scene.save(&volume, "ours").unwrap(), peer.backup(&volume, "theirs").unwrap().snapshot];
        scene.complete.lock().unwrap().extend(ids.clone().map(|id| (id, tree.clone())));
        saved.extend(ids);
        if saved.len() > 4 {
            let old: Vec<String> = saved.drain(..2).collect();
            scene.complete.lock().unwrap().retain(|id, _| !old.contains(id));
            forget(&scene.open(), &old, &system_clock()).unwrap();
        }
        scene.pass();
        scene.pass();
        let options = MaintenanceOptions { mode: Some(Mode::Full), ..MaintenanceOptions::default() };
        let report = maintain(&scene.open(), &options, &system_clock()).unwrap();
        assert_eq!(report.skipped, None);
        packs += report.packs.map_or(0, |stats| stats.deleted_pack_count);
        compacted += u64::from(report.compact.is_some());
    }
    // An epoch ends after twenty index blobs; one that ended two epochs ago is compacted.
    let epoch = scene.open().index().epochs.write_epoch;
    assert!(packs > 5 && compacted > 0 && epoch > 1, "{packs} packs deleted, {compacted} compactions, epoch {epoch}");
    scene.check();
}

#[test]
fn two_writers_and_a_maintainer_of_each_kind_share_a_repository_for_weeks() {
    together(2, Duration::from_secs(40));
}

#[test]
#[ignore = "ten minutes"]
fn three_writers_and_a_maintainer_of_each_kind_share_a_repository_for_a_month() {
    together(3, Duration::from_secs(600));
}

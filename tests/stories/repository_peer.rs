//! Velero's packages and ours on one repository: each restores what the other saved and continues it, and kopia's own
//! checks find nothing to say.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use velero_repo::format::Format;
use velero_repo::manifest::Snapshot;
use velero_repo::restore::{RestoreOptions, restore_into_folder};
use velero_repo::store::{BlobStore as _, FolderStore};
use velero_repo::upload::{Counters, Saved, SnapshotRequest, UploadOptions, forget, upload_folder};
use velero_repo::{Error, Repository, restore};
use velero_testkit::kopia::{Kopia, KopiaPeer};

use crate::sample::PASSWORD;
use crate::trees::{Random, Tree, describe, new_repository, small_repository};

/// The kind of entry in a mode.
const KIND: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// One repository, seen by both sides.
struct Both {
    place: tempfile::TempDir,
    peer: KopiaPeer,
    /// Known from the start: to derive the keys takes longer than most of what is tested.
    format: Option<Format>,
}

impl Both {
    fn new(place: tempfile::TempDir) -> Self {
        let peer = KopiaPeer::start(place.path()).unwrap();
        Self { place, peer, format: None }
    }

    fn open(&mut self) -> Repository {
        let store = Arc::new(FolderStore::open(self.place.path()).unwrap());
        let Some(format) = &self.format else {
            let repository = Repository::open(store, PASSWORD).unwrap();
            self.format = Some(repository.format().clone());
            return repository;
        };
        Repository::open_with(store, format.clone()).unwrap()
    }

    /// The bytes of all packs with data.
    fn data(&self) -> u64 {
        let mut bytes = 0;
        let store = FolderStore::open(self.place.path()).unwrap();
        let mut add = |blob: velero_repo::store::BlobInfo| {
            bytes += blob.size;
            Ok(())
        };
        store.list("p", &mut add).unwrap();
        bytes
    }

    /// Kopia's own checks of the whole repository.
    fn verify(&self) {
        let kopia = Kopia::connect(self.place.path()).unwrap();
        for check in [
            &["snapshot", "verify", "--verify-files-percent=100"][..],
            &["content", "verify", "--full", "--download-percent=100", "--include-deleted"],
            &["index", "inspect", "--all"],
        ] {
            kopia.run(check).unwrap();
        }
    }
}

fn upload(repository: &Repository, folder: &Path, source: &str) -> Saved {
    let request = SnapshotRequest::of_velero("snapshot-pod-volume", source, BTreeMap::new());
    // As in a bucket.
    let options = UploadOptions { compress: Some(true), ..UploadOptions::default() };
    upload_folder(repository, folder, &request, &options, &Counters::default()).unwrap()
}

fn restored(repository: &Repository, snapshot: &Snapshot, folder: &Path) -> Tree {
    let root = snapshot.root().unwrap();
    restore_into_folder(repository, root, folder, &RestoreOptions::default(), &restore::Counters::default()).unwrap();
    describe(folder)
}

/// What Velero restores of a tree: folders below the root get the latest time found below them, and links get theirs in
/// microseconds, rounded up.
pub(crate) fn as_velero_restores(tree: Tree) -> Tree {
    let rows = tree.into_iter().map(|(path, mut row)| {
        match row.mode & KIND {
            FOLDER if !path.is_empty() => (row.seconds, row.nanoseconds) = (0, 0),
            LINK => {
                row.nanoseconds = (row.nanoseconds + 999) / 1000 * 1000;
                if row.nanoseconds == 1_000_000_000 {
                    (row.seconds, row.nanoseconds) = (row.seconds + 1, 0);
                }
            }
            _ => {}
        }
        (path, row)
    });
    rows.collect()
}

/// Both save, restore and continue one tree.
fn exchange(both: &mut Both, volume: &Path, scratch: &Path, name: &str, change: impl FnOnce(&Path)) {
    let (theirs, ours) = (format!("theirs/{name}"), format!("ours/{name}"));
    let first = both.peer.backup(volume, &theirs).unwrap();
    let repository = both.open();
    let snapshot = repository.snapshot(&first.snapshot).unwrap();
    let expected = describe(volume);
    assert_eq!(
        restored(&repository, &snapshot, &scratch.join("theirs")),
        expected,
        "{name}: Velero saved, we restored"
    );
    let root = snapshot.root().unwrap();

    let continued = upload(&repository, volume, &theirs);
    assert_eq!(continued.snapshot.root().unwrap(), root, "{name}: we continue Velero's snapshot");
    assert_eq!((continued.written.contents, continued.snapshot.stats.non_cached_files), (1, 0), "{name}");
    let shared = upload(&repository, volume, &ours);
    assert_eq!(shared.snapshot.root().unwrap(), root, "{name}: we save what Velero saved");
    assert_eq!(shared.written.contents, 1, "{name}: everything was there");

    change(volume);
    let changed = upload(&repository, volume, &ours);
    drop(repository);
    let target = scratch.join("ours");
    both.peer.restore(&changed.id, &target).unwrap();
    let expected = as_velero_restores(describe(volume));
    assert_eq!(as_velero_restores(describe(&target)), expected, "{name}: we saved, Velero restored");

    let data = both.data();
    let root = changed.snapshot.root().unwrap();
    for (source, unread) in [(&ours, true), (&theirs, false)] {
        let again = both.peer.backup(volume, source).unwrap();
        let again = both.open().snapshot(&again.snapshot).unwrap();
        assert_eq!(again.root().unwrap(), root, "{name}: Velero saves what we saved, as {source}");
        assert!(!unread || again.stats.non_cached_files == 0, "{name}: Velero continues our snapshot");
        assert_eq!(both.data(), data, "{name}: Velero stored data that was there");
    }
}

/// How many trees share a repository: every backup leaves an index blob, and each of them is read by all that follow.
const IN_A_REPOSITORY: usize = 20;

fn random_trees(seeds: std::ops::Range<u64>) {
    for seeds in seeds.collect::<Vec<_>>().chunks(IN_A_REPOSITORY) {
        let (place, repository) = small_repository();
        drop(repository);
        let mut both = Both::new(place);
        for seed in seeds {
            let folder = tempfile::tempdir().unwrap();
            let volume = folder.path().join("volume");
            let mut random = Random::new(*seed);
            random.tree(&volume);
            exchange(&mut both, &volume, folder.path(), &format!("seed {seed}"), |volume| random.change(volume));
        }
        both.verify();
        println!("trees up to seed {} went there and back", seeds.last().unwrap());
    }
}

#[test]
fn random_trees_go_from_velero_to_us_and_back() {
    random_trees(0..10);
}

#[test]
#[ignore = "twenty times the normal run, with other seeds"]
fn many_random_trees_go_from_velero_to_us_and_back() {
    random_trees(10..220);
}

#[test]
fn files_around_the_limits_of_the_splitter_are_cut_alike() {
    const MIB: usize = 1 << 20;
    let (place, repository) = new_repository();
    drop(repository);
    let mut both = Both::new(place);
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    let mut random = Random::new(4711);
    let sizes = [2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 30 * MIB];
    for size in sizes {
        std::fs::write(volume.join(format!("random-{size}")), random.bytes(size)).unwrap();
        std::fs::write(volume.join(format!("zeros-{size}")), vec![0; size]).unwrap();
    }
    exchange(&mut both, &volume, folder.path(), "limits", |volume| {
        let path = volume.join(format!("random-{}", 30 * MIB));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.splice(9 * MIB..9 * MIB, *b"inserted");
        std::fs::write(path, bytes).unwrap();
    });
    both.verify();
}

#[test]
fn a_repository_of_velero_is_filled_forgotten_and_maintained_by_both() {
    let mut both = Both::new(tempfile::tempdir().unwrap());
    both.peer.create().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    let mut random = Random::new(7);
    random.tree(&volume);
    exchange(&mut both, &volume, folder.path(), "kept", |volume| random.change(volume));
    let theirs = both.peer.backup(&volume, "forgotten/theirs").unwrap().snapshot;
    let repository = both.open();
    let ours = upload(&repository, &volume, "forgotten/ours").id;
    forget(&repository, std::slice::from_ref(&theirs), &velero_repo::clock::system_clock()).unwrap();
    both.peer.forget(&ours).unwrap();
    assert!(both.peer.restore(&theirs, &folder.path().join("gone")).is_err(), "Velero sees what we forgot");
    let repository = both.open();
    assert!(matches!(repository.snapshot(&ours), Err(Error::SnapshotNotFound { .. })), "we see what Velero forgot");
    both.peer.maintain("full").unwrap();
    both.peer.maintain("quick").unwrap();
    let repository = both.open();
    let latest = upload(&repository, &volume, "ours/kept");
    assert_eq!(latest.snapshot.stats.non_cached_files, 0);
    assert_eq!(restored(&repository, &latest.snapshot, &folder.path().join("after")), describe(&volume));
    both.verify();
}

#[test]
fn velero_knows_a_repository_of_ours_as_its_own() {
    let (place, repository) = new_repository();
    drop(repository);
    let before = std::fs::read(place.path().join("kopia.repository.f")).unwrap();
    let mut both = Both::new(place);
    both.peer.create().unwrap();
    assert_eq!(std::fs::read(both.place.path().join("kopia.repository.f")).unwrap(), before, "it was made anew");
    both.peer.maintain("auto").unwrap();
    both.verify();
}

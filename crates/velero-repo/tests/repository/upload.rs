//! What we save is what is there: on the samples of Velero as parent, on random trees, on a store that dies at any call.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use jiff::Timestamp;
use velero_repo::directory::{DirectoryEntry, for_each_entry};
use velero_repo::manifest::Manifest;
use velero_repo::restore::{RestoreOptions, restore_into_folder, restore_onto_device};
use velero_repo::store::FolderStore;
use velero_repo::upload::{Counters, Saved, SnapshotRequest, UploadOptions, forget, upload_device, upload_folder};
use velero_repo::{Error, Repository, Result, restore};

use crate::sample::{self, PASSWORD, Sample};
use crate::trees::{DyingStore, Random, describe, new_repository, small_repository};

fn request(source: &str) -> SnapshotRequest {
    SnapshotRequest::of_velero("snapshot-pod-volume", source, BTreeMap::new())
}

fn upload(repository: &Repository, folder: &Path, source: &str) -> Result<Saved> {
    upload_folder(repository, folder, &request(source), &UploadOptions::default(), &Counters::default())
}

fn restored(repository: &Repository, root: &DirectoryEntry, folder: &Path) {
    restore_into_folder(repository, root, folder, &RestoreOptions::default(), &restore::Counters::default()).unwrap();
}

fn entries(repository: &Repository, root: &DirectoryEntry) -> Vec<DirectoryEntry> {
    let mut found = Vec::new();
    for_each_entry(repository, root.object, |entry| {
        found.push(entry);
        Ok(())
    })
    .unwrap();
    found
}

#[test]
fn a_snapshot_of_velero_is_continued_without_reading_or_storing_what_did_not_change() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sample = Sample::basic();
    let repository = sample.open().unwrap();
    let mut snapshots = repository.snapshots().unwrap();
    snapshots.retain(|(_, snapshot)| snapshot.source.path == "snapshot-pod-volume/kopia/demo/web-0/data");
    let (_, latest) = snapshots.pop().unwrap();
    let root = latest.root().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join(&root.name);
    restored(&repository, root, &volume);
    let saved = upload(&repository, &volume, "demo/web-0/data").unwrap();
    let same = saved.snapshot.root().unwrap();
    assert_eq!(same, root, "name, attributes, object and summary");
    assert_eq!(saved.written.contents, 1, "the manifest and nothing else");
    let stats = &saved.snapshot.stats;
    assert_eq!((stats.cached_files, stats.non_cached_files, stats.file_count), (15, 0, 0));
    assert_eq!((stats.total_size, stats.dir_count), (25_588, 9));
    assert_eq!(saved.snapshot.tags, latest.tags);
    assert_eq!(saved.snapshot.pins, latest.pins);
    assert_eq!(saved.snapshot.description, latest.description);
    // Another source has no parent: everything is read, and all of it is known.
    let other = upload(&repository, &volume, "demo/web-1/data").unwrap();
    assert_eq!(other.snapshot.root().unwrap().object, root.object);
    assert_eq!((other.snapshot.stats.non_cached_files, other.snapshot.stats.total_size), (13, 25_561));
    assert_eq!(other.written.contents, 1);
    let reopened = sample.open().unwrap();
    assert_eq!(reopened.snapshot(&other.id).unwrap().root().unwrap().object, root.object);
}

#[test]
fn a_folder_of_files_from_before_1970_has_the_summary_kopia_gives_it() {
    let (_place, repository) = new_repository();
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    let old = std::time::SystemTime::UNIX_EPOCH - std::time::Duration::new(315_000_000, 1);
    for name in ["empty", "filled"] {
        std::fs::create_dir_all(volume.join(name)).unwrap();
    }
    std::fs::write(volume.join("filled/file"), "old").unwrap();
    for name in ["filled/file", "filled", "empty"] {
        std::fs::File::open(volume.join(name)).unwrap().set_modified(old).unwrap();
    }
    let saved = upload(&repository, &volume, "old").unwrap();
    let found = entries(&repository, saved.snapshot.root().unwrap());
    let times: Vec<_> = found.iter().map(|entry| entry.summary.as_ref().unwrap().max_time).collect();
    assert_eq!(times, [found[0].mtime, Timestamp::UNIX_EPOCH]);
    assert_eq!(found[1].mtime, Timestamp::try_from(old).unwrap());
}

#[test]
fn a_block_volume_is_saved_as_velero_saves_it() {
    let sample = Sample::basic();
    let repository = sample.open().unwrap();
    let (_, block) =
        repository.snapshots().unwrap().into_iter().find(|(_, one)| one.source.path.ends_with("blockpvc")).unwrap();
    let root = block.root().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("device");
    std::fs::write(&device, vec![0; 65536]).unwrap();
    restore_onto_device(&repository, root, &device, &RestoreOptions::default(), &restore::Counters::default()).unwrap();
    let saved =
        upload_device(&repository, &device, &request("demo/block"), &UploadOptions::default(), &Counters::default())
            .unwrap();
    let ours = saved.snapshot.root().unwrap();
    assert_eq!((ours.mode, ours.mtime, ours.uid), (root.mode, root.mtime, root.uid));
    assert_eq!(ours.name, device.canonicalize().unwrap().to_str().unwrap());
    let (file, theirs) = (entries(&repository, ours).remove(0), entries(&repository, root).remove(0));
    assert_eq!((file.object, file.size, file.mode, &file.name), (theirs.object, theirs.size, theirs.mode, &ours.name));
    assert_eq!(saved.snapshot.stats, block.stats);
    let target = folder.path().join("target");
    std::fs::write(&target, "").unwrap();
    restore_onto_device(&repository, ours, &target, &RestoreOptions::default(), &restore::Counters::default()).unwrap();
    assert_eq!(std::fs::read(target).unwrap(), std::fs::read(device).unwrap());
}

#[test]
fn random_trees_come_back_as_they_were_and_a_second_backup_stores_nothing() {
    let (_place, repository) = small_repository();
    for seed in 0..16 {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("volume");
        let mut random = Random::new(seed);
        random.tree(&volume);
        let source = format!("random/{seed}");
        let first = upload(&repository, &volume, &source).unwrap();
        let target = folder.path().join("target");
        restored(&repository, first.snapshot.root().unwrap(), &target);
        assert_eq!(describe(&target), describe(&volume), "seed {seed}");
        let second = upload(&repository, &volume, &source).unwrap();
        assert_eq!(second.snapshot.root().unwrap(), first.snapshot.root().unwrap(), "seed {seed}");
        assert_eq!(second.written.contents, 1, "seed {seed}");
        assert_eq!(second.snapshot.stats.non_cached_files, 0);
        random.change(&volume);
        let third = upload(&repository, &volume, &source).unwrap();
        let target = folder.path().join("third");
        restored(&repository, third.snapshot.root().unwrap(), &target);
        assert_eq!(describe(&target), describe(&volume), "seed {seed} changed");
    }
}

#[test]
fn files_around_every_limit_of_the_splitter_come_back() {
    let (_place, repository) = new_repository();
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    let mut random = Random::new(7);
    let (least, most) = (2 << 20, 8 << 20);
    for size in [0, 1, 65_535, 65_536, 65_537, least - 1, least, least + 1, most - 1, most, most + 1, 20 << 20] {
        std::fs::write(volume.join(format!("random-{size}")), random.bytes(size)).unwrap();
        std::fs::write(volume.join(format!("zeros-{size}")), vec![0; size]).unwrap();
    }
    let saved = upload(&repository, &volume, "limits").unwrap();
    let target = folder.path().join("target");
    restored(&repository, saved.snapshot.root().unwrap(), &target);
    assert_eq!(describe(&target), describe(&volume));
}

#[test]
fn files_beyond_two_gibibytes_are_cut_as_velero_cuts_them() {
    let (_place, repository) = new_repository();
    let folder = tempfile::tempdir().unwrap();
    let sizes = [("a", (2_u64 << 30) + (3 << 20)), ("b", 4 << 30)];
    for (name, size) in sizes {
        std::fs::File::create(folder.path().join(name)).unwrap().set_len(size).unwrap();
    }
    let saved = upload(&repository, folder.path(), "large").unwrap();
    for (entry, (name, size)) in entries(&repository, saved.snapshot.root().unwrap()).iter().zip(sizes) {
        assert_eq!((entry.name.as_str(), entry.size), (name, size));
        let mut lengths = Vec::new();
        velero_repo::object::for_each_piece(&repository, entry.object, &mut |piece| {
            lengths.push(piece.length.unwrap());
            Ok(())
        })
        .unwrap();
        let mut expected = vec![2 << 20; if name == "a" { 1025 } else { 2048 }];
        expected.push(if name == "a" { 1 << 20 } else { 0 });
        assert_eq!(lengths, expected, "{name}");
    }
}

#[test]
fn files_that_ask_for_it_are_left_out_and_others_are_refused_or_reported() {
    let (_place, repository) = new_repository();
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for path in ["keep/deep", "logs", "cache/inner"] {
        std::fs::create_dir_all(at(path)).unwrap();
    }
    std::fs::write(at(".kopiaignore"), "*.log\n/logs/\n!good.log\n").unwrap();
    std::fs::write(at("keep/.kopiaignore"), "/deep/x\n").unwrap();
    for path in ["a.log", "keep/b.log", "keep/good.log", "keep/deep/x", "keep/deep/y", "logs/z", "cache/inner/file"] {
        std::fs::write(at(path), "12345").unwrap();
    }
    std::fs::write(at("cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n# cache").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    std::os::unix::fs::symlink("/etc", at("outside")).unwrap();
    std::fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"bad\xffname")), "x").unwrap();
    let counters = Counters::default();
    let saved =
        upload_folder(&repository, folder.path(), &request("ignored"), &UploadOptions::default(), &counters).unwrap();
    let target = tempfile::tempdir().unwrap();
    restored(&repository, saved.snapshot.root().unwrap(), target.path());
    let found: Vec<_> = describe(target.path()).into_keys().collect();
    assert_eq!(
        found,
        [
            "",
            ".kopiaignore",
            "bad\u{fffd}name",
            "cache",
            "keep",
            "keep/.kopiaignore",
            "keep/deep",
            "keep/deep/y",
            "keep/good.log",
            "outside"
        ]
    );
    assert_eq!(counters.damaged_names(), (1, vec!["bad\u{fffd}name".to_owned()]));
    let stats = &saved.snapshot.stats;
    assert_eq!((stats.excluded_file_count, stats.excluded_dir_count, stats.excluded_total_size), (3, 2, 15));
    std::fs::write(at("keep/x.kopia-entry"), "").unwrap();
    let error = upload(&repository, folder.path(), "ignored").unwrap_err().to_string();
    assert!(error.contains("keep/x.kopia-entry"), "{error}");
    assert_eq!(repository.snapshots().unwrap().len(), 1);
}

#[test]
fn a_path_as_long_as_paths_can_be_is_saved_and_restored() {
    let (_place, repository) = new_repository();
    let folder = tempfile::tempdir().unwrap();
    let name = "n".repeat(250);
    let mut handle = rustix::fs::open(folder.path(), rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..17 {
        rustix::fs::mkdirat(&handle, &name, rustix::fs::Mode::RWXU).unwrap();
        handle = rustix::fs::openat(&handle, &name, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    }
    let saved = upload(&repository, folder.path(), "deep").unwrap();
    assert_eq!(saved.snapshot.root().unwrap().summary.as_ref().unwrap().dirs, 18);
    let target = tempfile::tempdir().unwrap();
    restored(&repository, saved.snapshot.root().unwrap(), target.path());
}

#[test]
fn two_names_that_would_be_saved_as_one_fail_the_backup() {
    let (_place, repository) = new_repository();
    let folder = tempfile::tempdir().unwrap();
    for name in [&b"bad\xfe"[..], b"bad\xff"] {
        std::fs::write(folder.path().join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    let error = upload(&repository, folder.path(), "names").unwrap_err().to_string();
    assert!(error.contains("bad") && error.contains("UTF-8"), "{error}");
}

#[test]
fn a_canceled_backup_leaves_no_snapshot() {
    let (_place, repository) = new_repository();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let options = UploadOptions::default();
    options.cancel.cancel();
    let outcome = upload_folder(&repository, folder.path(), &request("canceled"), &options, &Counters::default());
    assert!(matches!(outcome, Err(Error::Canceled)));
    repository.refresh().unwrap();
    assert!(repository.snapshots().unwrap().is_empty());
}

#[test]
fn a_backup_that_runs_long_writes_checkpoints_and_takes_them_back() {
    let (place, repository) = small_repository();
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    let mut random = Random::new(3);
    std::fs::create_dir_all(volume.join("sub")).unwrap();
    for number in 0..40 {
        std::fs::write(volume.join(format!("sub/{number:03}")), random.bytes(300_000)).unwrap();
    }
    // Every look at the clock takes 40 seconds: an upload of hours.
    let seconds = Arc::new(AtomicI64::new(Timestamp::now().as_second()));
    let told = Arc::clone(&seconds);
    let began = seconds.load(Ordering::Relaxed);
    // What can be seen meanwhile is what a backup leaves that is killed.
    let (store, format) = (Arc::clone(repository.store()), repository.format().clone());
    let is_tagged = Arc::new(AtomicBool::new(false));
    let was_tagged = Arc::clone(&is_tagged);
    let sees_tagged_checkpoint = move || {
        let Ok(seen) = Repository::open_with(Arc::clone(&store), format.clone()) else { return false };
        let tagged = seen.manifests(&|manifest| manifest.has_labels(&[("snapshot-uploader", "kopia")]));
        let is_checkpoint = |manifest: &Manifest| manifest.snapshot().is_ok_and(|found| !found.incomplete.is_empty());
        tagged.is_ok_and(|found| found.iter().any(is_checkpoint))
    };
    let clock = move || {
        if !was_tagged.load(Ordering::Relaxed) && sees_tagged_checkpoint() {
            was_tagged.store(true, Ordering::Relaxed);
        }
        Timestamp::from_second(told.fetch_add(40, Ordering::Relaxed)).unwrap()
    };
    let options = UploadOptions { clock: Arc::new(clock), ..UploadOptions::default() };
    let saved = upload_folder(&repository, &volume, &request("long"), &options, &Counters::default()).unwrap();
    assert!(seconds.load(Ordering::Relaxed) - began > 2 * 2700, "long enough for several");
    assert!(is_tagged.load(Ordering::Relaxed), "its owner finds the checkpoints of a killed one");
    let reopened = Repository::open_with(Arc::clone(repository.store()), repository.format().clone()).unwrap();
    let snapshots = reopened.snapshots().unwrap();
    assert_eq!(snapshots.len(), 1, "only the complete one is left");
    assert_eq!(snapshots[0].0, saved.id);
    let flushes = sample::paths(place.path()).iter().filter(|path| path.to_str().unwrap().contains("/x/n0_/")).count();
    assert!(flushes > 4, "{flushes}: the index went out in between");
    let target = folder.path().join("target");
    restored(&reopened, saved.snapshot.root().unwrap(), &target);
    assert_eq!(describe(&target), describe(&volume));
}

#[test]
fn a_store_that_dies_at_any_call_leaves_what_was_complete_and_the_next_run_goes_on() {
    let (place, repository) = new_repository();
    let format = repository.format().clone();
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    std::fs::create_dir_all(volume.join("sub")).unwrap();
    std::fs::write(volume.join("sub/first"), "first").unwrap();
    let mut complete = vec![(upload(&repository, &volume, "dying").unwrap(), describe(&volume))];
    drop(repository);
    for call in 0.. {
        std::fs::write(volume.join("changed"), format!("content {call}")).unwrap();
        let inner = FolderStore::open(place.path()).unwrap();
        let dying = Arc::new(DyingStore::new(inner, call));
        let outcome = Repository::open_with(Arc::clone(&dying) as _, format.clone())
            .and_then(|repository| upload(&repository, &volume, "dying"));
        let survived = outcome.is_ok();
        if let Ok(saved) = outcome {
            complete.push((saved, describe(&volume)));
        }
        let healthy = FolderStore::open(place.path()).unwrap();
        let repository = Repository::open_with(Arc::new(healthy), format.clone()).unwrap();
        for (saved, expected) in &complete {
            let target = tempfile::tempdir().unwrap();
            let root = repository.snapshot(&saved.id).unwrap().root().unwrap().clone();
            restored(&repository, &root, target.path());
            assert_eq!(&describe(target.path()), expected, "call {call}");
        }
        if survived && !dying.is_dead() {
            break;
        }
        assert!(call < 100);
    }
    let first = complete[0].0.id.clone();
    for call in 0.. {
        let inner = FolderStore::open(place.path()).unwrap();
        let dying = Arc::new(DyingStore::new(inner, call));
        let clock = velero_repo::clock::system_clock();
        let outcome = Repository::open_with(Arc::clone(&dying) as _, format.clone())
            .and_then(|repository| forget(&repository, std::slice::from_ref(&first), &clock));
        let healthy = FolderStore::open(place.path()).unwrap();
        let repository = Repository::open_with(Arc::new(healthy), format.clone()).unwrap();
        for (saved, expected) in &complete[1..] {
            let target = tempfile::tempdir().unwrap();
            restored(&repository, saved.snapshot.root().unwrap(), target.path());
            assert_eq!(&describe(target.path()), expected);
        }
        if outcome.is_ok() {
            assert!(matches!(repository.snapshot(&first), Err(Error::SnapshotNotFound { .. })));
            break;
        }
        assert!(call < 100);
    }
}

#[test]
fn a_repository_that_is_half_made_is_finished_and_one_amid_other_data_refused() {
    use velero_repo::store::BlobStore as _;
    let day = std::time::Duration::from_secs(24 * 3600);
    let clock = velero_repo::clock::system_clock();
    for call in 0.. {
        let place = tempfile::tempdir().unwrap();
        let dying = Arc::new(DyingStore::new(FolderStore::open(place.path()).unwrap(), call));
        let outcome = Repository::create(Arc::clone(&dying) as _, PASSWORD, day, &clock);
        let store = Arc::new(FolderStore::open(place.path()).unwrap());
        let made = Repository::create(Arc::clone(&store) as _, PASSWORD, day, &clock).unwrap();
        assert_eq!(velero_repo::repository_state(store.as_ref()).unwrap(), velero_repo::RepositoryState::Ready);
        let manifests = made.manifests(&|manifest| manifest.has_labels(&[("type", "maintenance")])).unwrap();
        assert_eq!(manifests.len(), 1, "call {call}");
        if outcome.is_ok() && !dying.is_dead() {
            break;
        }
        assert!(call < 50);
    }
    let place = tempfile::tempdir().unwrap();
    let store = Arc::new(FolderStore::open(place.path()).unwrap());
    store.put("something", bytes::Bytes::from_static(b"else")).unwrap();
    let error = Repository::create(store, PASSWORD, day, &clock).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("something"), "{error}");
    let (place, _) = new_repository();
    let store = FolderStore::open(place.path()).unwrap();
    store.put(velero_repo::INITIALISED_BLOB, bytes::Bytes::from_static(b"{\"uniqueID\":\"AAAA\"}")).unwrap();
    assert!(velero_repo::repository_state(&store).unwrap_err().to_string().contains("another repository"));
}

//! Two repositories that Velero wrote: every snapshot, file, mode, time, owner and link is as it must be.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use velero_repo::browse::{find_entry, list_entry};
use velero_repo::directory::EntryKind;
use velero_repo::restore::{Counters, RestoreOptions, restore_into_folder, restore_onto_device};
use velero_repo::{Error, Repository};

use crate::sample::{self, Expected, ExpectedEntry, Sample, hash};

#[test]
fn every_snapshot_of_the_samples_is_found_with_its_source_and_root() {
    for sample in Sample::all() {
        let repository = sample.open().unwrap();
        let snapshots = repository.snapshots().unwrap();
        assert_eq!(snapshots.len(), sample.expected.len(), "{}", sample.name);
        for (id, snapshot) in snapshots {
            let expected = &sample.expected[&id];
            assert_eq!(snapshot.source.path, expected.path);
            assert_eq!(snapshot.root().unwrap().object.to_string(), expected.root);
            assert_eq!(repository.snapshot(&id).unwrap().source, snapshot.source);
        }
        assert!(matches!(repository.snapshot("00"), Err(Error::SnapshotNotFound { .. })));
    }
}

#[test]
fn every_snapshot_of_the_samples_is_restored_entry_by_entry() {
    for sample in Sample::all() {
        let repository = sample.open().unwrap();
        for (id, expected) in &sample.expected {
            let target = tempfile::tempdir().unwrap();
            let root = repository.snapshot(id).unwrap().root().unwrap().clone();
            let counters = Counters::default();
            let options = RestoreOptions { sparse: id.as_str() > "8", ..RestoreOptions::default() };
            if expected.is_block_volume() {
                let device = target.path().join("device");
                std::fs::write(&device, vec![0xff; 65536]).unwrap();
                restore_onto_device(&repository, &root, &device, &options, &counters).unwrap();
                assert_eq!(hash(&std::fs::read(device).unwrap()), expected.entries[1].sha256.clone().unwrap());
            } else {
                restore_into_folder(&repository, &root, target.path(), &options, &counters).unwrap();
                check_tree(target.path(), expected);
            }
            let progress = counters.progress();
            assert_eq!((progress.bytes_done, progress.files_done), expected.totals(), "{id}");
            assert_eq!(progress.files_done, progress.files_total);
        }
    }
}

#[test]
fn every_entry_of_a_snapshot_is_found_by_its_path() {
    let sample = Sample::basic();
    let repository = sample.open().unwrap();
    let (id, expected) = sample.tree();
    let root = repository.snapshot(id).unwrap().root().unwrap().clone();
    for wanted in &expected.entries {
        let found = find_entry(&repository, &root, &format!("/./{}/", wanted.path)).unwrap();
        assert_eq!((found.kind, found.mtime, found.uid), (wanted.kind, wanted.mtime, wanted.uid), "{}", wanted.path);
        let mut listed = Vec::new();
        list_entry(&repository, &found, &mut |entry| {
            listed.push(entry);
            Ok(())
        })
        .unwrap();
        match wanted.kind {
            EntryKind::Directory => {
                let below = expected.entries.iter().filter(|one| {
                    Path::new(&one.path).parent() == Some(Path::new(&wanted.path)) && one.path != wanted.path
                });
                assert_eq!(listed.len(), below.count(), "{}", wanted.path);
            }
            EntryKind::File => {
                let content = repository.object(found.object).unwrap().read_all(1 << 20).unwrap();
                assert_eq!(hash(&content), wanted.sha256.clone().unwrap(), "{}", wanted.path);
                assert_eq!(listed, [found]);
            }
            EntryKind::Symlink => assert_eq!(listed, [found]),
        }
    }
    for missing in ["no/such/file", ".."] {
        let error = find_entry(&repository, &root, missing).unwrap_err();
        assert!(matches!(error, Error::PathNotFound { .. }), "{error}");
    }
}

fn check_tree(target: &Path, expected: &Expected) {
    assert_eq!(sample::paths(target).len(), expected.entries.len() - 1);
    for entry in &expected.entries {
        check_entry(&target.join(&entry.path), entry);
    }
}

fn check_entry(path: &Path, entry: &ExpectedEntry) {
    let found = std::fs::symlink_metadata(path).unwrap();
    let kind = match () {
        () if found.is_dir() => EntryKind::Directory,
        () if found.is_symlink() => EntryKind::Symlink,
        () => EntryKind::File,
    };
    assert_eq!(kind, entry.kind, "{path:?}");
    let modified = jiff::Timestamp::new(found.mtime(), found.mtime_nsec() as i32).unwrap();
    assert_eq!(modified, entry.mtime, "{path:?}");
    if rustix::process::geteuid().is_root() {
        assert_eq!((found.uid(), found.gid()), (entry.uid, entry.gid), "{path:?}");
    }
    if kind != EntryKind::Symlink {
        assert_eq!(found.permissions().mode() & 0o7777, u32::from_str_radix(&entry.mode, 8).unwrap(), "{path:?}");
    }
    match kind {
        EntryKind::File => {
            assert_eq!(Some(found.len()), entry.size);
            assert_eq!(Some(hash(&std::fs::read(path).unwrap())), entry.sha256, "{path:?}");
        }
        EntryKind::Symlink => assert_eq!(std::fs::read_link(path).unwrap().to_str(), entry.target.as_deref()),
        EntryKind::Directory => {}
    }
}

#[test]
fn a_second_restore_overwrites_what_differs_and_leaves_what_is_not_in_the_snapshot() {
    let sample = Sample::basic();
    let repository = sample.open().unwrap();
    let (id, expected) = sample.tree();
    let target = tempfile::tempdir().unwrap();
    let root = repository.snapshot(id).unwrap().root().unwrap().clone();
    let restore =
        || restore_into_folder(&repository, &root, target.path(), &RestoreOptions::default(), &Counters::default());
    restore().unwrap();
    let file = target.path().join("hello.txt");
    std::fs::write(&file, vec![b'x'; 100_000]).unwrap();
    std::fs::write(target.path().join("dir/other"), "mine").unwrap();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "untouched").unwrap();
    let linked = target.path().join("empty.txt");
    std::fs::remove_file(&linked).unwrap();
    std::os::unix::fs::symlink(&secret, &linked).unwrap();
    restore().unwrap();
    assert_eq!(std::fs::read_to_string(target.path().join("dir/other")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "untouched", "a link is replaced and not followed");
    std::fs::remove_file(target.path().join("dir/other")).unwrap();
    for entry in expected.entries.iter().filter(|entry| entry.path != "dir") {
        check_entry(&target.path().join(&entry.path), entry);
    }
}

#[test]
fn a_link_or_file_where_a_directory_belongs_is_an_error_and_nothing_behind_it_is_touched() {
    let sample = Sample::basic();
    let repository = sample.open().unwrap();
    let root = repository.snapshot(sample.tree().0).unwrap().root().unwrap().clone();
    let outside = tempfile::tempdir().unwrap();
    let target = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), target.path().join("dir")).unwrap();
    let outcome =
        restore_into_folder(&repository, &root, target.path(), &RestoreOptions::default(), &Counters::default());
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("\"dir\"") && text.contains("symbolic link is in the way"), "{text}");
    assert!(sample::paths(outside.path()).is_empty());
}

#[test]
fn a_cancelled_restore_ends_with_the_word_for_it() {
    let sample = Sample::basic();
    let repository = sample.open().unwrap();
    let root = repository.snapshot(sample.tree().0).unwrap().root().unwrap().clone();
    let target = tempfile::tempdir().unwrap();
    let options = RestoreOptions::default();
    options.cancel.cancel();
    let outcome = restore_into_folder(&repository, &root, target.path(), &options, &Counters::default());
    assert!(matches!(outcome, Err(Error::Canceled)));
}

#[test]
fn a_wrong_password_and_an_empty_folder_are_told_apart() {
    let sample = Sample::basic();
    assert!(matches!(Repository::open(sample.store(), "other"), Err(Error::WrongPassword { .. })));
    let empty = tempfile::tempdir().unwrap();
    let store = velero_repo::store::FolderStore::open(empty.path()).unwrap();
    let opened = Repository::open(std::sync::Arc::new(store), "other");
    assert!(matches!(opened, Err(Error::NoRepository { .. })));
}

#[test]
fn the_maintained_sample_is_read_through_its_compaction_and_watermark() {
    let sample = Sample::maintained();
    let repository = sample.open().unwrap();
    let loaded = repository.index();
    assert_eq!(loaded.epochs.write_epoch, 2);
    assert!(loaded.epochs.watermark.is_some());
    let used: Vec<_> = loaded.epochs.complete_index_set().into_iter().map(|blob| blob.id[..3].to_owned()).collect();
    assert!(used.contains(&"xs0".to_owned()), "{used:?}");
    assert!(!repository.refresh().unwrap().index.is_empty());
}

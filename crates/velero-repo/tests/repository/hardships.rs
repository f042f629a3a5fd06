//! What a machine does to us: a full disk, files we may not read, files that change under our hands, indexes that lie.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use velero_repo::index::{ContentEntry, build_index};
use velero_repo::restore::{self, RestoreOptions, restore_into_folder};
use velero_repo::store::{BlobStore as _, FolderStore};
use velero_repo::upload::{Counters, Saved, SnapshotRequest, UploadOptions, upload_folder};
use velero_repo::verify::{VerifyOptions, VerifyReport, verify_repository};
use velero_repo::{Repository, Result};

use crate::alone;
use crate::trees::{Random, describe, new_repository, small_repository};

fn upload(repository: &Repository, folder: &Path) -> Result<Saved> {
    let request = SnapshotRequest::of_velero("snapshot-pod-volume", "hardship", Default::default());
    upload_folder(repository, folder, &request, &UploadOptions::default(), &Counters::default())
}

fn restore(repository: &Repository, saved: &Saved, target: &Path) -> Result<()> {
    let root = saved.snapshot.root()?;
    restore_into_folder(repository, root, target, &RestoreOptions::default(), &restore::Counters::default())
}

fn verify(place: &Path, repository: &Repository) -> VerifyReport {
    let store = Arc::new(FolderStore::open(place).unwrap());
    verify_repository(store, repository.format().clone(), &VerifyOptions::default()).unwrap()
}

/// Starts a program as root of mounts of its own, with a small disk at the folder.
const SMALL_DISK: [&str; 6] = [
    "unshare",
    "--map-root-user",
    "--mount",
    "sh",
    "-c",
    "mount -t tmpfs -o size=6m none \"$VELERO_TEST_FOLDER\" && exec \"$0\" \"$@\"",
];

#[test]
fn a_disk_that_is_full_ends_a_restore_with_the_path_and_harms_nothing() {
    let disk = tempfile::tempdir().unwrap();
    for step in ["one piece", "many pieces"] {
        alone::run(&SMALL_DISK, "hardships::onto_a_small_disk", step, disk.path());
    }
}

#[test]
#[ignore = "a process that another starts"]
fn onto_a_small_disk() {
    let Some((step, disk)) = alone::task() else { return };
    let (place, repository) = new_repository();
    let volume = tempfile::tempdir().unwrap();
    std::fs::create_dir(volume.path().join("below")).unwrap();
    // Content after the other fills the disk, or the first of many does not fit.
    let (files, length) = if step == "one piece" { (8, 1 << 20) } else { (1, 30 << 20) };
    for number in 0..files {
        let content = Random::new(number).bytes(length);
        std::fs::write(volume.path().join(format!("below/large-{number}")), content).unwrap();
    }
    let saved = upload(&repository, volume.path()).unwrap();
    let error = restore(&repository, &saved, &disk.join("target")).unwrap_err().to_string();
    assert!(error.contains("below/large-") && error.contains("No space left"), "{error}");
    assert!(verify(place.path(), &repository).is_good());
    let larger = tempfile::tempdir().unwrap();
    restore(&repository, &saved, larger.path()).unwrap();
    assert_eq!(describe(larger.path()), describe(volume.path()));
}

#[test]
fn an_unreadable_file_fails_the_backup_by_its_path_and_nothing_becomes_visible() {
    let folder = tempfile::tempdir().unwrap();
    // Root may read everything, unless it is somebody else.
    let nobody = ["unshare", "--user", "--map-user=1000"];
    alone::run(&nobody, "hardships::without_rights", "save", folder.path());
}

#[test]
#[ignore = "a process that another starts"]
fn without_rights() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some((_, folder)) = alone::task() else { return };
    let (_place, repository) = new_repository();
    for (path, mode) in [("file", 0o0), ("folder", 0o0)] {
        let secret = folder.join(path);
        if path == "file" {
            std::fs::write(&secret, "x").unwrap()
        } else {
            std::fs::create_dir(&secret).unwrap()
        }
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = upload(&repository, &folder).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains("denied"), "{error}");
        assert!(repository.snapshots().unwrap().is_empty());
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    upload(&repository, &folder).unwrap();
}

/// Writes, cuts, removes and makes files again until it is over.
fn disturb(volume: &Path, over: &AtomicBool) {
    let mut random = Random::new(5);
    while !over.load(Ordering::Relaxed) {
        for number in 0..20 {
            let (changing, fleeting) = (volume.join("changing"), volume.join(format!("fleeting-{number}")));
            let length = random.below(1 << 20) as usize;
            std::fs::write(&changing, random.bytes(length)).unwrap();
            std::fs::File::options().write(true).open(&changing).unwrap().set_len(random.below(1 << 19)).unwrap();
            if fleeting.exists() {
                std::fs::remove_file(fleeting).unwrap();
            } else {
                std::fs::write(fleeting, random.bytes(200_000)).unwrap();
            }
        }
    }
}

#[test]
fn files_that_change_or_vanish_while_they_are_read_are_named_or_saved_as_they_were_read() {
    let (place, repository) = small_repository();
    let folder = tempfile::tempdir().unwrap();
    let (volume, stable) = (folder.path().join("volume"), folder.path().join("volume/stable"));
    std::fs::create_dir_all(&stable).unwrap();
    for number in 0..20 {
        std::fs::write(stable.join(format!("{number}")), Random::new(number).bytes(100_000)).unwrap();
    }
    let over = AtomicBool::new(false);
    let check = |saved: &Saved, round: usize| {
        let target = folder.path().join(format!("target-{round}"));
        restore(&repository, saved, &target).unwrap();
        assert_eq!(describe(&target.join("stable")), describe(&stable));
        target
    };
    std::thread::scope(|scope| {
        scope.spawn(|| disturb(&volume, &over));
        for round in 0..12 {
            match upload(&repository, &volume) {
                Ok(saved) => drop(check(&saved, round)),
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("changing") || error.contains("fleeting-"), "{error}");
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let saved = upload(&repository, &volume).unwrap();
    let target = check(&saved, 12);
    assert_eq!(describe(&target), describe(&volume), "the next backup has everything");
    let report = verify(place.path(), &repository);
    assert!(report.is_good(), "{:?}", report.problems);
}

#[test]
fn an_index_that_points_nowhere_is_named_with_the_file_and_nothing_is_restored_wrong() {
    let (place, repository) = new_repository();
    let store = FolderStore::open(place.path()).unwrap();
    let volume = tempfile::tempdir().unwrap();
    std::fs::write(volume.path().join("file"), Random::new(3).bytes(100_000)).unwrap();
    std::fs::write(volume.path().join("other"), Random::new(4).bytes(100_000)).unwrap();
    let saved = upload(&repository, volume.path()).unwrap();
    let hash = repository.format().sealer.hash(&std::fs::read(volume.path().join("file")).unwrap());
    let loaded = repository.refresh().unwrap();
    let right = loaded.index.find(velero_repo::ContentId::data(hash)).unwrap().unwrap();
    let pack = loaded.index.pack_name(right.pack).to_owned();
    let later = right.timestamp + 1;
    let gone = format!("p{}-s1", "0".repeat(32));
    let cases = [
        ("a pack that does not exist", ContentEntry { timestamp: later, ..right }, gone),
        ("behind the end of the pack", ContentEntry { timestamp: later, offset: 1 << 29, ..right }, pack.clone()),
        ("other bytes", ContentEntry { timestamp: later, offset: right.offset ^ 16, ..right }, pack.clone()),
        ("too long", ContentEntry { timestamp: later, packed_length: 1 << 27, ..right }, pack),
    ];
    for (what, entry, pack) in cases {
        let sealer = &repository.format().sealer;
        let plain = build_index(vec![(entry, pack)]).unwrap();
        let hash = sealer.hash(&plain);
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let blob = format!("xn0_{digits}-s0123456789abcdef147-c1");
        store.put(&blob, sealer.seal(&hash, &plain).into()).unwrap();
        repository.refresh().unwrap();
        let target = tempfile::tempdir().unwrap();
        let error = restore(&repository, &saved, target.path()).unwrap_err().to_string();
        assert!(error.contains("file"), "{what}: {error}");
        let problems = verify(place.path(), &repository).problems;
        assert!(problems.iter().any(|problem| problem.to_string().contains("file")), "{what}: {problems:?}");
        store.delete(&blob).unwrap();
        repository.refresh().unwrap();
        restore(&repository, &saved, target.path()).unwrap();
        assert_eq!(describe(target.path()), describe(volume.path()), "{what}");
    }
}

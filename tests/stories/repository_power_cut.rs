//! A power cut: what was reported saved is in the repository afterwards.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use velero_repo::restore::{self, RestoreOptions, restore_into_folder};
use velero_repo::store::FolderStore;
use velero_repo::upload::{Counters, SnapshotRequest, UploadOptions, upload_folder};
use velero_repo::{Repository, RepositoryState, repository_state};

use crate::trees::{Random, describe, small_repository_in};

/// A disk with a file system of its own. What its file holds is what a power cut would leave.
struct Disk {
    file: PathBuf,
    mounted: PathBuf,
}

impl Disk {
    fn new(file: PathBuf) -> Self {
        File::create(&file).unwrap().set_len(64 << 20).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&file));
        Self::mount(file)
    }

    fn mount(file: PathBuf) -> Self {
        let mounted = file.with_extension("mounted");
        fs::create_dir(&mounted).unwrap();
        run(Command::new("mount").args(["-o", "loop"]).args([&file, &mounted]));
        Self { file, mounted }
    }

    /// The disk as it is after a power cut now.
    fn cut_power(&self, name: &str) -> Self {
        let file = self.file.with_file_name(name);
        fs::copy(&self.file, &file).unwrap();
        Self::mount(file)
    }

    fn place(&self) -> PathBuf {
        self.mounted.join("repositories/kopia/shop")
    }

    fn store(&self) -> Arc<FolderStore> {
        Arc::new(FolderStore::open(self.place()).unwrap())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run(Command::new("umount").arg(&self.mounted));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; is e2fsprogs installed?"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn volume(folder: &Path) {
    let mut random = Random::new(5);
    random.tree(folder);
    fs::write(folder.join("several packs"), random.bytes(3 << 20)).unwrap();
}

#[test]
fn a_power_cut_takes_back_neither_a_repository_that_was_made_nor_a_snapshot_that_was_saved() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Disk::new(scratch.path().join("disk"));
    let repository = small_repository_in(&disk.place());
    let after = disk.cut_power("after-creation");
    assert_eq!(repository_state(after.store().as_ref()).unwrap(), RepositoryState::Ready);

    let source = scratch.path().join("source");
    volume(&source);
    let request = SnapshotRequest::of_velero("snapshot-pod-volume", "source", BTreeMap::new());
    let saved = upload_folder(&repository, &source, &request, &UploadOptions::default(), &Counters::default()).unwrap();
    let after = disk.cut_power("after-snapshot");
    let found = Repository::open_with(after.store(), repository.format().clone()).unwrap();
    let snapshot = found.snapshot(&saved.id).unwrap();
    let (root, target) = (snapshot.root().unwrap(), scratch.path().join("target"));
    restore_into_folder(&found, root, &target, &RestoreOptions::default(), &restore::Counters::default()).unwrap();
    assert_eq!(describe(&target), describe(&source));
}

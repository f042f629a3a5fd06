//! Memory is bounded whatever the size: of a volume with a large file, of a folder with a million files, of an index with ten
//! million contents.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use velero_repo::index::{ContentEntry, build_index};
use velero_repo::restore::{self, RestoreOptions, restore_into_folder};
use velero_repo::store::FolderStore;
use velero_repo::upload::{Counters, SnapshotRequest, UploadOptions, upload_folder};
use velero_repo::verify::{VerifyOptions, verify_repository};
use velero_repo::{ContentId, Repository};

use crate::alone;
use crate::sample::PASSWORD;
use crate::trees::{Random, new_repository};

/// What any process may hold, in MiB. To derive the key of a repository takes 64 of them for a moment.
const MOST_MEMORY: u64 = 112;
const MANY: u64 = 1_000_000;
/// How many contents the large index has, how many of them lie in a blob as a compaction cuts them, and how many in a pack:
/// 20 MiB in contents of 200 KiB.
const CONTENTS: u64 = 10_000_000;
const IN_A_BLOB: u64 = 250_000;
const IN_A_PACK: u64 = 100;

fn name(number: u64) -> String {
    format!("file-{number:09}")
}

#[test]
#[ignore = "a process that the others start"]
fn one_step() {
    let Some((step, folder)) = alone::task() else { return };
    let store = Arc::new(FolderStore::open(folder.join("repository")).unwrap());
    let began = Instant::now();
    if step == "verify" {
        let format = Repository::open(Arc::clone(&store) as _, PASSWORD).unwrap().format().clone();
        let report = verify_repository(store, format, &VerifyOptions::default()).unwrap();
        assert!(report.is_good(), "{:?}", report.problems);
    } else {
        let day = std::time::Duration::from_secs(24 * 3600);
        let clock = velero_repo::clock::system_clock();
        let repository = Repository::create(store, PASSWORD, day, &clock).unwrap();
        match step.strip_prefix("restore ") {
            Some(snapshot) => {
                let (snapshot, counters) = (repository.snapshot(snapshot).unwrap(), restore::Counters::default());
                let (root, target) = (snapshot.root().unwrap(), folder.join("target"));
                restore_into_folder(&repository, root, &target, &RestoreOptions::default(), &counters).unwrap();
                let progress = counters.progress();
                assert_eq!((progress.files_done, progress.bytes_done), (progress.files_total, progress.bytes_total));
            }
            None => {
                let request = SnapshotRequest::of_velero("snapshot-pod-volume", "large", Default::default());
                let (options, counters) = (UploadOptions::default(), Counters::default());
                let saved = upload_folder(&repository, &folder.join("volume"), &request, &options, &counters).unwrap();
                let contents = saved.written.contents;
                assert!(step == "save" || contents == 1, "{contents} contents of what did not change");
                println!("saved as {} ", saved.id);
            }
        }
    }
    println!("took {:.1} s and {} MiB ", began.elapsed().as_secs_f64(), alone::peak_memory());
    assert!(alone::peak_memory() <= MOST_MEMORY, "{} MiB", alone::peak_memory());
}

/// Saves the folder `volume` twice, verifies the repository and restores it, each in a process of its own.
fn there_and_back(folder: &Path) {
    let step = |step: &str| {
        let said = alone::run(&["env"], "large::one_step", step, folder);
        let figures = said.split_once("took ").unwrap().1.lines().next().unwrap().to_owned();
        println!("{}: {figures}", step.split(' ').next().unwrap());
        said
    };
    let saved = step("save");
    let snapshot = saved.split_once("saved as ").unwrap().1.split(' ').next().unwrap();
    step("save again");
    step("verify");
    step(&format!("restore {snapshot}"));
}

#[test]
#[ignore = "minutes, and eight gibibytes of disk"]
fn a_million_files_in_one_folder_are_saved_verified_and_restored_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (volume, target) = (folder.path().join("volume"), folder.path().join("target"));
    std::fs::create_dir(&volume).unwrap();
    for number in 0..MANY {
        std::fs::write(volume.join(name(number)), number.to_le_bytes()).unwrap();
    }
    there_and_back(folder.path());
    assert_eq!(std::fs::read_dir(&target).unwrap().count() as u64, MANY);
    for number in (0..MANY).step_by(997) {
        assert_eq!(std::fs::read(target.join(name(number))).unwrap(), number.to_le_bytes());
    }
}

#[test]
#[ignore = "three gibibytes of disk"]
fn a_large_file_is_saved_verified_and_restored_in_little_memory() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    // Every second piece or so is compressed, and no two are the same.
    let mut random = Random::new(1);
    let mut file = std::fs::File::create(volume.join("large")).unwrap();
    for _ in 0..64 {
        file.write_all(&random.bytes(8 << 20)).unwrap();
        file.write_all(&random.text(8 << 20)).unwrap();
    }
    there_and_back(folder.path());
    let (saved, restored) = (volume.join("large"), folder.path().join("target/large"));
    let same = std::process::Command::new("cmp").args([saved, restored]).status().unwrap();
    assert!(same.success(), "the file came back with other bytes");
}

/// The id of the content with a number: spread as hashes are.
fn content(number: u64) -> ContentId {
    let mut hash = [0; 16];
    hash[..8].copy_from_slice(&(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    hash[8..].copy_from_slice(&number.to_be_bytes());
    ContentId::data(hash)
}

fn entry(number: u64) -> (ContentEntry, String) {
    let entry = ContentEntry {
        id: content(number),
        timestamp: 1_790_000_000,
        deleted: false,
        pack: 0,
        offset: (number % IN_A_PACK) as u32 * 200_000,
        packed_length: 199_000,
        original_length: 198_972,
        compression: 0,
        format_version: 3,
        key_id: 0,
    };
    (entry, format!("p{:032x}-s0123456789abcdef147", number / IN_A_PACK))
}

#[test]
#[ignore = "a process that another starts"]
fn a_large_index_is_opened_and_searched() {
    let Some((_, folder)) = alone::task() else { return };
    let began = Instant::now();
    let repository = Repository::open(Arc::new(FolderStore::open(folder).unwrap()), PASSWORD).unwrap();
    println!("opened in {:.1} s and {} MiB ", began.elapsed().as_secs_f64(), alone::peak_memory());
    for number in (0..CONTENTS).step_by(97) {
        assert_eq!(repository.find(content(number)).unwrap().unwrap().offset, entry(number).0.offset);
    }
    println!("took {:.1} s and {} MiB ", began.elapsed().as_secs_f64(), alone::peak_memory());
    assert!(alone::peak_memory() <= MOST_MEMORY, "{} MiB", alone::peak_memory());
}

#[test]
#[ignore = "minutes"]
fn an_index_of_ten_million_contents_is_opened_and_searched_in_little_memory() {
    let (place, repository) = new_repository();
    let sealer = &repository.format().sealer;
    for first in (0..CONTENTS).step_by(IN_A_BLOB as usize) {
        let plain = build_index((first..first + IN_A_BLOB).map(entry).collect()).unwrap();
        let hash = sealer.hash(&plain);
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("xn0_{digits}-s0123456789abcdef147-c1");
        repository.store().put(&name, sealer.seal(&hash, &plain).into()).unwrap();
    }
    let said = alone::run(&["env"], "large::a_large_index_is_opened_and_searched", "open", place.path());
    println!("{}", said.lines().filter(|line| line.contains("MiB")).collect::<Vec<_>>().join("; "));
}

//! How much memory large repositories take:
//!
//! ```text
//! limits index CONTENTS    an index of so many contents is made, then opened and searched by another process
//! limits files FILES       a folder of so many files is saved, saved again unchanged, and restored
//! ```
//!
//! Every step is a process of its own, and a line of JSON with its time and the most memory it held.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use velero_repo::clock::system_clock;
use velero_repo::content_id::ContentId;
use velero_repo::index::{ContentEntry, build_index};
use velero_repo::restore::{self, RestoreOptions, restore_into_folder};
use velero_repo::store::FolderStore;
use velero_repo::upload::{self, SnapshotRequest, UploadOptions, upload_folder};
use velero_repo::{Error, Repository, Result};

const PASSWORD: &str = "static-passw0rd";
/// How many entries an index blob has, as a compaction cuts them.
const IN_A_BLOB: u64 = 250_000;
/// How many contents a pack has: 20 MiB in contents of 200 KiB.
const IN_A_PACK: u64 = 100;

type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Outcome<()> {
    match arguments {
        ["index", count] => large_index(count.parse()?),
        ["files", count] => many_files(count.parse()?),
        ["step", step, folder, rest @ ..] => {
            let start = Instant::now();
            let mut answer = do_step(step, Path::new(folder), rest)?;
            answer["seconds"] = json!((start.elapsed().as_secs_f64() * 100.0).round() / 100.0);
            answer["peak_rss_mib"] = json!(peak_memory());
            answer["work"] = json!(step);
            println!("{answer}");
            Ok(())
        }
        _ => Err("the arguments are not known; the head of the source says what they are".into()),
    }
}

/// Runs a step in a process of its own and gives its answer.
fn step(step: &str, folder: &Path, rest: &[&str]) -> Outcome<Value> {
    let output = Command::new(std::env::current_exe()?).args(["step", step]).arg(folder).args(rest).output()?;
    if !output.status.success() {
        return Err(format!("{step}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    println!("{answer}");
    Ok(answer)
}

/// The most memory this process held, in MiB.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?.div_ceil(1024))
}

fn open(folder: &Path) -> Result<Repository> {
    Repository::open(Arc::new(FolderStore::open(folder.join("repository"))?), PASSWORD)
}

fn do_step(step: &str, folder: &Path, rest: &[&str]) -> Outcome<Value> {
    match (step, rest) {
        ("open the index", []) => Ok(json!({"contents": open(folder)?.index().index.len()})),
        ("search the index", [count]) => {
            let (repository, count) = (open(folder)?, count.parse::<u64>()?);
            let found = (0..count).step_by(97).try_fold(0, |found, number| {
                repository.find(content(number)).map(|entry| found + u64::from(entry.is_some()))
            })?;
            Ok(json!({ "found": found }))
        }
        ("save" | "save again", []) => {
            let request = SnapshotRequest::of_velero("snapshot-pod-volume", "large/volume", BTreeMap::new());
            let (options, counters) = (UploadOptions::default(), upload::Counters::default());
            let saved = upload_folder(&open(folder)?, &folder.join("volume"), &request, &options, &counters)?;
            Ok(
                json!({"snapshot": saved.id, "files": saved.snapshot.stats.file_count, "contents": saved.written.contents}),
            )
        }
        ("restore", [snapshot]) => {
            let (repository, counters) = (open(folder)?, restore::Counters::default());
            let (found, target) = (repository.snapshot(snapshot)?, folder.join("target"));
            restore_into_folder(&repository, found.root()?, &target, &RestoreOptions::default(), &counters)?;
            Ok(json!({"files": counters.progress().files_done}))
        }
        _ => Err(format!("no step {step:?}").into()),
    }
}

fn new_repository(folder: &Path) -> Result<Repository> {
    let place = folder.join("repository");
    fs::create_dir_all(&place).map_err(|source| Error::File {
        action: "make",
        path: place.display().to_string(),
        source,
    })?;
    let store = Arc::new(FolderStore::open(place)?);
    Repository::create(store, PASSWORD, Duration::from_secs(86_400), &system_clock())
}

/// The id of the content with a number: spread as hashes are.
fn content(number: u64) -> ContentId {
    let mut hash = [0; 16];
    hash[..8].copy_from_slice(&(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    hash[8..].copy_from_slice(&number.to_be_bytes());
    ContentId::data(hash)
}

fn large_index(count: u64) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let repository = new_repository(folder.path())?;
    let sealer = &repository.format().sealer;
    for first in (0..count).step_by(IN_A_BLOB as usize) {
        let entries = (first..count.min(first + IN_A_BLOB)).map(|number| {
            let offset = (number % IN_A_PACK) as u32 * 200_000;
            let entry = ContentEntry {
                id: content(number),
                timestamp: 1_790_000_000,
                deleted: false,
                pack: 0,
                offset,
                packed_length: 199_000,
                original_length: 198_972,
                compression: 0,
                format_version: 3,
                key_id: 0,
            };
            (entry, format!("p{:032x}-s0123456789abcdef147", number / IN_A_PACK))
        });
        let plain = build_index(entries.collect())?;
        let hash = sealer.hash(&plain);
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        repository.store().put(&format!("xn0_{digits}-s0123456789abcdef147-c1"), sealer.seal(&hash, &plain).into())?;
    }
    drop(repository);
    step("open the index", folder.path(), &[])?;
    let found = step("search the index", folder.path(), &[&count.to_string()])?;
    if found["found"].as_u64() != Some(count.div_ceil(97)) {
        return Err("not every content was found".into());
    }
    Ok(())
}

fn many_files(count: u64) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    drop(new_repository(folder.path())?);
    let volume = folder.path().join("volume");
    fs::create_dir(&volume)?;
    for number in 0..count {
        fs::write(volume.join(format!("file-{number:09}")), number.to_le_bytes())?;
    }
    let saved = step("save", folder.path(), &[])?;
    step("save again", folder.path(), &[])?;
    let snapshot = saved["snapshot"].as_str().unwrap_or_default();
    let restored = step("restore", folder.path(), &[snapshot])?;
    let same = [0, count / 3, count - 1].into_iter().try_fold(true, |same, number| {
        let content = fs::read(folder.path().join("target").join(format!("file-{number:09}")));
        content.map(|content| same && content == number.to_le_bytes())
    })?;
    if !same || restored["files"].as_u64() != Some(count) {
        return Err("what came back is not what was saved".into());
    }
    Ok(())
}

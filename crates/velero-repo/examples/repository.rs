//! One repository in a folder, for measurements and trials:
//!
//! ```text
//! repository FOLDER create
//! repository FOLDER backup VOLUME SOURCE
//! repository FOLDER restore SNAPSHOT VOLUME
//! repository FOLDER forget SNAPSHOT…
//! ```
//!
//! The password is `VELERO_REPO_PASSWORD`, or what Velero takes when nobody chose one. The answer is a line of JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use velero_repo::clock::system_clock;
use velero_repo::restore::{self, RestoreOptions, restore_into_folder};
use velero_repo::store::FolderStore;
use velero_repo::upload::{self, SnapshotRequest, UploadOptions, forget, upload_folder};
use velero_repo::{Error, Repository, Result};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<Value> {
    let password = std::env::var("VELERO_REPO_PASSWORD").unwrap_or_else(|_| "static-passw0rd".to_owned());
    let store = |folder: &str| FolderStore::open(folder).map(Arc::new);
    let open = |folder: &str| Repository::open(store(folder)?, &password);
    match arguments {
        [folder, "create"] => {
            Repository::create(store(folder)?, &password, DAY, &system_clock())?;
            Ok(json!({}))
        }
        [folder, "backup", volume, source] => backup(&open(folder)?, volume, source),
        [folder, "restore", snapshot, volume] => bring_back(&open(folder)?, snapshot, volume),
        [folder, "forget", snapshots @ ..] => {
            let snapshots: Vec<String> = snapshots.iter().map(|&id| id.to_owned()).collect();
            forget(&open(folder)?, &snapshots, &system_clock())?;
            Ok(json!({}))
        }
        _ => Err(Error::Unsupported("the arguments; the head of the source says what they are".to_owned())),
    }
}

fn backup(repository: &Repository, volume: &str, source: &str) -> Result<Value> {
    let request = SnapshotRequest::of_velero("snapshot-pod-volume", source, BTreeMap::new());
    let counters = upload::Counters::default();
    let saved = upload_folder(repository, Path::new(volume), &request, &UploadOptions::default(), &counters)?;
    Ok(json!({
        "snapshot": saved.id,
        "size": saved.snapshot.stats.total_size,
        "contents": saved.written.contents,
        "stored": saved.written.bytes,
    }))
}

fn bring_back(repository: &Repository, snapshot: &str, volume: &str) -> Result<Value> {
    let (found, counters) = (repository.snapshot(snapshot)?, restore::Counters::default());
    restore_into_folder(repository, found.root()?, Path::new(volume), &RestoreOptions::default(), &counters)?;
    Ok(json!({"snapshot": snapshot, "size": counters.progress().bytes_done}))
}

//! One repository, for measurements and trials:
//!
//! ```text
//! repository PLACE create
//! repository PLACE backup VOLUME SOURCE
//! repository PLACE restore SNAPSHOT VOLUME
//! repository PLACE forget SNAPSHOT…
//! repository PLACE maintain auto|quick|full
//! repository PLACE open
//! ```
//!
//! PLACE is a folder, or `s3://BUCKET/PREFIX/` with `AWS_ENDPOINT_URL` and keys in `AWS_*`.
//! The password is `VELERO_REPO_PASSWORD`, or what Velero takes when nobody chose one. The answer is a line of JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use velero_repo::clock::system_clock;
use velero_repo::maintenance::{MaintenanceOptions, Mode, maintain};
use velero_repo::restore::{self, RestoreOptions, restore_into_folder};
use velero_repo::store::{BlobStore, FolderStore};
use velero_repo::upload::{self, SnapshotRequest, UploadOptions, forget, upload_folder};
use velero_repo::{Error, Repository, Result};

/// As movers have it (`crates/velero/src/main.rs`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    let open = |place: &str| Repository::open(store(place)?, &password);
    match arguments {
        [place, "open"] => Ok(json!({"contents": open(place)?.index().index.len()})),
        [place, "maintain", mode] => {
            let mode = match *mode {
                "quick" => Some(Mode::Quick),
                "full" => Some(Mode::Full),
                _ => None,
            };
            let options = MaintenanceOptions { mode, ..MaintenanceOptions::default() };
            maintain(&open(place)?, &options, &system_clock())?;
            Ok(json!({}))
        }
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

/// A folder, or a bucket.
fn store(place: &str) -> Result<Arc<dyn BlobStore>> {
    #[cfg(feature = "bucket")]
    if let Some((bucket, prefix)) = place.strip_prefix("s3://").and_then(|place| place.split_once('/')) {
        return bucket_store(bucket, prefix);
    }
    Ok(Arc::new(FolderStore::open(place)?))
}

#[cfg(feature = "bucket")]
fn bucket_store(bucket: &str, prefix: &str) -> Result<Arc<dyn BlobStore>> {
    use tokio::runtime::{Builder, Runtime};
    // Lives as long as the process: the store has only a handle.
    static RUNTIME: std::sync::OnceLock<Runtime> = std::sync::OnceLock::new();
    let failed = |error: &dyn std::fmt::Display| Error::Unsupported(format!("bucket {bucket:?}: {error}"));
    let built = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| failed(&error))?;
    let runtime = RUNTIME.get_or_init(|| built);
    let endpoint = std::env::var("AWS_ENDPOINT_URL").unwrap_or_default();
    let config = velero_store::StoreConfig::new("aws", bucket).with("s3Url", endpoint);
    let config = config.with("region", "us-east-1").with("s3ForcePathStyle", "true");
    let opened = runtime.block_on(config.open()).map_err(|error| failed(&error))?;
    Ok(Arc::new(velero_repo::store::BucketStore::new(opened, prefix, runtime.handle().clone())))
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

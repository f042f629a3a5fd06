//! Checks a repository or one snapshot down to the last file, and rebuilds indexes from packs.
//!
//! ```text
//! repository ── every blob ── every content of every pack ── every directory and file of every snapshot
//! snapshot ──── every directory ── every content it needs ── the files that need damaged ones
//! ```
//!
//! Damage is collected, not the end: what can be read is checked. What nothing names is counted, and is no damage.

mod blobs;
mod contents;
mod repair;
mod report;
mod trees;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

use crate::bitmap::Bitmap;
use crate::format::Format;
use crate::manifest::{self, Collected, Manifest, SNAPSHOT};
use crate::store::BlobStore;
use crate::{Error, Repository, Result};

pub use repair::{RepairReport, rebuild_index};
pub use report::{Checked, Place, Problem, Unreferenced, VerifyReport};
use trees::Trees;

/// How it is checked.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// How many packs are read at once; each takes up to 30 MiB.
    pub parallel: usize,
    /// Ends it soon.
    pub cancel: CancellationToken,
    /// Says how far it is.
    pub counters: Arc<Counters>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { parallel: 2, cancel: CancellationToken::new(), counters: Arc::default() }
    }
}

/// How far a check is; read from any thread.
#[derive(Debug, Default)]
pub struct Counters {
    total: AtomicU64,
    done: AtomicU64,
}

impl Counters {
    /// The bytes of packs and contents that were read, and those there are; 0 until that is known.
    pub fn bytes(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    fn expect(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
    }

    fn read(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Checks every blob, content, object and file of a repository.
pub fn verify_repository(store: Arc<dyn BlobStore>, format: Format, options: &VerifyOptions) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let (repository, problems) = Repository::open_damaged(store, format)?;
    problems.into_iter().for_each(|error| report.error(error));
    let packs = blobs::check(&repository, &mut report)?;
    let bad = contents::check_packs(&repository, &packs, options, &mut report)?;
    let snapshots = snapshots(&repository, &mut report, &|_| true)?;
    let mut trees = Trees::new(&repository, &bad, options);
    for manifest in &snapshots {
        trees.snapshot(manifest, &mut report)?;
    }
    let reached = trees.finish();
    for (position, entry) in repository.index().index.entries().enumerate() {
        let entry = entry?;
        if entry.id.prefix() != Some(manifest::PREFIX) && !reached.contains(position as u32) {
            report.unreferenced.contents += 1;
            report.unreferenced.content_bytes += u64::from(entry.packed_length);
        }
    }
    Ok(report)
}

/// Checks every directory, content and file of one snapshot.
pub fn verify_snapshot(
    store: Arc<dyn BlobStore>,
    format: Format,
    id: &str,
    options: &VerifyOptions,
) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let (repository, problems) = Repository::open_damaged(store, format)?;
    problems.into_iter().for_each(|error| report.error(error));
    let found = snapshots(&repository, &mut report, &|manifest| manifest.id == id)?;
    let manifest = found.last().ok_or_else(|| Error::SnapshotNotFound { id: id.to_owned() })?;
    let nothing = Bitmap::new(repository.index().index.len());
    let mut first = Trees::new(&repository, &nothing, options);
    first.snapshot(manifest, &mut VerifyReport::default())?;
    let needed = first.finish();
    let bad = contents::check_needed(&repository, &needed, options, &mut report)?;
    let mut second = Trees::new(&repository, &bad, options);
    second.snapshot(manifest, &mut report)?;
    Ok(report)
}

/// The snapshots that are wanted, from the manifests that can be read.
fn snapshots(
    repository: &Repository,
    report: &mut VerifyReport,
    wanted: &dyn Fn(&Manifest) -> bool,
) -> Result<Vec<Manifest>> {
    let loaded = repository.index();
    let wanted = |manifest: &Manifest| manifest.has_labels(&[("type", SNAPSHOT)]) && wanted(manifest);
    let mut collected = Collected::new(&wanted);
    for entry in loaded.index.entries_with_prefix(manifest::PREFIX) {
        let entry = entry?;
        if entry.deleted {
            continue;
        }
        let what = format!("content {} with manifests", entry.id);
        let read = repository.content_of(&loaded.index, &entry).and_then(|content| {
            manifest::for_each_in(&content, &what, |manifest| {
                collected.take(manifest);
                Ok(())
            })
        });
        report.note(read)?;
    }
    Ok(collected.finish())
}

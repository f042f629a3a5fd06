//! The files of backups and restores, a page at a time: nothing of them is ever whole in memory but what is shown.
//!
//! ```text
//! log ── the lines of a log that a search finds
//! listing ── the objects of a backup that a search finds
//! object ── one object, as it was
//! contents ── all objects of a backup, for a comparison
//! ```

mod contents;
mod listing;
mod log;
mod object;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use velero_api::records::{BackupOperation, BackupVolumeInfo, RestoreOperation, RestoreVolumeInfo, ResultsFile};
use velero_api::v1::{DownloadTarget, DownloadTargetKind};
use velero_archive::gzjson;
use velero_store::{ByteStream, blocking_reader, read_all};

pub(crate) use contents::take_contents;
pub(crate) use listing::{Listing, OBJECTS, Search};
pub(crate) use log::LogPage;
pub(crate) use object::ObjectPath;

/// How large a document may be that is read whole, compressed and not.
const COMPRESSED: usize = 8 << 20;
const PLAIN: u64 = 32 << 20;
/// How long files may be read for one page.
pub(crate) const READING: Duration = Duration::from_secs(20);

/// The files of backups and restores: whatever a DownloadRequest could ask for.
#[async_trait]
pub trait Files: Send + Sync {
    /// Opens a file.
    async fn open(&self, target: &DownloadTarget) -> Result<ByteStream, FileProblem>;
}

/// What of a file is wanted, as the address of a page says it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// What it contains, in letters of any size; empty means anything.
    pub(crate) search: String,
    /// The page, from zero.
    pub(crate) page: usize,
}

/// Why a file cannot be shown.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FileProblem {
    /// There is none, for this reason.
    #[error("{0}")]
    None(String),
    /// It cannot be read now, for this reason.
    #[error("{0}")]
    Away(String),
}

/// A file by its kind and the name of its backup or restore.
pub(crate) fn target(kind: DownloadTargetKind, name: &str) -> DownloadTarget {
    DownloadTarget { kind, name: name.to_owned(), ..DownloadTarget::default() }
}

/// The errors and warnings of a backup or restore.
pub(crate) async fn results(
    files: &dyn Files,
    kind: DownloadTargetKind,
    name: &str,
) -> Result<ResultsFile, FileProblem> {
    document(files, &target(kind, name)).await
}

/// What a backup did with volumes.
pub(crate) async fn volumes(files: &dyn Files, backup: &str) -> Result<Vec<BackupVolumeInfo>, FileProblem> {
    document(files, &target(DownloadTargetKind::BackupVolumeInfos, backup)).await
}

/// What a restore did with volumes.
pub(crate) async fn restored_volumes(files: &dyn Files, restore: &str) -> Result<Vec<RestoreVolumeInfo>, FileProblem> {
    document(files, &target(DownloadTargetKind::RestoreVolumeInfo, restore)).await
}

/// The operations that the actions of a backup have started.
pub(crate) async fn operations(files: &dyn Files, backup: &str) -> Result<Vec<BackupOperation>, FileProblem> {
    document(files, &target(DownloadTargetKind::BackupItemOperations, backup)).await
}

/// The operations that the actions of a restore have started.
pub(crate) async fn restore_operations(files: &dyn Files, restore: &str) -> Result<Vec<RestoreOperation>, FileProblem> {
    document(files, &target(DownloadTargetKind::RestoreItemOperations, restore)).await
}

/// A whole document, of bounded size.
pub(crate) async fn document<T>(files: &dyn Files, wanted: &DownloadTarget) -> Result<T, FileProblem>
where
    T: DeserializeOwned + Send + 'static,
{
    let stream = files.open(wanted).await?;
    let what = format!("the {} of {:?}", wanted.kind.as_str(), wanted.name);
    let bytes = read_all(&what, stream, COMPRESSED).await.map_err(|error| FileProblem::Away(error.to_string()))?;
    let decoded = tokio::task::spawn_blocking(move || gzjson::decode(&bytes, PLAIN)).await;
    let decoded = decoded.map_err(|error| FileProblem::Away(error.to_string()))?;
    decoded.map_err(|error| FileProblem::Away(format!("{what} cannot be read: {error}")))
}

/// Reads a file with blocking code, for so long at most.
async fn read<T, F>(files: &dyn Files, wanted: &DownloadTarget, work: F) -> Result<T, FileProblem>
where
    T: Send + 'static,
    F: FnOnce(Box<dyn std::io::Read + Send>, Instant) -> Result<T, String> + Send + 'static,
{
    read_until(Instant::now() + READING, files, wanted, work).await
}

/// Reads a file with blocking code, up to a moment.
async fn read_until<T, F>(
    deadline: Instant,
    files: &dyn Files,
    wanted: &DownloadTarget,
    work: F,
) -> Result<T, FileProblem>
where
    T: Send + 'static,
    F: FnOnce(Box<dyn std::io::Read + Send>, Instant) -> Result<T, String> + Send + 'static,
{
    let reader = Box::new(blocking_reader(files.open(wanted).await?));
    let read = tokio::task::spawn_blocking(move || work(reader, deadline)).await;
    let read = read.map_err(|error| FileProblem::Away(error.to_string()))?;
    read.map_err(|error| {
        FileProblem::Away(format!("the {} of {:?} cannot be read: {error}", wanted.kind.as_str(), wanted.name))
    })
}

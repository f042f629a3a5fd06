//! The files of backups and restores, a page at a time: nothing of them is ever whole in memory but what is shown.
//!
//! ```text
//! log ── the lines of a log that a search finds
//! listing ── the objects of a backup that a search finds
//! object ── one object, as it was
//! contents ── all objects of a backup, for a comparison
//! preview ── what a restore would do
//! unreadable ── why a file that is there cannot be read
//! ```

mod contents;
mod listing;
mod log;
mod object;
mod preview;
mod unreadable;

use std::io::{self, Read};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout_at;
use velero_api::records::{
    BackupOperation, BackupVolumeInfo, RestoreOperation, RestoreVolumeInfo, ResultsFile, VolumeMethod, VolumeResult,
};
use velero_api::v1::{DownloadTarget, DownloadTargetKind};
use velero_archive::gzjson;
use velero_store::{ByteStream, blocking_reader, read_all};

pub(crate) use contents::take_contents;
pub(crate) use listing::{Listing, OBJECTS, Search};
#[cfg(test)]
pub(crate) use log::Line as LogLine;
pub(crate) use log::{LONGEST_LINE, LogPage};
pub(crate) use object::ObjectPath;
pub(crate) use preview::Preview;
use unreadable::Unreadable;

/// How large a document may be that is read whole, compressed and not.
const COMPRESSED: usize = 8 << 20;
const PLAIN: u64 = 32 << 20;
/// How long files may be read for one page.
pub(crate) const READING: Duration = Duration::from_secs(20);
/// How long a page waits for files that it shows beside other things: those are shown without them, and it says so.
pub(crate) const BESIDE: Duration = Duration::from_secs(10);
/// How long a store may say nothing once the time is over: who reads looks at the clock when bytes come.
const SILENCE: Duration = Duration::from_secs(2);

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
fn target(kind: DownloadTargetKind, name: &str) -> DownloadTarget {
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

/// The little of a [`BackupVolumeInfo`] that tells whether the data of a claim was saved: there may be thousands.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SavedVolume {
    pub(crate) pvc_namespace: Box<str>,
    pub(crate) pvc_name: Box<str>,
    pub(crate) backup_method: Option<VolumeMethod>,
    pub(crate) skipped: bool,
    pub(crate) skipped_reason: Box<str>,
    pub(crate) result: Option<VolumeResult>,
}

/// Which volumes a backup saved.
pub(crate) async fn saved_volumes(files: &dyn Files, backup: &str) -> Result<Vec<SavedVolume>, FileProblem> {
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
async fn document<T>(files: &dyn Files, wanted: &DownloadTarget) -> Result<T, FileProblem>
where
    T: DeserializeOwned + Send + 'static,
{
    let what = format!("the {} of {:?}", wanted.kind.as_str(), wanted.name);
    let fetched = async {
        let stream = files.open(wanted).await?;
        read_all(&what, stream, COMPRESSED).await.map_err(|error| FileProblem::Away(error.to_string()))
    };
    let bytes = timeout_at((Instant::now() + READING).into(), fetched).await.map_err(|_| late(wanted))??;
    let decoded = tokio::task::spawn_blocking(move || gzjson::decode(&bytes, PLAIN)).await;
    let decoded = decoded.map_err(|error| FileProblem::Away(error.to_string()))?;
    decoded.map_err(|error| FileProblem::Away(format!("{what} cannot be read: {error}")))
}

/// Reads a file with blocking code, for so long at most.
async fn read<T, F>(files: &dyn Files, wanted: &DownloadTarget, work: F) -> Result<T, FileProblem>
where
    T: Send + 'static,
    F: FnOnce(Box<dyn Read + Send>, Instant) -> Result<T, Unreadable> + Send + 'static,
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
    F: FnOnce(Box<dyn Read + Send>, Instant) -> Result<T, Unreadable> + Send + 'static,
{
    let opened = timeout_at(deadline.into(), files.open(wanted)).await.map_err(|_| late(wanted))?;
    let reader = Box::new(InTime { reader: blocking_reader(opened?), deadline });
    let working = tokio::task::spawn_blocking(move || work(reader, deadline));
    let read = timeout_at((deadline + SILENCE).into(), working).await.map_err(|_| late(wanted))?;
    let read = read.map_err(|error| FileProblem::Away(error.to_string()))?;
    read.map_err(|error| {
        FileProblem::Away(format!("the {} of {:?} cannot be read: {error}", wanted.kind.as_str(), wanted.name))
    })
}

/// What is said of a file that did not come.
fn late(wanted: &DownloadTarget) -> FileProblem {
    let (kind, name) = (wanted.kind.as_str(), &wanted.name);
    FileProblem::Away(format!("the {kind} of {name:?} took too long to read: its store is slow or does not answer"))
}

/// Reads up to a moment, whoever decompresses it: a few bytes can be a line, or a name, that has no end.
struct InTime<R> {
    reader: R,
    deadline: Instant,
}

impl<R: Read> Read for InTime<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() > self.deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it takes too long"));
        }
        self.reader.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that does not answer.
    struct Silent;

    #[async_trait]
    impl Files for Silent {
        async fn open(&self, _: &DownloadTarget) -> Result<ByteStream, FileProblem> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_does_not_answer_is_not_waited_for_without_end() {
        let wanted = target(DownloadTargetKind::BackupLog, "b");
        let read = read(&Silent, &wanted, |_, _| Ok(())).await;
        assert_eq!(read, Err(late(&wanted)));
        let document = document::<Vec<String>>(&Silent, &wanted).await;
        assert_eq!(document, Err(late(&wanted)));
    }

    #[test]
    fn what_is_read_ends_when_its_time_is_over() {
        let mut byte = [0];
        let mut read = |deadline| InTime { reader: io::repeat(b'x'), deadline }.read(&mut byte);
        assert_eq!(read(Instant::now() + READING).unwrap(), 1);
        assert_eq!(read(Instant::now() - Duration::from_millis(1)).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}

//! The one thread that fills the archive.
//!
//! Records come through a short channel: when the archive cannot keep up, the whole pipeline waits.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use velero_archive::{ArchiveWriter, ItemPath};
use velero_cluster::RawItem;

use super::BackupError;
use super::plan::PlannedType;
use crate::Journal;

/// How many batches may wait. Each may hold a page of a list in memory.
const WAITING_BATCHES: usize = 3;
/// A batch of so many bytes is handed over.
const BATCH_BYTES: usize = 512 << 10;
/// A batch of so many records is handed over.
const BATCH_RECORDS: usize = 256;

/// An item for the archive.
pub(super) struct Record {
    pub planned: Arc<PlannedType>,
    pub body: Body,
}

impl Record {
    fn size(&self) -> usize {
        match &self.body {
            Body::Raw(raw) => raw.as_bytes().len(),
            Body::Changed { json, .. } => json.len(),
        }
    }
}

/// The content of an item.
pub(super) enum Body {
    /// As it came.
    Raw(RawItem),
    /// As an action changed it. Its name and namespace, which may have changed too, decide its place.
    Changed { namespace: Option<String>, name: String, json: Vec<u8> },
}

enum Message {
    Batch(Vec<Record>),
    End,
}

/// The end of the channel that takes records.
pub(super) struct Records {
    sender: mpsc::Sender<Message>,
    gathered: Mutex<Gathered>,
}

/// Records on their way to the channel: waking the other thread for each would cost more than writing it.
#[derive(Default)]
struct Gathered {
    records: Vec<Record>,
    size: usize,
}

impl Records {
    /// Hands records over, sooner or later; waits while the archive is behind.
    pub(super) async fn send(&self, batch: Vec<Record>) -> Result<(), BackupError> {
        let full = {
            let mut gathered = self.gathered();
            gathered.size += batch.iter().map(Record::size).sum::<usize>();
            gathered.records.extend(batch);
            gathered.size >= BATCH_BYTES || gathered.records.len() >= BATCH_RECORDS
        };
        if full { self.flush().await } else { Ok(()) }
    }

    /// Hands over what was gathered.
    pub(super) async fn flush(&self) -> Result<(), BackupError> {
        let Gathered { records, .. } = std::mem::take(&mut *self.gathered());
        if records.is_empty() {
            return Ok(());
        }
        self.sender.send(Message::Batch(records)).await.map_err(|_| BackupError::ArchiveClosed)
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The archive being written.
pub(super) struct Archive<W> {
    sender: mpsc::Sender<Message>,
    task: JoinHandle<Result<W, BackupError>>,
}

/// Starts the thread.
pub(super) fn start<W: Write + Send + 'static>(sink: W, journal: &Journal) -> (Archive<W>, Records) {
    let (sender, receiver) = mpsc::channel(WAITING_BATCHES);
    let journal = journal.clone();
    let task = tokio::task::spawn_blocking(move || write_all(sink, receiver, &journal));
    let records = Records { sender: sender.clone(), gathered: Mutex::default() };
    (Archive { sender, task }, records)
}

impl<W> Archive<W> {
    /// Ends the archive and gives the sink back.
    pub(super) async fn finish(self) -> Result<W, BackupError> {
        // A thread that has stopped already says why below.
        let _ = self.sender.send(Message::End).await;
        self.task.await.unwrap_or(Err(BackupError::ArchiveClosed))
    }

    /// Why the archive takes no more records.
    pub(super) async fn failure(self) -> BackupError {
        drop(self.sender);
        match self.task.await {
            Ok(Err(error)) => error,
            _ => BackupError::ArchiveClosed,
        }
    }
}

fn write_all<W: Write>(sink: W, mut receiver: mpsc::Receiver<Message>, journal: &Journal) -> Result<W, BackupError> {
    let modified = u64::try_from(Timestamp::now().as_second()).unwrap_or_default();
    let archive = ArchiveWriter::new(sink, modified).map_err(BackupError::Archive)?;
    let mut writer = Writer { archive, path: String::new(), body: Vec::new() };
    while let Some(message) = receiver.blocking_recv() {
        match message {
            Message::Batch(batch) => {
                for record in &batch {
                    writer.write(record, journal)?;
                }
            }
            Message::End => return writer.archive.finish().map_err(BackupError::Archive),
        }
    }
    // All senders are gone without an end: the backup was given up. A writer dropped unfinished leaves no whole archive.
    Err(BackupError::ArchiveClosed)
}

struct Writer<W: Write> {
    archive: ArchiveWriter<W>,
    path: String,
    body: Vec<u8>,
}

impl<W: Write> Writer<W> {
    fn write(&mut self, record: &Record, journal: &Journal) -> Result<(), BackupError> {
        let (namespace, name, body) = match &record.body {
            Body::Raw(raw) => {
                self.body.clear();
                if let Err(error) = raw.write_to(&mut self.body) {
                    journal
                        .error()
                        .object(&record.planned.name, raw.namespace(), raw.name())
                        .error(&error)
                        .message("Error backing up item");
                    return Ok(());
                }
                (raw.namespace(), raw.name(), self.body.as_slice())
            }
            Body::Changed { namespace, name, json } => (namespace.as_deref(), name.as_str(), json.as_slice()),
        };
        let path = ItemPath { group_resource: &record.planned.name, version: None, namespace, name };
        let resource_type = &record.planned.resource_type;
        for copy in path.copies(&resource_type.version, resource_type.preferred) {
            self.path.clear();
            // Writing to a string cannot fail.
            let _ = write!(self.path, "{copy}");
            match self.archive.append(&self.path, body) {
                Err(error @ velero_archive::Error::UnsafePath { .. }) => {
                    journal
                        .error()
                        .object(&record.planned.name, namespace, name)
                        .error(&error)
                        .message("Error backing up item");
                }
                result => result.map_err(BackupError::Archive)?,
            }
        }
        Ok(())
    }
}

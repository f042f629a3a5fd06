//! The one thread that fills the archive.
//!
//! Records come through a short channel: when the archive cannot keep up, the whole pipeline waits. An item is done when
//! it is in the archive, and not before: this thread enters it into the ledger.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use velero_archive::{ArchiveWriter, Error, ItemPath, Limits};
use velero_cluster::{ItemRef, RawItem};

use super::BackupError;
use super::error::ItemError;
use super::ledger::Ledger;
use super::plan::PlannedType;
use crate::Journal;
use crate::lock;

/// How many batches may wait. Each may hold a page of a list in memory.
const WAITING_BATCHES: usize = 3;
/// A batch of so many bytes is handed over.
const BATCH_BYTES: usize = 512 << 10;
/// A batch of so many records is handed over.
const BATCH_RECORDS: usize = 256;

/// An item for the archive.
pub(super) struct Record {
    pub planned: Arc<PlannedType>,
    /// The namespace and name it has in the cluster, where an action has given it others.
    pub renamed_from: Option<(Option<String>, String)>,
    pub body: Body,
}

impl Record {
    /// An item as it came.
    pub(super) fn unchanged(planned: Arc<PlannedType>, raw: RawItem) -> Self {
        Self { planned, renamed_from: None, body: Body::Raw(raw) }
    }

    /// Where the item goes: what it is called in the archive.
    fn place(&self) -> ItemRef<'_, PlannedType> {
        match &self.body {
            Body::Raw(raw) => self.planned.item(raw.namespace(), raw.name()),
            Body::Changed { namespace, name, .. } => self.planned.item(namespace.as_deref(), name),
        }
    }

    /// What the item is called in the cluster.
    fn identity(&self) -> ItemRef<'_, PlannedType> {
        match &self.renamed_from {
            Some((namespace, name)) => self.planned.item(namespace.as_deref(), name),
            None => self.place(),
        }
    }

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
        lock(&self.gathered)
    }
}

/// The archive being written.
pub(super) struct Archive<W> {
    sender: mpsc::Sender<Message>,
    task: JoinHandle<Result<W, BackupError>>,
}

/// Starts the thread.
pub(super) fn start<W: Write + Send + 'static>(
    sink: W,
    limits: Limits,
    journal: &Journal,
    ledger: &Arc<Ledger>,
) -> (Archive<W>, Records) {
    let (sender, receiver) = mpsc::channel(WAITING_BATCHES);
    let (journal, ledger) = (journal.clone(), Arc::clone(ledger));
    let task = tokio::task::spawn_blocking(move || {
        let modified = u64::try_from(Timestamp::now().as_second()).unwrap_or_default();
        let archive = ArchiveWriter::with_limits(sink, modified, limits).map_err(BackupError::Archive)?;
        Writer { archive, journal, ledger, paths: Vec::new(), body: Vec::new() }.write_all(receiver)
    });
    let records = Records { sender: sender.clone(), gathered: Mutex::default() };
    (Archive { sender, task }, records)
}

impl<W> Archive<W> {
    /// Ends the archive of a backup that did what it could, and gives the sink back. Why the archive could not be written
    /// matters more than that nobody took the records.
    pub(super) async fn close(self, filled: Result<(), BackupError>) -> Result<W, BackupError> {
        match filled {
            Ok(()) => self.finish().await,
            Err(BackupError::ArchiveClosed) => Err(self.failure().await),
            Err(error) => Err(error),
        }
    }

    async fn finish(self) -> Result<W, BackupError> {
        // A thread that has stopped already says why below.
        let _ = self.sender.send(Message::End).await;
        self.task.await.unwrap_or(Err(BackupError::ArchiveClosed))
    }

    /// Why the archive takes no more records.
    async fn failure(self) -> BackupError {
        drop(self.sender);
        match self.task.await {
            Ok(Err(error)) => error,
            _ => BackupError::ArchiveClosed,
        }
    }
}

struct Writer<W: Write> {
    archive: ArchiveWriter<W>,
    journal: Journal,
    ledger: Arc<Ledger>,
    paths: Vec<String>,
    body: Vec<u8>,
}

/// Why an item is not written.
enum Refused {
    /// For a reason of its own: all others go on.
    Item(ItemError),
    /// Nothing more can be written.
    Archive(Error),
}

impl<W: Write> Writer<W> {
    fn write_all(mut self, mut receiver: mpsc::Receiver<Message>) -> Result<W, BackupError> {
        while let Some(message) = receiver.blocking_recv() {
            match message {
                Message::Batch(batch) => {
                    for record in &batch {
                        self.write_or_tell(record)?;
                    }
                    self.ledger.publish();
                }
                Message::End => return self.archive.finish().map_err(BackupError::Archive),
            }
        }
        // All senders are gone without an end: the backup was given up. A writer dropped unfinished leaves no whole archive.
        Err(BackupError::ArchiveClosed)
    }

    fn write_or_tell(&mut self, record: &Record) -> Result<(), BackupError> {
        match self.write(record) {
            Ok(()) => Ok(()),
            Err(Refused::Archive(error)) => Err(BackupError::Archive(error)),
            Err(Refused::Item(problem)) => {
                let entry = self.journal.error().item(record.identity());
                entry.error(&problem).message("Error backing up item");
                self.ledger.fail(record.identity());
                Ok(())
            }
        }
    }

    /// Writes all copies of an item or none.
    fn write(&mut self, record: &Record) -> Result<(), Refused> {
        let planned = &record.planned;
        let (item, place) = (record.identity(), record.place());
        if let Some(other) = self.ledger.occupant(item, place) {
            return Err(Refused::Item(taken(&planned.name, &item.key(), place.key(), other)));
        }
        let body = match &record.body {
            Body::Raw(raw) => {
                self.body.clear();
                raw.write_to(&mut self.body).map_err(|error| Refused::Item(error.into()))?;
                self.body.as_slice()
            }
            Body::Changed { json, .. } => json.as_slice(),
        };
        let path =
            ItemPath { group_resource: &planned.name, version: None, namespace: place.namespace, name: place.name };
        let resource_type = &planned.resource_type;
        let copies = path.copies(&resource_type.version, resource_type.preferred);
        self.paths.clear();
        self.paths.extend(copies.map(|copy| copy.to_string()));
        for path in &self.paths {
            self.archive.check(path, body).map_err(|error| Refused::Item(ItemError::Refused(error)))?;
        }
        for path in &self.paths {
            self.archive.append(path, body).map_err(Refused::Archive)?;
        }
        self.ledger.written(item, place);
        Ok(())
    }
}

/// Why an item has no place: an action has renamed it, or the one that has its place.
fn taken(resource: &str, from: &str, place: String, other: String) -> ItemError {
    let resource = resource.to_owned();
    match from == place {
        true => ItemError::TakenBy { resource, other, place },
        false => ItemError::RenamedOnto { resource, other, place },
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;

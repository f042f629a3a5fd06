//! Packs are stored by a thread of their own, so that hashing and encrypting go on meanwhile.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use bytes::Bytes;

use crate::lock;
use crate::pack::FinishedPack;
use crate::store::BlobStore;
use crate::{Error, Result};

/// One pack is stored at a time and none waits: a pack takes up to 28 MiB of memory.
pub(super) struct PackPuts {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    failure: Mutex<Option<Error>>,
    buffers: Mutex<Vec<Vec<u8>>>,
}

enum Job {
    Put(FinishedPack),
    /// Answered once everything before is stored.
    Answer(SyncSender<()>),
}

impl PackPuts {
    pub(super) fn start(store: Arc<dyn BlobStore>) -> Self {
        let (jobs, received) = mpsc::sync_channel(0);
        let shared = Arc::new(Shared::default());
        let mine = Arc::clone(&shared);
        let thread = thread::spawn(move || work(store.as_ref(), &received, &mine));
        Self { jobs: Some(jobs), thread: Some(thread), shared }
    }

    /// A buffer for a pack, used before where possible.
    pub(super) fn buffer(&self) -> Vec<u8> {
        lock(&self.shared.buffers).pop().unwrap_or_default()
    }

    /// Gives the memory of buffers back.
    pub(super) fn release_buffers(&self) {
        lock(&self.shared.buffers).clear();
    }

    /// Hands a pack over, once the one before is stored.
    pub(super) fn put(&self, pack: FinishedPack) -> Result<()> {
        self.send(Job::Put(pack))
    }

    /// Waits until all packs are stored.
    pub(super) fn wait(&self) -> Result<()> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Job::Answer(answer))?;
        answered.recv().map_err(|_| Error::WriterFailed)?;
        self.failure()
    }

    fn send(&self, job: Job) -> Result<()> {
        self.failure()?;
        let jobs = self.jobs.as_ref().ok_or(Error::WriterFailed)?;
        jobs.send(job).map_err(|_| Error::WriterFailed)
    }

    fn failure(&self) -> Result<()> {
        lock(&self.shared.failure).take().map_or(Ok(()), Err)
    }
}

impl Drop for PackPuts {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(store: &dyn BlobStore, jobs: &Receiver<Job>, shared: &Shared) {
    let mut failed = false;
    for job in jobs {
        match job {
            Job::Put(_) if failed => {}
            Job::Put(pack) => {
                let bytes = Bytes::from(pack.bytes);
                match store.put(&pack.name, bytes.clone()) {
                    Ok(()) => {
                        let mut buffers = lock(&shared.buffers);
                        if buffers.is_empty() && bytes.is_unique() {
                            buffers.push(Vec::from(bytes));
                        }
                    }
                    Err(error) => {
                        failed = true;
                        *lock(&shared.failure) = Some(error);
                    }
                }
            }
            Job::Answer(answer) => drop(answer.send(())),
        }
    }
}

//! Packs are stored by threads of their own, so that hashing and encrypting go on meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;

use crate::pack::FinishedPack;
use crate::store::BlobStore;
use crate::{Error, Result, lock};

/// How many packs are stored at a time; none waits beside them, for a pack takes up to 20 MiB of memory. A store that is
/// some way off takes two at once in hardly more time than one.
const AT_ONCE: usize = 2;

/// The packs that are on their way into the store.
pub(super) struct PackPuts {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    /// The word that a session began, until a thread takes it.
    marker: Option<(String, Bytes)>,
    /// Whether that word is not stored yet.
    unmarked: bool,
    packs: VecDeque<FinishedPack>,
    /// How many are being stored or wait for a thread.
    under_way: usize,
    /// How many of them have directories.
    without_data: usize,
    failure: Option<Error>,
    /// Nothing is stored any more.
    failed: bool,
    closed: bool,
    /// Memory of packs that are stored, for the next ones.
    buffers: Vec<Vec<u8>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn wait_while(&self, condition: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        self.moved.wait_while(self.state(), |state| condition(state)).unwrap_or_else(PoisonError::into_inner)
    }
}

impl PackPuts {
    pub(super) fn start(store: &Arc<dyn BlobStore>) -> Self {
        let shared = Arc::new(Shared::default());
        let threads = (0..AT_ONCE).map(|_| {
            let (store, mine) = (Arc::clone(store), Arc::clone(&shared));
            thread::spawn(move || work(store.as_ref(), &mine))
        });
        Self { threads: threads.collect(), shared }
    }

    /// A buffer for a pack, used before where possible. It has room for all of it from the start: to grow it would hold it
    /// twice, and memory that is not written to costs nothing.
    pub(super) fn buffer(&self, room: usize) -> Vec<u8> {
        self.shared.state().buffers.pop().unwrap_or_else(|| Vec::with_capacity(room))
    }

    /// Gives the memory of buffers back.
    pub(super) fn release_buffers(&self) {
        self.shared.state().buffers.clear();
    }

    /// Hands over the marker of a session: its packs follow once it is stored.
    pub(super) fn put_marker(&self, name: String, content: Bytes) -> Result<()> {
        let mut state = self.shared.state();
        take_failure(&mut state)?;
        state.marker = Some((name, content));
        state.unmarked = true;
        self.shared.moved.notify_all();
        Ok(())
    }

    /// Hands a pack over, once not too many are under way.
    pub(super) fn put(&self, pack: FinishedPack) -> Result<()> {
        let mut state = self.shared.wait_while(|state| state.under_way >= AT_ONCE);
        take_failure(&mut state)?;
        state.under_way += 1;
        state.without_data += usize::from(!has_data(&pack.name));
        state.packs.push_back(pack);
        self.shared.moved.notify_all();
        Ok(())
    }

    /// Waits for the packs of directories: only folders of very many files have large ones, and to fill the next meanwhile
    /// would take the memory of another.
    pub(super) fn wait_for_directories(&self) -> Result<()> {
        take_failure(&mut self.shared.wait_while(|state| state.without_data > 0))
    }

    /// Waits until the marker and all packs are stored.
    pub(super) fn wait(&self) -> Result<()> {
        take_failure(&mut self.shared.wait_while(|state| state.unmarked || state.under_way > 0))
    }
}

fn take_failure(state: &mut State) -> Result<()> {
    match state.failure.take() {
        Some(error) => Err(error),
        None if state.failed => Err(Error::WriterFailed),
        None => Ok(()),
    }
}

impl Drop for PackPuts {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.moved.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Whether a pack has the data of files; the next of them is as long again.
fn has_data(name: &str) -> bool {
    name.starts_with('p')
}

fn work(store: &dyn BlobStore, shared: &Shared) {
    loop {
        let idle = |state: &State| state.marker.is_none() && state.packs.is_empty() && !state.closed;
        let mut state = shared.wait_while(idle);
        if let Some((name, content)) = state.marker.take() {
            drop(state);
            let stored = store.put(&name, content);
            let mut state = shared.state();
            state.unmarked = false;
            note(&mut state, stored);
        } else if let Some(pack) = state.packs.pop_front() {
            let failed = state.failed;
            drop(state);
            put_pack(store, shared, pack, failed);
        } else {
            return;
        }
        shared.moved.notify_all();
    }
}

/// Stores a pack, which is seen once the marker is.
fn put_pack(store: &dyn BlobStore, shared: &Shared, pack: FinishedPack, failed: bool) {
    let (bytes, has_data) = (Bytes::from(pack.bytes), has_data(&pack.name));
    let mut marked = || {
        let failed = shared.wait_while(|state| state.unmarked).failed;
        if failed { Err(Error::WriterFailed) } else { Ok(()) }
    };
    let stored = if failed { Ok(()) } else { store.put_after(&pack.name, bytes.clone(), &mut marked) };
    let mut state = shared.state();
    state.under_way -= 1;
    state.without_data -= usize::from(!has_data);
    let is_stored = stored.is_ok();
    note(&mut state, stored);
    if is_stored && has_data && bytes.is_unique() && state.buffers.len() < AT_ONCE {
        state.buffers.push(Vec::from(bytes));
    }
}

/// The first failure is the one that is told.
fn note(state: &mut State, stored: Result<()>) {
    if let Err(error) = stored {
        state.failed = true;
        state.failure.get_or_insert(error);
    }
}

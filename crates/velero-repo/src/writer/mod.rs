//! Writes contents: into packs, then an index blob that names them.
//!
//! ```text
//! write ── hash ── known? ── encrypt ── pack ── put of the pack when it is full
//! flush ── manifests ── the last packs ── index blob, seen when all packs are there ── session marker removed
//! ```
//!
//! Whatever fails and wherever it dies, the repository stays valid: nothing is visible before the index blob is there, and
//! what nobody names is removed by maintenance. After a failure a writer writes no more.

pub(crate) mod index_put;
mod manifests;
mod pending;
mod puts;
mod session;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use jiff::Timestamp;

use crate::clock::{Clock, has_passed};
use crate::compression;
use crate::compressor::Compressor;
use crate::content_id::ContentId;
use crate::index::{ContentEntry, IndexBytes, RawIndex};
use crate::lock;
use crate::manifest::Manifest;
use crate::object::ContentSource as _;
use crate::pack::PackBuilder;
use crate::{Error, Repository, Result};
use index_put::{Listed, NewIndex, put_index};
use pending::Pending;
use puts::PackPuts;
use session::Session;

/// After how many seconds of writing an index blob is due.
const FLUSH_AFTER: i64 = 10 * 60;
/// After how many entries one is due: they take 64 bytes each.
const MOST_PENDING: usize = 100_000;
/// Up to how many entries an index is made while the last packs are being stored; a larger one would need memory beside them.
const SMALL_INDEX: usize = 10_000;
/// After how many seconds the index is looked at again.
const REFRESH_AFTER: i64 = 15 * 60;

/// Writes contents and manifests. Shared freely between threads; its methods block.
///
/// Nothing is visible to others before [`Self::flush`]. A writer that is dropped without it leaves packs and a marker for
/// maintenance to remove.
pub struct ContentWriter<'a> {
    repository: &'a Repository,
    clock: Clock,
    /// Held by all who add, and alone by who flushes.
    gate: RwLock<()>,
    batch: Mutex<Batch>,
    /// File data, and everything that has a prefix letter.
    packs: [Mutex<Option<PackBuilder>>; 2],
    puts: PackPuts,
    /// The memory of compressions, for the next ones.
    compressors: Mutex<Vec<Compressor>>,
    failed: AtomicBool,
    stored_bytes: AtomicU64,
    stored_contents: AtomicU64,
}

struct Batch {
    session: Option<Session>,
    pending: Pending,
    manifests: Vec<Manifest>,
    /// When the first entry came.
    began: Option<Timestamp>,
    /// When the index was last looked at.
    refreshed: Timestamp,
    epochs: Option<Listed>,
}

/// When a pack is full. It is closed before a content that would make it longer, unless it were so short then that others
/// rewrite it: packs are what takes the memory of a backup.
fn full(longest: u64) -> u64 {
    longest / 5 * 4
}

/// Below this others take a pack for too short and write its contents anew.
fn long_enough(longest: u64) -> u64 {
    longest / 5 * 3
}

/// What a writer has stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// How many contents were new.
    pub contents: u64,
    /// How many bytes they take in packs.
    pub bytes: u64,
}

/// What an entry says about a content that is added.
#[derive(Clone, Copy)]
struct NewContent {
    id: ContentId,
    timestamp: u32,
    deleted: bool,
}

impl<'a> ContentWriter<'a> {
    /// A writer; it looks at the index again first when that is old.
    pub fn new(repository: &'a Repository, clock: Clock) -> Result<Self> {
        if !repository.blob_config().retention_mode.is_empty() {
            return Err(Error::Unsupported(
                "its blobs are under retention (object lock), which is not written here".to_owned(),
            ));
        }
        repository.fresh_index()?;
        let refreshed = clock();
        Ok(Self {
            puts: PackPuts::start(repository.store()),
            repository,
            clock,
            gate: RwLock::new(()),
            batch: Mutex::new(Batch {
                session: None,
                pending: Pending::default(),
                manifests: Vec::new(),
                began: None,
                refreshed,
                epochs: None,
            }),
            packs: [Mutex::new(None), Mutex::new(None)],
            compressors: Mutex::default(),
            failed: AtomicBool::new(false),
            stored_bytes: AtomicU64::new(0),
            stored_contents: AtomicU64::new(0),
        })
    }

    /// The repository.
    pub fn repository(&self) -> &'a Repository {
        self.repository
    }

    /// The time by the clock of this writer.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// What was stored so far.
    pub fn written(&self) -> Written {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Written { contents: read(&self.stored_contents), bytes: read(&self.stored_bytes) }
    }

    /// Stores a content unless it is known. With `compress` it is compressed where that pays.
    pub fn write(&self, prefix: Option<char>, data: &[u8], compress: bool) -> Result<ContentId> {
        self.write_in_place(prefix, &mut data.to_vec(), compress)
    }

    /// The same without a copy; `data` holds something else afterwards.
    pub fn write_in_place(&self, prefix: Option<char>, data: &mut [u8], compress: bool) -> Result<ContentId> {
        self.tend()?;
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.write_unless_known(prefix, data, compress)
    }

    fn write_unless_known(&self, prefix: Option<char>, data: &mut [u8], compress: bool) -> Result<ContentId> {
        self.check()?;
        let hash = self.repository.format().sealer.hash(data);
        let id = match prefix {
            None => ContentId::data(hash),
            Some(letter) => ContentId::with_prefix(letter, hash)
                .ok_or_else(|| Error::malformed("a content", format!("{letter:?} is no prefix")))?,
        };
        let is_there = |batch: &Batch| batch.pending.state(id).is_some_and(|(_, deleted)| !deleted);
        if is_there(&self.batch()) {
            return Ok(id);
        }
        let known = self.repository.find(id)?;
        if known.is_some_and(|entry| !entry.deleted) && self.batch().pending.state(id).is_none() {
            return Ok(id);
        }
        let timestamp = {
            let mut batch = self.batch();
            if is_there(&batch) {
                return Ok(id);
            }
            let timestamp = self.timestamp(&mut batch, id, known.as_ref());
            batch.pending.reserve(id, timestamp);
            timestamp
        };
        self.noting_failure(|| self.add(NewContent { id, timestamp, deleted: false }, data, compress))?;
        Ok(id)
    }

    /// Marks a content as deleted; it stays readable until the watermark passes. `false` when it is not there.
    pub fn delete(&self, id: ContentId) -> Result<bool> {
        self.tend()?;
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.mark_deleted(id)
    }

    fn mark_deleted(&self, id: ContentId) -> Result<bool> {
        self.check()?;
        let loaded = self.repository.index();
        let known = loaded.index.find(id)?;
        let mut batch = self.batch();
        let (entry, pack) = match (batch.pending.get(id), known.as_ref()) {
            (Some((entry, pack)), _) => (entry, pack.to_owned()),
            (None, Some(entry)) => (*entry, loaded.index.pack_name(entry.pack).to_owned()),
            (None, None) => return Ok(false),
        };
        if !entry.deleted {
            let timestamp = self.timestamp(&mut batch, id, known.as_ref());
            batch.pending.put(&ContentEntry { deleted: true, timestamp, ..entry }, &pack);
        }
        Ok(true)
    }

    /// Stores a content again in a new pack; whether it is marked as deleted stays as it is.
    pub fn rewrite(&self, id: ContentId) -> Result<()> {
        self.store_again(id, None)
    }

    /// Stores a content again, no longer marked as deleted.
    pub fn undelete(&self, id: ContentId) -> Result<()> {
        self.store_again(id, Some(false))
    }

    fn store_again(&self, id: ContentId, deleted: Option<bool>) -> Result<()> {
        self.tend()?;
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        let missing = || Error::ContentNotFound { content: id.to_string() };
        let mut data = Vec::from(self.repository.content(id)?);
        let known = self.repository.find(id)?.ok_or_else(missing)?;
        let deleted = deleted.unwrap_or(known.deleted);
        let timestamp = {
            let mut batch = self.batch();
            if batch.pending.get(id).is_some_and(|(entry, _)| entry.deleted == deleted) {
                return Ok(());
            }
            let timestamp = self.timestamp(&mut batch, id, Some(&known));
            batch.pending.reserve(id, timestamp);
            timestamp
        };
        let compress = known.compression != compression::NONE;
        self.noting_failure(|| self.add(NewContent { id, timestamp, deleted }, &mut data, compress))
    }

    /// The time of a new entry: later than every other of its content, and than all that is gone.
    fn timestamp(&self, batch: &mut Batch, id: ContentId, known: Option<&ContentEntry>) -> u32 {
        let now = self.now();
        batch.began.get_or_insert(now);
        let pending = batch.pending.state(id).map(|(timestamp, _)| timestamp);
        let before = known.map(|entry| entry.timestamp).max(pending);
        let watermark = self.repository.index().epochs.watermark.unwrap_or(0);
        let least = before.map_or(0, |before| i64::from(before) + 1).max(watermark + 1);
        u32::try_from(now.as_second().max(least)).unwrap_or(u32::MAX)
    }

    /// Encrypts a content and appends it to its pack; a pack that is full is stored.
    fn add(&self, new: NewContent, data: &mut [u8], compress: bool) -> Result<()> {
        let original_length = u32::try_from(data.len()).ok().filter(|length| length >> 28 == 0);
        let original_length =
            original_length.ok_or_else(|| Error::malformed(format!("content {}", new.id), "it is too long"))?;
        let session = self.session()?;
        let (compression, body) = match if compress { self.compress(new.id, data)? } else { None } {
            Some(length) => (compression::ZSTD_FASTEST, &mut data[..length]),
            None => (compression::NONE, data),
        };
        let format = self.repository.format();
        let seal = format.sealer.seal_in_place(new.id.hash(), body);
        let seal = seal.map_err(|error| Error::malformed(format!("content {}", new.id), error))?;
        let entry = ContentEntry {
            id: new.id,
            timestamp: new.timestamp,
            deleted: new.deleted,
            pack: 0,
            offset: 0,
            packed_length: 0,
            original_length,
            compression,
            format_version: format.parameters.version as u8,
            key_id: 0,
        };
        let kind = usize::from(new.id.prefix().is_some());
        let mut slot = lock(&self.packs[kind]);
        let longest = format.parameters.max_pack_size;
        let length = slot.as_ref().map_or(0, PackBuilder::len) as u64;
        if length >= long_enough(longest) && length + body.len() as u64 > full(longest) {
            self.store_full_pack(&mut slot, kind)?;
        }
        let letter = if kind == 0 { 'p' } else { 'q' };
        // Packs of file data fill their buffers; the others are small, and would hold on to large ones.
        // What fills it may have 8 MiB, and its index comes behind.
        let room = long_enough(longest) as usize + (9 << 20);
        let buffer = || if kind == 0 { self.puts.buffer(room) } else { Vec::new() };
        let pack = slot.get_or_insert_with(|| PackBuilder::with_buffer(letter, &session, buffer(), room));
        let entry = pack.add(entry, &[&seal.nonce, body, &seal.tag]);
        self.stored_contents.fetch_add(1, Ordering::Relaxed);
        self.stored_bytes.fetch_add(u64::from(entry.packed_length), Ordering::Relaxed);
        self.batch().pending.put(&entry, pack.name());
        // The lock is held while the pack is handed over: no further one is begun before this one has its turn.
        if pack.len() as u64 >= full(longest) {
            self.store_full_pack(&mut slot, kind)?;
        }
        Ok(())
    }

    /// Compresses a content where it lies, if it pays; how long it is then.
    fn compress(&self, id: ContentId, data: &mut [u8]) -> Result<Option<usize>> {
        let failed = |error| Error::malformed(format!("content {id}"), format!("it cannot be compressed: {error}"));
        let used_before = lock(&self.compressors).pop();
        let mut compressor = used_before.map_or_else(Compressor::new, Ok).map_err(failed)?;
        let length = compressor.compress_in_place(data).map_err(failed)?;
        lock(&self.compressors).push(compressor);
        Ok(length)
    }

    /// Stores a pack after which another may be filled.
    fn store_full_pack(&self, slot: &mut Option<PackBuilder>, kind: usize) -> Result<()> {
        self.store_pack(slot)?;
        if kind == 0 { Ok(()) } else { self.puts.wait_for_directories() }
    }

    fn store_pack(&self, slot: &mut Option<PackBuilder>) -> Result<()> {
        match slot.take() {
            Some(pack) if !pack.is_empty() => self.puts.put(pack.finish(&self.repository.format().sealer)?),
            _ => Ok(()),
        }
    }

    /// The id of the session; its marker is stored before any pack, and meanwhile the first one is filled.
    fn session(&self) -> Result<String> {
        let mut batch = self.batch();
        if let Some(session) = &batch.session {
            return Ok(session.id.clone());
        }
        let (session, content) = Session::new(&self.repository.format().sealer, self.now())?;
        self.puts.put_marker(session.marker.clone(), content)?;
        let id = session.id.clone();
        batch.session = Some(session);
        Ok(id)
    }

    /// Makes everything that was written visible to all.
    pub fn flush(&self) -> Result<()> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        self.noting_failure(|| self.commit())
    }

    /// Flushes and looks at the index again when that is due.
    fn tend(&self) -> Result<()> {
        let now = self.now();
        let (flush, refresh) = {
            let batch = self.batch();
            let old = batch.began.is_some_and(|began| has_passed(began, now, FLUSH_AFTER));
            (old || batch.pending.len() >= MOST_PENDING, has_passed(batch.refreshed, now, REFRESH_AFTER))
        };
        if flush || refresh {
            let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
            self.check()?;
            // Another thread may have done it while this one waited.
            let (began, pending, refreshed) = {
                let batch = self.batch();
                (batch.began, batch.pending.len(), batch.refreshed)
            };
            if began.is_some_and(|began| has_passed(began, now, FLUSH_AFTER)) || pending >= MOST_PENDING {
                self.noting_failure(|| self.commit())?;
            } else if has_passed(refreshed, now, REFRESH_AFTER) {
                self.repository.refresh()?;
                self.batch().refreshed = now;
            }
        }
        Ok(())
    }

    /// All of a flush; nobody adds meanwhile.
    fn commit(&self) -> Result<()> {
        self.write_manifests()?;
        for slot in &self.packs {
            self.store_pack(&mut lock(slot))?;
        }
        let pending = self.batch().pending.len();
        if pending == 0 || pending > SMALL_INDEX {
            self.wait_for_packs()?;
        }
        if pending == 0 {
            return Ok(());
        }
        let session = self.session()?;
        let (plain, state) = {
            let mut batch = self.batch();
            (batch.pending.to_index()?, batch.epochs.take())
        };
        let (store, sealer) = (self.repository.store().as_ref(), &self.repository.format().sealer);
        let hash = sealer.hash(&plain);
        let new = NewIndex { hash: &hash, session: &session, sealed: sealer.seal(&hash, &plain).into() };
        let stored = put_index(store, &self.clock, state, &new, &mut || self.wait_for_packs())?;
        let ended = {
            let mut batch = self.batch();
            batch.pending = Pending::default();
            batch.began = None;
            batch.refreshed = self.now();
            batch.session.take()
        };
        if let Some(session) = ended {
            session.end(store);
        }
        let written = RawIndex::open(IndexBytes::Memory(plain.into()), &stored.name)?;
        let epochs = stored.listed.epochs.clone();
        let taken_up = self.repository.take_up(epochs, stored.listed.at, &stored.name, &written);
        let mut batch = self.batch();
        if let Err(error) = taken_up {
            tracing::warn!(%error, "what was written is stored, but the index could not be loaded again yet");
            batch.refreshed = Timestamp::UNIX_EPOCH;
        }
        batch.epochs = Some(stored.listed);
        Ok(())
    }

    /// Waits for the packs, which no power cut takes back then, and gives their memory back.
    fn wait_for_packs(&self) -> Result<()> {
        self.puts.wait()?;
        self.puts.release_buffers();
        self.repository.store().settle()
    }

    fn batch(&self) -> MutexGuard<'_, Batch> {
        lock(&self.batch)
    }

    fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { Err(Error::WriterFailed) } else { Ok(()) }
    }

    /// What was half done cannot be told from what was done, so the first failure is the last thing that happens.
    fn noting_failure<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        work().inspect_err(|_| self.failed.store(true, Ordering::Release))
    }
}

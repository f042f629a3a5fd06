//! An open repository.

mod cache;
mod content;
mod create;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::content_id::ContentId;
use crate::crypto::Sealer;
use crate::epoch::{self, EpochState};
use crate::format::{BLOB_CONFIG_BLOB, BlobConfig, Format, REPOSITORY_BLOB};
use crate::index::{ContentEntry, Index, IndexMerger, RawIndex, merge_two, open_index_blob};
use crate::manifest::{self, Collected, Manifest, SNAPSHOT, Snapshot};
use crate::object::{ContentSource, ObjectId, ObjectReader};
use crate::store::{BlobInfo, BlobStore, get_exactly, list_all};
use crate::{Error, Result, parallel};

pub(crate) use content::open_content;
pub use create::{
    INITIALISED_BLOB, LogRetention, MAINTENANCE, MaintenanceCycle, MaintenanceParameters, RepositoryState,
    repository_state,
};

/// How many requests are under way while indexes are loaded.
const AT_ONCE: usize = 8;
/// After how long an index must be looked at again: maintenance removes what it replaced an hour later.
const REFRESH_AFTER: Duration = Duration::from_secs(15 * 60);
/// How often a load begins anew because blobs vanished between the list and the read.
const RETRIES: u32 = 10;

/// The index at one moment.
pub struct LoadedIndex {
    /// All contents.
    pub index: Arc<Index>,
    /// The epochs and their blobs.
    pub epochs: EpochState,
    blobs: BTreeSet<String>,
    /// When its list was begun.
    pub listed: Instant,
}

/// A repository whose keys and index are loaded. Shared freely between threads; its methods block.
pub struct Repository {
    store: Arc<dyn BlobStore>,
    format: Format,
    blob_config: BlobConfig,
    loaded: RwLock<Arc<LoadedIndex>>,
    cache: cache::BlockCache,
}

impl Repository {
    /// Opens the repository in a store.
    pub fn open(store: Arc<dyn BlobStore>, password: &str) -> Result<Self> {
        let place = store.place();
        let content = store.get(REPOSITORY_BLOB).map_err(|error| {
            if error.is_blob_not_found() { Error::NoRepository { place: place.clone() } } else { error }
        })?;
        Self::open_with(store, Format::open(&content, password, &place)?)
    }

    /// Opens a repository whose format is known already, without deriving its keys again.
    pub fn open_with(store: Arc<dyn BlobStore>, format: Format) -> Result<Self> {
        let blob_config = match store.get(BLOB_CONFIG_BLOB) {
            Ok(content) => BlobConfig::open(&content, &format.keys)?,
            Err(error) if error.is_blob_not_found() => BlobConfig::default(),
            Err(error) => return Err(error),
        };
        let loaded = load_index(store.as_ref(), &format.sealer)?;
        let cache = cache::BlockCache::default();
        Ok(Self { store, format, blob_config, loaded: RwLock::new(Arc::new(loaded)), cache })
    }

    /// Opens a repository with what can be read of its indexes, and says what cannot.
    pub(crate) fn open_damaged(store: Arc<dyn BlobStore>, format: Format) -> Result<(Self, Vec<Error>)> {
        let mut problems = Vec::new();
        let blob_config = match store.get(BLOB_CONFIG_BLOB).and_then(|content| BlobConfig::open(&content, &format.keys))
        {
            Ok(config) => config,
            Err(error @ Error::Store { .. }) => return Err(error),
            Err(error) => {
                problems.extend(Some(error).filter(|error| !error.is_blob_not_found()));
                BlobConfig::default()
            }
        };
        let (listed, epochs) = (Instant::now(), list_epochs(store.as_ref())?);
        let mut merger = IndexMerger::new(epochs.watermark);
        for blob in epochs.complete_index_set() {
            match open_checked_index(store.as_ref(), &format.sealer, blob) {
                Ok(index) => merger.add(index)?,
                Err(error @ Error::Store { .. }) => return Err(error),
                Err(error) => problems.push(error),
            }
        }
        let loaded = LoadedIndex { index: Arc::new(merger.finish()?), blobs: blob_names(&epochs), epochs, listed };
        let loaded = RwLock::new(Arc::new(loaded));
        Ok((Self { store, format, blob_config, loaded, cache: cache::BlockCache::default() }, problems))
    }

    /// The blobs.
    pub fn store(&self) -> &Arc<dyn BlobStore> {
        &self.store
    }

    /// The keys and parameters.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The retention of blobs.
    pub fn blob_config(&self) -> &BlobConfig {
        &self.blob_config
    }

    /// The index as it was last loaded.
    pub fn index(&self) -> Arc<LoadedIndex> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Loads the index again if other blobs make it up by now.
    pub fn refresh(&self) -> Result<Arc<LoadedIndex>> {
        let listed = Instant::now();
        let epochs = list_epochs(self.store.as_ref())?;
        let current = self.index();
        let blobs = blob_names(&epochs);
        let loaded = if epochs.watermark == current.epochs.watermark && blobs == current.blobs {
            LoadedIndex { index: Arc::clone(&current.index), epochs, blobs, listed }
        } else {
            load_index(self.store.as_ref(), &self.format.sealer)?
        };
        let loaded = Arc::new(loaded);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&loaded);
        Ok(loaded)
    }

    /// Takes up an index blob that was just written here, without reading anything again unless others wrote too.
    pub(crate) fn take_up(&self, epochs: EpochState, listed: Instant, name: &str, written: &RawIndex) -> Result<()> {
        let current = self.index();
        let blobs = blob_names(&epochs);
        let same_but_written = blobs.contains(name) && blobs.len() == current.blobs.len() + 1 && {
            epochs.watermark == current.epochs.watermark && current.blobs.is_subset(&blobs)
        };
        if !same_but_written {
            return self.refresh().map(|_| ());
        }
        let index = Arc::new(merge_two(&current.index, written, epochs.watermark)?);
        let loaded = Arc::new(LoadedIndex { index, epochs, blobs, listed });
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    /// The index, loaded again when it is too old to be relied on.
    pub fn fresh_index(&self) -> Result<Arc<LoadedIndex>> {
        let current = self.index();
        if current.listed.elapsed() < REFRESH_AFTER { Ok(current) } else { self.refresh() }
    }

    /// All manifests that are wanted, the oldest first.
    pub fn manifests(&self, wanted: &dyn Fn(&Manifest) -> bool) -> Result<Vec<Manifest>> {
        let loaded = self.index();
        let mut entries = Vec::new();
        for entry in loaded.index.entries_with_prefix(manifest::PREFIX) {
            entries.extend(Some(entry?).filter(|entry| !entry.deleted));
        }
        entries.sort_by_key(|entry| (entry.pack, entry.offset));
        let mut collected = Collected::new(wanted);
        for entry in entries {
            let content = self.content_of(&loaded.index, &entry)?;
            let what = format!("content {}", entry.id);
            manifest::for_each_in(&content, &what, |manifest| {
                collected.take(manifest);
                Ok(())
            })?;
        }
        Ok(collected.finish())
    }

    /// All snapshots, the oldest first.
    pub fn snapshots(&self) -> Result<Vec<(String, Snapshot)>> {
        let manifests = self.manifests(&|manifest| manifest.has_labels(&[("type", SNAPSHOT)]))?;
        manifests.into_iter().map(|manifest| Ok((manifest.id.clone(), manifest.snapshot()?))).collect()
    }

    /// The snapshot with an id.
    pub fn snapshot(&self, id: &str) -> Result<Snapshot> {
        let found = self.manifests(&|manifest| manifest.id == id)?;
        found.last().ok_or_else(|| Error::SnapshotNotFound { id: id.to_owned() })?.snapshot()
    }

    /// An object as a stream.
    pub fn object(&self, object: ObjectId) -> Result<ObjectReader<'_>> {
        ObjectReader::open(self, object)
    }

    /// Where a content is.
    pub fn find(&self, id: ContentId) -> Result<Option<ContentEntry>> {
        self.index().index.find(id)
    }

    /// The bytes of a content whose entry is known.
    pub(crate) fn content_of(&self, index: &Index, entry: &ContentEntry) -> Result<Bytes> {
        let pack = index.pack_name(entry.pack);
        let (offset, length) = (u64::from(entry.offset), entry.packed_length as usize);
        // Contents with a prefix are small and read one after the other; data is not read twice.
        let sealed = match entry.id.prefix() {
            Some(_) => self.cache.read(self.store.as_ref(), pack, offset, length)?,
            None => get_exactly(self.store.as_ref(), pack, offset, length)?,
        };
        content::open_content(&self.format.sealer, entry, pack, sealed.into())
    }
}

impl ContentSource for Repository {
    /// Looks at the index again once when the content or its pack is not there: maintenance may have moved it.
    fn content(&self, id: ContentId) -> Result<Bytes> {
        let read = |loaded: &LoadedIndex| {
            let entry = loaded.index.find(id)?.ok_or_else(|| Error::ContentNotFound { content: id.to_string() })?;
            self.content_of(&loaded.index, &entry)
        };
        match read(&self.index()) {
            Err(Error::BlobNotFound { .. }) => read(self.refresh()?.as_ref()),
            outcome => outcome,
        }
    }
}

pub(crate) fn list_epochs(store: &dyn BlobStore) -> Result<EpochState> {
    Ok(EpochState::from_blobs(list_all(store, epoch::PREFIX)?))
}

fn blob_names(epochs: &EpochState) -> BTreeSet<String> {
    epochs.complete_index_set().into_iter().map(|blob| blob.id.clone()).collect()
}

/// An index blob every entry of which was looked at.
pub(crate) fn open_checked_index(store: &dyn BlobStore, sealer: &Sealer, blob: &BlobInfo) -> Result<RawIndex> {
    let index = open_index_blob(store, sealer, blob)?;
    index.entries().try_for_each(|entry| entry.map(|_| ()))?;
    Ok(index)
}

/// Loads the complete index, from the start again when blobs vanish meanwhile.
fn load_index(store: &dyn BlobStore, sealer: &Sealer) -> Result<LoadedIndex> {
    let mut pause = Duration::from_millis(100);
    for _ in 0..RETRIES {
        match try_load_index(store, sealer) {
            Err(error) if error.is_blob_not_found() => {
                tracing::debug!(%error, "an index blob was replaced while it was read; listing again");
                std::thread::sleep(pause);
                pause *= 2;
            }
            outcome => return outcome,
        }
    }
    try_load_index(store, sealer)
}

fn try_load_index(store: &dyn BlobStore, sealer: &Sealer) -> Result<LoadedIndex> {
    let listed = Instant::now();
    let epochs = list_epochs(store)?;
    let blobs: Vec<BlobInfo> = epochs.complete_index_set().into_iter().cloned().collect();
    let mut merger = IndexMerger::new(epochs.watermark);
    parallel::for_each(AT_ONCE, &blobs, |blob| open_index_blob(store, sealer, blob), |index| merger.add(index))?;
    Ok(LoadedIndex { index: Arc::new(merger.finish()?), blobs: blob_names(&epochs), epochs, listed })
}

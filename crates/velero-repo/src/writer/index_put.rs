//! Stores an index blob in the epoch it belongs to.
//!
//! Whoever writes to an epoch that is settled writes into the void: once its compaction is there, nobody reads its other
//! blobs. So the state of epochs is young when a put begins, and looked at again after it.

use std::time::Instant;

use bytes::Bytes;
use jiff::Timestamp;

use crate::clock::has_passed;
use crate::content_id::Hash;
use crate::epoch::EpochState;
use crate::repository::list_epochs;
use crate::store::BlobStore;
use crate::{Clock, Error, Result, hex};

/// How old the state may be when a put begins, in seconds.
const YOUNG: i64 = 5 * 60;
/// How long a list may be used, from its beginning on.
const VALID: i64 = 20 * 60;
/// How often a list that took too long is made again.
const TRIES: u32 = 5;

/// The state of epochs and when its list was begun.
pub(crate) struct Listed {
    pub(crate) epochs: EpochState,
    pub(crate) at: Instant,
    began: Timestamp,
}

/// A stored index blob.
pub(crate) struct StoredIndex {
    pub(crate) name: String,
    pub(crate) listed: Listed,
}

fn list(store: &dyn BlobStore, clock: &Clock) -> Result<Listed> {
    for _ in 0..TRIES {
        let (at, began) = (Instant::now(), clock());
        let epochs = list_epochs(store)?;
        if !has_passed(began, clock(), VALID) {
            return Ok(Listed { epochs, at, began });
        }
    }
    let slow = "listing the indexes takes longer than a list may be used";
    Err(Error::Store { action: "list", blob: crate::epoch::PREFIX.to_owned(), source: slow.into() })
}

/// An index that is to be stored.
pub(crate) struct NewIndex<'a> {
    /// The hash of its plain bytes.
    pub(crate) hash: &'a Hash,
    /// Who wrote what it names.
    pub(crate) session: &'a str,
    /// What is stored.
    pub(crate) sealed: Bytes,
}

/// Stores an index once `packs` says that all it names is there. The state is used if it is young enough.
pub(crate) fn put_index(
    store: &dyn BlobStore,
    clock: &Clock,
    mut state: Option<Listed>,
    new: &NewIndex<'_>,
    packs: &mut dyn FnMut() -> Result<()>,
) -> Result<StoredIndex> {
    let is_young = |state: &Listed| !has_passed(state.began, clock(), YOUNG);
    let (epoch, name) = loop {
        let young = state.take().filter(is_young).map_or_else(|| list(store, clock), Ok)?;
        let epoch = young.epochs.write_epoch;
        let name = format!("xn{epoch}_{}-{}-c1", hex::encode(new.hash), new.session);
        let mut waited_too_long = false;
        let put = store.put_after(&name, new.sealed.clone(), &mut || {
            packs()?;
            waited_too_long = !is_young(&young);
            if waited_too_long { Err(Error::Canceled) } else { Ok(()) }
        });
        if !waited_too_long {
            // An answer that is lost can mean that the blob is there.
            put.inspect_err(|_| withdraw(store, &name))?;
            break (epoch, name);
        }
    };
    store.settle().inspect_err(|_| withdraw(store, &name))?;
    let listed = list(store, clock).inspect_err(|_| withdraw(store, &name))?;
    let current = listed.epochs.write_epoch;
    if listed.epochs.is_settled(epoch) {
        withdraw(store, &name);
        return Err(Error::EpochClosed { epoch, current });
    }
    Ok(StoredIndex { name, listed })
}

/// Removes an index blob nobody may rely on. If that fails too it stays: what it names exists.
fn withdraw(store: &dyn BlobStore, name: &str) {
    if let Err(error) = store.delete(name) {
        tracing::warn!(%error, blob = name, "an index blob that was given up could not be removed");
    }
}

//! The word that a writer is at work: packs that no index names yet are not garbage.

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;

use crate::crypto::Sealer;
use crate::store::BlobStore;
use crate::{Result, blob_name, hex};

/// One batch of writes, from its first pack to its index.
pub(super) struct Session {
    pub(super) id: String,
    /// The blob that says so.
    pub(super) marker: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Marker<'a> {
    id: &'a str,
    start_time: Timestamp,
    checkpoint_time: Timestamp,
    username: &'a str,
    hostname: &'a str,
}

impl Session {
    /// A new session, and the content of its marker.
    pub(super) fn new(sealer: &Sealer, now: Timestamp) -> Result<(Self, Bytes)> {
        let id = blob_name::new_session_id(now.as_second());
        let marker = Marker {
            id: &id,
            start_time: now,
            checkpoint_time: now,
            username: crate::manifest::CLIENT,
            hostname: crate::manifest::CLIENT,
        };
        let plain = crate::go_json::to_vec(&marker).map_err(|error| crate::Error::malformed("a session", error))?;
        let hash = sealer.hash(&plain);
        let marker = format!("s{}-{id}", hex::encode(&hash));
        Ok((Self { id, marker }, sealer.seal(&hash, &plain).into()))
    }

    /// Removes the marker: an index names the packs now. One that stays is removed by maintenance.
    pub(super) fn end(self, store: &dyn BlobStore) {
        if let Err(error) = store.delete(&self.marker) {
            tracing::warn!(%error, blob = self.marker, "the marker of a finished session could not be removed");
        }
    }
}

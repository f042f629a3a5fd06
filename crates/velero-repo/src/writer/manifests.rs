//! Manifests wait until the flush: then they become one content.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;

use super::ContentWriter;
use crate::manifest::{self, Labels, Manifest};
use crate::{Error, Result, crypto, go_json, hex};

/// From how many contents on manifests are written into one.
const COMPACT_FROM: usize = 16;

impl ContentWriter<'_> {
    /// Adds a manifest, visible after the flush. Returns its id. The label `type` is mandatory.
    pub fn put_manifest(&self, labels: Labels, data: &impl Serialize) -> Result<String> {
        self.put_manifest_at(labels, data, self.now())
    }

    fn put_manifest_at(&self, labels: Labels, data: &impl Serialize, modified: Timestamp) -> Result<String> {
        if labels.get("type").is_none_or(String::is_empty) {
            return Err(Error::malformed("a manifest", "it has no label \"type\""));
        }
        let wrong = |error: &dyn std::fmt::Display| Error::malformed("a manifest", error);
        let json = go_json::to_vec(data).map_err(|error| wrong(&error))?;
        let json = String::from_utf8(json).map_err(|error| wrong(&error))?;
        let data = Some(RawValue::from_string(json).map_err(|error| wrong(&error))?);
        let id = hex::encode(&crypto::random::<16>());
        let manifest = Manifest { id: id.clone(), labels: Some(labels), modified, deleted: false, data };
        self.add_manifest(manifest);
        Ok(id)
    }

    /// Removes a manifest with the next flush; `false` when it is not there.
    pub fn delete_manifest(&self, id: &str) -> Result<bool> {
        Ok(self.delete_manifests(&|manifest| manifest.id == id)? > 0)
    }

    /// Removes all manifests that are wanted removed, and says how many they are.
    pub fn delete_manifests(&self, unwanted: &dyn Fn(&Manifest) -> bool) -> Result<usize> {
        let now = self.now();
        let found = self.repository().manifests(unwanted)?;
        let count = found.len();
        for known in found {
            // Of two with one id the later stands.
            let modified = now.max(after(known.modified));
            self.add_manifest(Manifest::tombstone(known.id, modified));
        }
        let mut batch = self.batch();
        let before = batch.manifests.len();
        batch.manifests.retain(|manifest| manifest.deleted || !unwanted(manifest));
        Ok(count + before - batch.manifests.len())
    }

    /// Puts a manifest in the place of all that have some labels, with these labels. Returns its id.
    pub fn replace_manifest(&self, labels: Labels, data: &impl Serialize) -> Result<String> {
        let found = self.repository().manifests(&|manifest| has_all(manifest, &labels))?;
        let latest = found.iter().map(|manifest| after(manifest.modified)).max();
        self.delete_manifests(&|manifest| has_all(manifest, &labels))?;
        self.put_manifest_at(labels, data, latest.map_or(self.now(), |latest| latest.max(self.now())))
    }

    fn add_manifest(&self, manifest: Manifest) {
        let now = self.now();
        let mut batch = self.batch();
        batch.began.get_or_insert(now);
        batch.manifests.push(manifest);
    }

    /// All that wait become one content. Where there are many such contents, everything in them goes into it as well and
    /// they are marked as deleted; readers see both or nothing, because both are in one index blob.
    pub(super) fn write_manifests(&self) -> Result<()> {
        let mut manifests = std::mem::take(&mut self.batch().manifests);
        if manifests.is_empty() {
            return Ok(());
        }
        let mut contents = Vec::new();
        for entry in self.repository().index().index.entries_with_prefix(manifest::PREFIX) {
            contents.extend(Some(entry?).filter(|entry| !entry.deleted).map(|entry| entry.id));
        }
        if contents.len() < COMPACT_FROM {
            contents.clear();
        } else {
            let newer: HashSet<_> = manifests.iter().map(|manifest| manifest.id.clone()).collect();
            let standing = self.repository().manifests(&|_| true)?;
            manifests.extend(standing.into_iter().filter(|manifest| !newer.contains(&manifest.id)));
        }
        let mut data = manifest::write(&manifests)?;
        let written = self.write_unless_known(Some(manifest::PREFIX), &mut data, true)?;
        for id in contents.into_iter().filter(|id| *id != written) {
            self.mark_deleted(id)?;
        }
        Ok(())
    }
}

fn has_all(manifest: &Manifest, labels: &Labels) -> bool {
    labels.iter().all(|(name, value)| manifest.has_labels(&[(name, value)]))
}

/// The first moment after a time.
fn after(time: Timestamp) -> Timestamp {
    time.checked_add(SignedDuration::from_nanos(1)).unwrap_or(time)
}

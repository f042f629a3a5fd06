//! Manifests: small records with labels. A snapshot is one of them.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write as _};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::directory::DirectoryEntry;
use crate::{Error, Result, go_json, json_stream};

/// The prefix letter of contents that hold manifests.
pub const PREFIX: char = 'm';
/// The value of the label `type` of a snapshot.
pub const SNAPSHOT: &str = "snapshot";

/// The user and the host of every client of Velero.
pub const CLIENT: &str = "default";

/// Labels of a manifest.
pub type Labels = BTreeMap<String, String>;

/// A manifest, or the word that one was deleted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// 16 random bytes in hex.
    pub id: String,
    /// What it is found by; none when deleted.
    #[serde(default)]
    pub labels: Option<Labels>,
    /// When it was written; of several with one id the latest counts.
    pub modified: Timestamp,
    /// The manifest is gone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleted: bool,
    /// The record.
    #[serde(default)]
    pub data: Option<Box<RawValue>>,
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl Manifest {
    /// Whether it has all of some labels.
    pub fn has_labels(&self, wanted: &[(&str, &str)]) -> bool {
        let has = |(name, value): &(&str, &str)| {
            self.labels.as_ref().and_then(|labels| labels.get(*name)).is_some_and(|found| found == value)
        };
        wanted.iter().all(has)
    }

    /// The record as a snapshot.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let malformed = |problem: &dyn std::fmt::Display| Error::malformed(format!("manifest {:?}", self.id), problem);
        if !self.has_labels(&[("type", SNAPSHOT)]) {
            return Err(malformed(&"it is not a snapshot"));
        }
        let data = self.data.as_ref().ok_or_else(|| malformed(&"it has no data"))?;
        serde_json::from_str(data.get()).map_err(|error| malformed(&error))
    }

    /// The word that this manifest is deleted, at a time that must be later than its own.
    pub fn tombstone(id: String, modified: Timestamp) -> Self {
        Self { id, labels: None, modified, deleted: true, data: None }
    }
}

/// Shows the manifests in the plain bytes of a content; `what` is for messages.
pub fn for_each_in(content: &[u8], what: &str, visit: impl FnMut(Manifest) -> Result<()>) -> Result<()> {
    // A few bytes can say that they become gigabytes; no content is longer than this, and JSON packs twenty to one.
    const MOST: u64 = 512 << 20;
    json_stream::read_from(MultiGzDecoder::new(content).take(MOST), what, "", visit)
}

/// The plain bytes of a content with some manifests.
pub fn write(manifests: &[Manifest]) -> Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Entries<'a> {
        entries: &'a [Manifest],
    }
    let wrong = |error: &dyn std::fmt::Display| Error::malformed("a manifest", error);
    let mut json = go_json::to_vec(&Entries { entries: manifests }).map_err(|error| wrong(&error))?;
    json.push(b'\n');
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&json).and_then(|()| packed.finish()).map_err(|error| wrong(&error))
}

/// Keeps what stands of the manifests it is shown: those wanted, and which are deleted.
pub struct Collected<'a> {
    wanted: &'a dyn Fn(&Manifest) -> bool,
    found: HashMap<String, Manifest>,
}

impl<'a> Collected<'a> {
    /// Collects the manifests that are wanted.
    pub fn new(wanted: &'a dyn Fn(&Manifest) -> bool) -> Self {
        Self { wanted, found: HashMap::new() }
    }

    /// Takes a manifest, in any order.
    pub fn take(&mut self, manifest: Manifest) {
        if !manifest.deleted && !(self.wanted)(&manifest) {
            return;
        }
        match self.found.get(&manifest.id) {
            Some(known) if known.modified >= manifest.modified => {}
            _ => drop(self.found.insert(manifest.id.clone(), manifest)),
        }
    }

    /// The manifests that stand, the oldest first.
    pub fn finish(self) -> Vec<Manifest> {
        let mut standing: Vec<_> = self.found.into_values().filter(|manifest| !manifest.deleted).collect();
        standing.sort_by(|one, other| (one.modified, &one.id).cmp(&(other.modified, &other.id)));
        standing
    }
}

/// Where a snapshot was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// The host, `default` with Velero.
    pub host: String,
    /// The user, `default` with Velero.
    pub user_name: String,
    /// The path; with Velero who asked, the uploader and the volume.
    pub path: String,
}

/// The record of a snapshot, in the order kopia writes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Written empty; the id is that of the manifest.
    #[serde(default)]
    pub id: String,
    /// Where it was taken.
    pub source: Source,
    /// Free text.
    #[serde(default)]
    pub description: String,
    /// When it began.
    pub start_time: Timestamp,
    /// When it ended.
    pub end_time: Timestamp,
    /// What was counted.
    #[serde(default)]
    pub stats: Stats,
    /// Why it is not complete; absent when it is.
    #[serde(default, rename = "incomplete", skip_serializing_if = "String::is_empty")]
    pub incomplete: String,
    /// The root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_entry: Option<DirectoryEntry>,
    /// What its owner knows it by.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub tags: Labels,
    /// Why retention must not remove it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
}

impl Snapshot {
    /// The root of a snapshot that can be restored.
    pub fn root(&self) -> Result<&DirectoryEntry> {
        self.root_entry.as_ref().ok_or_else(|| Error::malformed("the snapshot", "it has no root"))
    }
}

/// What was counted while a snapshot was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stats {
    /// The bytes of all files.
    pub total_size: i64,
    /// The bytes of what was left out.
    pub excluded_total_size: i64,
    /// How many files.
    pub file_count: i64,
    /// How many files were taken over from the parent.
    pub cached_files: i64,
    /// How many files were read.
    pub non_cached_files: i64,
    /// How many directories.
    pub dir_count: i64,
    /// How many files were left out.
    pub excluded_file_count: i64,
    /// How many directories were left out.
    pub excluded_dir_count: i64,
    /// How many errors were ignored.
    pub ignored_error_count: i64,
    /// How many errors there were.
    pub error_count: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(id: &str, kind: &str, modified: &str) -> Manifest {
        let labels = Some([("type".to_owned(), kind.to_owned())].into());
        let data = Some(RawValue::from_string("{\"a\":1}".to_owned()).unwrap());
        Manifest { id: id.to_owned(), labels, modified: modified.parse().unwrap(), deleted: false, data }
    }

    #[test]
    fn manifests_are_written_and_read() {
        let written = write(&[
            manifest("a", "snapshot", "2026-01-02T03:04:05.5Z"),
            Manifest::tombstone("b".to_owned(), "2026-01-02T03:04:05Z".parse().unwrap()),
        ]);
        let mut json = String::new();
        MultiGzDecoder::new(written.unwrap().as_slice()).read_to_string(&mut json).unwrap();
        assert_eq!(
            json,
            "{\"entries\":[{\"id\":\"a\",\"labels\":{\"type\":\"snapshot\"},\"modified\":\"2026-01-02T03:04:05.5Z\",\"data\":{\"a\":1}},\
             {\"id\":\"b\",\"labels\":null,\"modified\":\"2026-01-02T03:04:05Z\",\"deleted\":true,\"data\":null}]}\n"
        );
    }

    #[test]
    fn the_latest_of_an_id_stands_in_whatever_order_they_come() {
        let all = [
            manifest("a", "snapshot", "2026-01-01T00:00:00Z"),
            manifest("b", "snapshot", "2026-01-02T00:00:00Z"),
            manifest("c", "policy", "2026-01-03T00:00:00Z"),
            Manifest::tombstone("a".to_owned(), "2026-01-04T00:00:00Z".parse().unwrap()),
        ];
        let wanted = |manifest: &Manifest| manifest.has_labels(&[("type", SNAPSHOT)]);
        for reversed in [false, true] {
            let mut collected = Collected::new(&wanted);
            let order: Vec<_> = if reversed { all.iter().rev().collect() } else { all.iter().collect() };
            order.into_iter().cloned().for_each(|manifest| collected.take(manifest));
            let standing = collected.finish();
            assert_eq!(standing.iter().map(|manifest| manifest.id.as_str()).collect::<Vec<_>>(), ["b"]);
        }
    }
}

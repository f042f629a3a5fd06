//! The items of an archive: compressed in chunks, found by type, namespace and name.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde_json::Value;
use velero_archive::Error;
use velero_cluster::ItemRef;

use super::RestoreError;
use super::chunks::{Chunks, MOST_IN_MEMORY};
use crate::items::ItemTable;
use crate::lock;

/// Items are compressed together until a chunk has this size: large enough to compress well, small enough to unpack for
/// the sake of one item.
const CHUNK_SIZE: usize = 128 * 1024;
/// Chunks that stay unpacked. Items are asked for in about the order they were stored in.
const CHUNKS_AT_HAND: usize = 8;

/// The folder of an API version: its name, and whether the old cluster preferred it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    pub name: String,
    pub preferred: bool,
}

/// What is known of a stored item without reading it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    chunk: u32,
    offset: u32,
    length: u32,
    /// Whether the label selectors and filter policies take it.
    pub selected: bool,
    /// Whether it is a pod or job whose work is done.
    pub completed: bool,
}

/// The items of one type in one version.
pub(super) type Items = ItemTable<Stored>;

/// The items of one type by version; `None` is the copy that readers take by default.
pub(super) type Versions = BTreeMap<Option<Version>, Items>;

/// The items of an archive.
pub(super) struct Contents {
    types: BTreeMap<Box<str>, Versions>,
    chunks: Chunks,
    at_hand: Mutex<Vec<(u32, Arc<Vec<u8>>)>>,
}

impl Contents {
    /// All types with their items.
    pub(super) fn types(&self) -> &BTreeMap<Box<str>, Versions> {
        &self.types
    }

    /// The items of a type, in the version that is restored.
    pub(super) fn of_type(&self, resource: &str) -> Option<&Items> {
        self.types.get(resource)?.get(&None)
    }

    /// Keeps only the chosen version of each type, under the place readers take by default.
    pub(super) fn choose_versions(&mut self, choose: impl Fn(&str, &Versions) -> Option<Version>) {
        for (resource, versions) in &mut self.types {
            if let Some(items) = choose(resource, versions).and_then(|chosen| versions.remove(&Some(chosen))) {
                versions.insert(None, items);
            }
        }
    }

    /// Finds an item in the version that is restored.
    pub(super) fn find(&self, item: ItemRef<'_, str>) -> Option<Stored> {
        let items = self.of_type(item.resource_type)?;
        items.find(item.namespace, item.name).map(|number| items.get(number).value)
    }

    /// Reads an item.
    pub(super) fn read(&self, stored: Stored) -> Result<Value, Unreadable> {
        let chunk = self.chunk(stored.chunk)?;
        let range = stored.offset as usize..(stored.offset + stored.length) as usize;
        let bytes = chunk.get(range).ok_or(Unreadable::OutsideOfChunk)?;
        let item: Value = serde_json::from_slice(bytes)?;
        let complete = item.is_object() && item["metadata"].is_object();
        if complete { Ok(item) } else { Err(Unreadable::NoObject) }
    }

    fn chunk(&self, index: u32) -> Result<Arc<Vec<u8>>, Unreadable> {
        let mut at_hand = lock(&self.at_hand);
        if let Some(position) = at_hand.iter().position(|(found, _)| *found == index) {
            let entry = at_hand.remove(position);
            let chunk = Arc::clone(&entry.1);
            at_hand.push(entry);
            return Ok(chunk);
        }
        let packed = self.chunks.get(index).map_err(Unreadable::Damaged)?.ok_or(Unreadable::NoChunk)?;
        let mut chunk = Vec::with_capacity(CHUNK_SIZE);
        DeflateDecoder::new(&packed[..]).read_to_end(&mut chunk).map_err(Unreadable::Damaged)?;
        let chunk = Arc::new(chunk);
        if at_hand.len() >= CHUNKS_AT_HAND {
            at_hand.remove(0);
        }
        at_hand.push((index, Arc::clone(&chunk)));
        Ok(chunk)
    }
}

/// Why an item of the archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("the item lies outside of its chunk")]
    OutsideOfChunk,
    #[error("the item lies in no chunk")]
    NoChunk,
    #[error(transparent)]
    Damaged(std::io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("it is not a Kubernetes object: it has no metadata")]
    NoObject,
}

/// Fills [`Contents`] from an archive that is being read.
pub(super) struct Collector {
    contents: Contents,
    open: Vec<u8>,
    /// How large all chunks together may become.
    limit: u64,
}

/// An item to store.
pub(super) struct NewItem<'a> {
    pub resource: &'a str,
    pub version: Option<Version>,
    pub namespace: Option<&'a str>,
    pub name: &'a str,
    pub body: &'a [u8],
    pub selected: bool,
    pub completed: bool,
}

impl Collector {
    /// Takes no more than `limit` compressed bytes, and keeps them in the scratch folder when they are many.
    pub(super) fn new(limit: u64, scratch: &Path) -> Self {
        let chunks = Chunks::new(scratch, MOST_IN_MEMORY);
        let contents = Contents { types: BTreeMap::new(), chunks, at_hand: Mutex::default() };
        Self { contents, open: Vec::new(), limit }
    }

    /// Stores an item.
    pub(super) fn add(&mut self, item: NewItem<'_>) -> Result<(), RestoreError> {
        let stored = Stored {
            chunk: u32::try_from(self.contents.chunks.len()).unwrap_or(u32::MAX),
            offset: u32::try_from(self.open.len()).unwrap_or(u32::MAX),
            length: u32::try_from(item.body.len()).unwrap_or(u32::MAX),
            selected: item.selected,
            completed: item.completed,
        };
        self.open.extend_from_slice(item.body);
        let versions = self.contents.types.entry(item.resource.into()).or_default();
        versions.entry(item.version).or_default().insert(item.namespace, item.name, stored);
        if self.open.len() >= CHUNK_SIZE { self.close_chunk() } else { Ok(()) }
    }

    fn close_chunk(&mut self) -> Result<(), RestoreError> {
        let mut encoder = DeflateEncoder::new(Vec::with_capacity(CHUNK_SIZE / 6), Compression::fast());
        let packed = encoder.write_all(&self.open).and_then(|()| encoder.finish()).map_err(Error::Damaged)?;
        if self.contents.chunks.size() + packed.len() as u64 > self.limit {
            return Err(Error::CompressedTooLarge { limit: self.limit }.into());
        }
        self.contents.chunks.push(packed)?;
        self.open.clear();
        // A single huge item must not keep its room for the rest of the archive.
        self.open.shrink_to(2 * CHUNK_SIZE);
        Ok(())
    }

    /// The contents, complete.
    pub(super) fn finish(mut self) -> Result<Contents, RestoreError> {
        self.close_chunk()?;
        Ok(self.contents)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn collector(limit: u64) -> Collector {
        Collector::new(limit, &std::env::temp_dir())
    }

    fn add(collector: &mut Collector, namespace: Option<&str>, name: &str, version: Option<&str>, body: &[u8]) {
        let version = version.map(|name| Version { name: name.to_owned(), preferred: false });
        let item = NewItem { resource: "pods", version, namespace, name, body, selected: true, completed: false };
        collector.add(item).unwrap();
    }

    fn object(name: &str, filler: usize) -> Vec<u8> {
        json!({"metadata": {"name": name}, "data": "x".repeat(filler)}).to_string().into_bytes()
    }

    #[test]
    fn every_item_comes_back_whatever_chunk_it_lies_in() {
        let mut collector = collector(u64::MAX);
        for index in 0..450 {
            add(&mut collector, Some("shop"), &format!("p{index}"), None, &object(&format!("p{index}"), index * 20));
        }
        add(&mut collector, None, "huge", None, &object("huge", 3 * CHUNK_SIZE));
        let contents = collector.finish().unwrap();
        assert!(contents.chunks.len() > CHUNKS_AT_HAND);
        for index in [449, 0, 150, 7, 449] {
            let stored = contents.find(ItemRef::new("pods", Some("shop"), &format!("p{index}"))).unwrap();
            let item = contents.read(stored).unwrap();
            assert_eq!(item["metadata"]["name"], format!("p{index}"));
            assert_eq!(item["data"].as_str().unwrap().len(), index * 20);
        }
        let huge = contents.read(contents.find(ItemRef::new("pods", None, "huge")).unwrap()).unwrap();
        assert_eq!(huge["data"].as_str().unwrap().len(), 3 * CHUNK_SIZE);
        assert!(contents.find(ItemRef::new("pods", Some("shop"), "absent")).is_none());
        assert!(contents.find(ItemRef::new("services", Some("shop"), "p1")).is_none());
    }

    #[test]
    fn no_more_is_kept_than_the_limit_allows() {
        let mut collector = collector(10_000);
        // Content that does not compress.
        let mut seed = 1u64;
        let noise = |length: usize, seed: &mut u64| -> Vec<u8> {
            let step = |seed: &mut u64| {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*seed >> 56) as u8
            };
            (0..length).map(|_| step(seed)).collect()
        };
        let mut add = |name: &str, body: &[u8]| {
            let (resource, namespace) = ("pods", None);
            let item = NewItem { resource, version: None, namespace, name, body, selected: true, completed: false };
            collector.add(item)
        };
        add("small", &noise(5_000, &mut seed)).unwrap();
        let error = add("large", &noise(CHUNK_SIZE, &mut seed)).unwrap_err();
        let is_limit = matches!(error, RestoreError::Archive(Error::CompressedTooLarge { limit: 10_000 }));
        assert!(is_limit, "{error}");
    }

    #[test]
    fn what_is_no_object_is_an_error_of_that_item_alone() {
        let mut collector = collector(u64::MAX);
        add(&mut collector, None, "list", None, b"[1]");
        add(&mut collector, None, "broken", None, b"{");
        add(&mut collector, None, "good", None, &object("good", 0));
        let contents = collector.finish().unwrap();
        let read = |name| contents.read(contents.find(ItemRef::new("pods", None, name)).unwrap());
        assert!(read("list").is_err() && read("broken").is_err());
        assert!(read("good").is_ok());
    }

    #[test]
    fn a_chosen_version_takes_the_default_place() {
        let mut collector = collector(u64::MAX);
        add(&mut collector, None, "a", None, &object("default", 0));
        add(&mut collector, None, "a", Some("v2"), &object("chosen", 0));
        let mut contents = collector.finish().unwrap();
        contents.choose_versions(|_, versions| versions.keys().flatten().next().cloned());
        let item = contents.read(contents.find(ItemRef::new("pods", None, "a")).unwrap()).unwrap();
        assert_eq!(item["metadata"]["name"], "chosen");
    }
}

//! Repositories of volume data, by somebody who knows the password: the plain bytes of indexes, packs, manifests, lists and
//! directories. Who does not know it gets no further than the seal (`crates/velero-repo/tests/repository/damage.rs`).

use std::time::SystemTime;

use bytes::Bytes;
use velero_repo::directory::{DirectoryEntry, for_each_entry};
use velero_repo::epoch::EpochState;
use velero_repo::format::{FormatBlob, Parameters};
use velero_repo::index::{Index, IndexBytes, RawIndex};
use velero_repo::manifest::{self, Collected};
use velero_repo::object::{ContentSource, for_each_piece};
use velero_repo::pack::Postamble;
use velero_repo::store::BlobInfo;
use velero_repo::{ContentId, ObjectId, Result};
use velero_testkit::hostile::Parser;

fn parsers() -> Vec<Parser> {
    vec![
        Parser::of("repository-format", |bytes| drop(serde_json::from_slice::<FormatBlob>(bytes))),
        Parser::of("repository-parameters", |bytes| drop(Parameters::parse(bytes))),
        Parser::of("repository-index", read_index),
        Parser::of("repository-postamble", read_postamble),
        Parser::of("repository-manifests", |bytes| read_manifests(&gzip(bytes))),
        Parser::of("repository-packed-manifests", read_manifests),
        Parser::of("repository-lists", read_list),
        Parser::of("repository-directories", read_directory),
        Parser::of("repository-blob-names", read_names),
        Parser::of("repository-ids", read_ids),
    ]
}

/// Whatever content is asked for is the same bytes, often enough to be followed and not for ever.
struct Same<'a>(&'a [u8], std::cell::Cell<usize>);

impl ContentSource for Same<'_> {
    fn content(&self, id: ContentId) -> Result<Bytes> {
        let left = self.1.get();
        self.1.set(left.saturating_sub(1));
        match left {
            0 => Err(velero_repo::Error::ContentNotFound { content: id.to_string() }),
            _ => Ok(Bytes::copy_from_slice(self.0)),
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    velero_archive::gzjson::compress(bytes).unwrap()
}

fn object() -> ObjectId {
    "f5386b932a82749f91057cabb1f8ec1f".parse().unwrap()
}

fn read_index(bytes: &[u8]) {
    let open = || RawIndex::open(IndexBytes::Memory(Bytes::copy_from_slice(bytes)), "sample");
    let Ok(raw) = open() else { return };
    for entry in raw.entries().flatten() {
        assert!(!raw.pack_name(entry.pack).is_empty());
    }
    if let Ok(index) = Index::new(raw) {
        let _ = index.find(ContentId::data([3; 16]));
        let _ = index.entries_with_prefix('m').count();
    }
}

fn read_postamble(bytes: &[u8]) {
    if let Some(postamble) = Postamble::parse(bytes) {
        assert_eq!(Postamble::parse(&postamble.to_bytes()), Some(postamble));
    }
}

fn read_manifests(bytes: &[u8]) {
    let mut collected = Collected::new(&|_| true);
    let _ = manifest::for_each_in(bytes, "sample", |manifest| {
        let _ = manifest.snapshot().map(|snapshot| snapshot.root().is_ok());
        collected.take(manifest);
        Ok(())
    });
    let _ = collected.finish();
}

fn read_list(bytes: &[u8]) {
    for levels in 1..4 {
        let (source, mut pieces) = (Same(bytes, std::cell::Cell::new(50)), 0);
        let _ = for_each_piece(&source, ObjectId { indirection: levels, ..object() }, &mut |_| {
            pieces += 1;
            Ok(())
        });
    }
}

fn read_directory(bytes: &[u8]) {
    let source = Same(bytes, std::cell::Cell::new(10));
    let _ = for_each_entry(&source, object(), |entry| {
        let again: DirectoryEntry = serde_json::from_slice(&serde_json::to_vec(&entry).unwrap()).unwrap();
        assert_eq!(again.name, entry.name);
        Ok(())
    });
}

fn read_names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let blob = |name: &str| BlobInfo { id: name.to_owned(), size: 1, modified: SystemTime::UNIX_EPOCH };
    let state = EpochState::from_blobs(text.lines().map(blob));
    let _ = (state.complete_index_set().len(), state.is_settled(state.write_epoch));
}

fn read_ids(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(id) = text.parse::<ObjectId>() {
        assert_eq!(id.to_string().parse::<ObjectId>().unwrap(), id);
    }
    if let Ok(id) = text.parse::<ContentId>() {
        assert_eq!(id.to_string().parse::<ContentId>().unwrap(), id);
    }
}

velero_testkit::strike_all!(parsers);

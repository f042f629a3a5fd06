//! Repositories of volume data, by somebody who knows the password: the plain bytes of indexes, packs, manifests, lists and
//! directories. Who does not know it gets no further than the seal (`crates/velero-repo/tests/repository/damage.rs`).

use std::time::SystemTime;

use bytes::Bytes;
use velero_repo::directory::{self, DirectoryEntry, Summary, for_each_entry};
use velero_repo::epoch::EpochState;
use velero_repo::format::{FormatBlob, Parameters};
use velero_repo::index::{ContentEntry, Index, IndexBytes, RawIndex, build_index};
use velero_repo::manifest::{self, Collected};
use velero_repo::object::{ContentSource, ListEntry, for_each_piece, write_list};
use velero_repo::pack::Postamble;
use velero_repo::store::BlobInfo;
use velero_repo::{ContentId, ObjectId, Result};
use velero_testkit::hostile::Parser;

fn parsers() -> Vec<Parser> {
    let parser = |name, samples, parse| Parser { name, samples, parse };
    let format = r#"{"tool":"t","buildVersion":"v","buildInfo":"i","uniqueID":"AAEC","keyAlgo":"scrypt-65536-8-1","encryption":"AES256_GCM","encryptedBlockFormat":"AAEC"}"#;
    vec![
        parser("format blob", vec![format.as_bytes().to_vec()], |bytes| {
            drop(serde_json::from_slice::<FormatBlob>(bytes))
        }),
        parser("format parameters", vec![Parameters::new_of_velero().to_json()], |bytes| {
            drop(Parameters::parse(bytes))
        }),
        parser("index", vec![index()], read_index),
        parser("end of a pack", vec![postamble()], read_postamble),
        parser("manifests", vec![plain_manifests()], |bytes| read_manifests(&gzip(bytes))),
        parser("packed manifests", vec![gzip(&plain_manifests())], read_manifests),
        parser("lists", vec![list()], read_list),
        parser("directories", vec![a_directory()], read_directory),
        parser("names of index blobs", vec![names()], read_names),
        parser("ids", vec![b"IIxf5386b932a82749f91057cabb1f8ec1f".to_vec()], read_ids),
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

fn index() -> Vec<u8> {
    let entry = |number: u8| ContentEntry {
        id: ContentId::data([number; 16]),
        timestamp: 1_800_000_000 + u32::from(number),
        deleted: number % 3 == 0,
        pack: 0,
        offset: 100 * u32::from(number),
        packed_length: 128,
        original_length: 100,
        compression: if number % 2 == 0 { 0x1101 } else { 0 },
        format_version: 2,
        key_id: 0,
    };
    build_index((0..12).map(|number| (entry(number), format!("p{number:032x}-s1"))).collect()).unwrap()
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

fn postamble() -> Vec<u8> {
    Postamble { vector: [7; 16], offset: 4096, length: 300 }.to_bytes()
}

fn read_postamble(bytes: &[u8]) {
    if let Some(postamble) = Postamble::parse(bytes) {
        assert_eq!(Postamble::parse(&postamble.to_bytes()), Some(postamble));
    }
}

fn plain_manifests() -> Vec<u8> {
    br#"{"entries":[{"id":"0123","labels":{"type":"snapshot","path":"p"},"modified":"2026-01-02T03:04:05Z","data":{"source":{"host":"default","userName":"default","path":"p"},"startTime":"2026-01-02T03:04:05Z","endTime":"2026-01-02T03:04:05Z","rootEntry":{"name":"r","type":"d","mode":"0777","obj":"k4e1848d26fbd1b528c2ce5abe0c0153c"},"tags":{"a":"b"}}},{"id":"4567","modified":"2026-01-02T03:04:05Z","deleted":true}]}"#.to_vec()
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

fn list() -> Vec<u8> {
    let row = |start, length| ListEntry { start, length, object: object() };
    write_list(&[row(0, 100), row(100, 200), row(300, 1)])
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

fn a_directory() -> Vec<u8> {
    let entries = [
        r#"{"name":"dir","type":"d","mode":"0777","mtime":"1754-08-30T22:43:41.128654848Z","obj":"k4e1848d26fbd1b528c2ce5abe0c0153c","summ":{"size":1,"files":2,"symlinks":3,"dirs":4,"maxTime":"0001-01-01T00:00:00Z","numFailed":0}}"#,
        r#"{"name":"a","type":"f","mode":"0640","size":3,"mtime":"2026-01-02T03:04:05.6789Z","uid":7,"gid":8,"obj":"f5386b932a82749f91057cabb1f8ec1f"}"#,
    ];
    let entries: Vec<DirectoryEntry> = entries.iter().map(|entry| serde_json::from_str(entry).unwrap()).collect();
    directory::write(&entries, &Summary::default())
}

fn read_directory(bytes: &[u8]) {
    let source = Same(bytes, std::cell::Cell::new(10));
    let _ = for_each_entry(&source, object(), |entry| {
        let again: DirectoryEntry = serde_json::from_slice(&serde_json::to_vec(&entry).unwrap()).unwrap();
        assert_eq!(again.name, entry.name);
        Ok(())
    });
}

fn names() -> Vec<u8> {
    let hash = "58c1a2849da1a3700028bc1066016d55";
    let names =
        ["xe1", "xe2", "xw900", "xn0_#-s1-c1", "xn18_#-s2-c1", "xs0_#-s4-c2", "xr0_7_#-s1-c1", "xr8_15_#-s2-c1"];
    names.join("\n").replace('#', hash).into_bytes()
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

crate::strike_all!(parsers);

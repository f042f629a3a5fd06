//! Archives of backups, and the paths in them.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use velero_archive::{ArchiveReader, ArchiveWriter, Error, ItemPath, Limits, ObjectKeys, layout, rewrite};
use velero_testkit::hostile::Parser;

fn parsers() -> Vec<Parser> {
    let archive = archive();
    let mut tarball = Vec::new();
    std::io::copy(&mut flate2::read::MultiGzDecoder::new(archive.as_slice()), &mut tarball).unwrap();
    let paths = [
        "resources/pods/namespaces/shop/web-0.json",
        "resources/deployments.apps/v1-preferredversion/namespaces/shop/web.json",
        "resources/persistentvolumes/cluster/pv-1.json",
        "metadata/version",
    ];
    vec![
        Parser { name: "compressed archive", samples: vec![archive], parse: read },
        Parser { name: "tarball", samples: vec![tarball], parse: |bytes| read(&gzip(bytes)) },
        Parser { name: "paths", samples: paths.map(|path| path.as_bytes().to_vec()).to_vec(), parse: read_path },
    ]
}

/// A small archive as a backup makes it; one path is so long that it needs a header of its own.
fn archive() -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new(), 1).unwrap();
    let long = format!("resources/pods/namespaces/shop/{}.json", "web-".repeat(60));
    for path in ["resources/pods/namespaces/shop/web-0.json", "resources/namespaces/cluster/shop.json", &long] {
        writer.append(path, br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0"}}"#).unwrap();
    }
    writer.finish().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What a reader takes at most here; the samples have a few kilobytes.
const LIMITS: Limits = Limits {
    entries: 10_000,
    entry_size: 1 << 20,
    total_size: 8 << 20,
    compressed_size: 1 << 20,
    path_length: 4096,
    paths_size: 1 << 20,
};

fn read(bytes: &[u8]) {
    let mut size = 0;
    let outcome = ArchiveReader::new(bytes).with_limits(LIMITS).for_each::<Error, _>(|entry| {
        layout::check_path(entry.path).expect("a path that leads out was handed on");
        size += entry.body.len();
        Ok(())
    });
    assert!(size <= 8 << 20);
    assert!(outcome.is_err() || rewritten(bytes).is_ok(), "what can be read can be written again");
}

fn rewritten(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    rewrite(bytes, Vec::new(), BTreeMap::new(), 1, LIMITS).map(|(_, output)| output)
}

fn read_path(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let safe = layout::check_path(&text).is_ok();
    assert!(!safe || !text.split('/').any(|part| part == ".."), "{text:?} leads out");
    let _ = ItemPath::parse(&text);
    if let Ok(folder) = ObjectKeys::new("prefix").backup_folder(&text) {
        assert!(folder.starts_with("prefix/backups/") && !folder.contains("/../"), "{folder:?} leads out");
    }
}

crate::strike_all!(parsers);

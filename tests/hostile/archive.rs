//! Archives of backups, and the paths in them.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use velero_archive::{ArchiveReader, Error, ItemPath, Limits, ObjectKeys, layout, rewrite};
use velero_testkit::hostile::Parser;

fn parsers() -> Vec<Parser> {
    vec![
        Parser::of("archives", read),
        Parser::of("tarballs", |bytes| read(&gzip(bytes))),
        Parser::of("paths", read_path),
    ]
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

velero_testkit::strike_all!(parsers);

//! Round trips, hostile archives and damaged ones.

use super::*;
use crate::ArchiveWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

type Files = Vec<(String, Vec<u8>)>;

fn read(bytes: &[u8], limits: Limits) -> Result<(Files, Summary)> {
    let mut found = Vec::new();
    let summary = ArchiveReader::new(bytes).with_limits(limits).for_each::<Error, _>(|entry| {
        found.push((entry.path.to_owned(), entry.body.to_vec()));
        Ok(())
    })?;
    Ok((found, summary))
}

fn refusal(bytes: &[u8]) -> Error {
    read(bytes, Limits::default()).expect_err("the archive must be refused")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Builds a tarball with the raw name bytes given, which the tar writer itself would refuse.
fn raw(entries: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
    let mut tarball = Vec::new();
    for (path, kind, body) in entries {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        header.set_size(body.len() as u64);
        header.set_cksum();
        tarball.extend_from_slice(header.as_bytes());
        tarball.extend_from_slice(body);
        tarball.resize(tarball.len().next_multiple_of(512), 0);
    }
    tarball.resize(tarball.len() + 1024, 0);
    gzip(&tarball)
}

fn sample(count: usize) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new(), 1).unwrap();
    for index in 0..count {
        writer.append(&format!("resources/pods/namespaces/web/{index}.json"), b"{\"kind\":\"Pod\"}").unwrap();
    }
    writer.finish().unwrap()
}

const FILE: tar::EntryType = tar::EntryType::Regular;

#[test]
fn what_was_written_is_read_back_in_order() {
    let long = format!("resources/{}/cluster/{}.json", "g".repeat(120), "n".repeat(200));
    let mut writer = ArchiveWriter::new(Vec::new(), 7).unwrap();
    writer.append(&long, b"long").unwrap();
    writer.append("resources/pods/cluster/empty.json", b"").unwrap();
    writer.append("resources/pods/cluster/\u{e9}.json", &[0, 255, 10]).unwrap();
    let bytes = writer.finish().unwrap();
    let (found, summary) = read(&bytes, Limits::default()).unwrap();
    let expected = [
        ("metadata/version".to_owned(), b"1.1.0\n".to_vec()),
        (long, b"long".to_vec()),
        ("resources/pods/cluster/empty.json".to_owned(), Vec::new()),
        ("resources/pods/cluster/\u{e9}.json".to_owned(), vec![0, 255, 10]),
    ];
    assert_eq!(found, expected);
    assert_eq!((summary.format_version.as_str(), summary.entries), ("1.1.0", 4));
}

#[test]
fn an_archive_without_a_version_file_is_of_the_first_format() {
    let (_, summary) = read(&raw(&[("resources/pods/cluster/a.json", FILE, b"{}")]), Limits::default()).unwrap();
    assert_eq!(summary.format_version, "1");
}

#[test]
fn folders_are_skipped() {
    let bytes = raw(&[
        ("metadata/version", FILE, b"1.1.0\n"),
        ("resources/", tar::EntryType::Directory, b""),
        ("resources/pods/cluster/a.json", FILE, b"{}"),
    ]);
    assert_eq!(read(&bytes, Limits::default()).unwrap().1.entries, 2);
}

#[test]
fn paths_that_leave_the_archive_are_refused() {
    for path in ["../etc/passwd", "resources/../../x", "/etc/passwd", "resources//x", "./resources/x"] {
        let bytes = raw(&[("metadata/version", FILE, b"1.1.0\n"), (path, FILE, b"x")]);
        assert!(matches!(refusal(&bytes), Error::UnsafePath { .. }), "{path}");
    }
}

#[test]
fn links_and_devices_are_refused() {
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Fifo, tar::EntryType::Block] {
        let bytes = raw(&[("metadata/version", FILE, b"1.1.0\n"), ("resources/link", kind, b"")]);
        assert!(matches!(refusal(&bytes), Error::NotARegularFile { .. }), "{kind:?}");
    }
}

#[test]
fn a_path_that_occurs_twice_is_refused() {
    let entry: (&str, tar::EntryType, &[u8]) = ("resources/pods/cluster/a.json", FILE, b"{}");
    assert!(matches!(refusal(&raw(&[entry, entry])), Error::DuplicatePath { .. }));
}

#[test]
fn too_many_entries_are_refused() {
    let limits = Limits { entries: 10, ..Limits::default() };
    read(&sample(9), limits).unwrap();
    assert!(matches!(read(&sample(10), limits), Err(Error::TooManyEntries { limit: 10 })));
}

#[test]
fn an_entry_that_is_too_large_is_refused_before_it_is_read() {
    let mut header = tar::Header::new_ustar();
    header.set_path("resources/pods/cluster/a.json").unwrap();
    header.set_size(5 << 30);
    header.set_cksum();
    assert!(matches!(refusal(&gzip(header.as_bytes())), Error::EntryTooLarge { size: 5_368_709_120, .. }));
}

#[test]
fn a_bomb_is_refused_at_the_total_limit() {
    let mut writer = ArchiveWriter::new(Vec::new(), 1).unwrap();
    for index in 0..20 {
        writer.append(&format!("resources/pods/cluster/{index}.json"), &vec![b' '; 1 << 20]).unwrap();
    }
    let bytes = writer.finish().unwrap();
    assert!(bytes.len() < 1 << 20);
    let limits = Limits { total_size: 5 << 20, ..Limits::default() };
    assert!(matches!(read(&bytes, limits), Err(Error::TooLarge { limit: 5_242_880 })));
}

#[test]
fn a_bomb_behind_the_end_of_the_tarball_is_refused() {
    let mut tarball = vec![0u8; 0];
    flate2::read::GzDecoder::new(sample(1).as_slice()).read_to_end(&mut tarball).unwrap();
    tarball.resize(tarball.len() + (8 << 20), 0);
    let limits = Limits { total_size: 1 << 20, ..Limits::default() };
    assert!(matches!(read(&gzip(&tarball), limits), Err(Error::TooLarge { .. })));
}

#[test]
fn an_archive_cut_anywhere_is_refused() {
    let bytes = sample(200);
    for end in (1..bytes.len()).step_by(37) {
        let error = refusal(&bytes[..end]);
        assert!(matches!(error, Error::Damaged(_) | Error::NotGzip), "cut at {end}: {error}");
    }
}

#[test]
fn a_flipped_bit_never_changes_what_is_read() {
    let bytes = sample(50);
    let (intact, _) = read(&bytes, Limits::default()).unwrap();
    let mut refused = 0;
    for position in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x10;
        match read(&damaged, Limits::default()) {
            // Some bits carry nothing, such as the operating system named in the gzip header.
            Ok((found, _)) => assert_eq!(found, intact, "flip at {position} changed the content unnoticed"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > bytes.len() * 9 / 10);
}

#[test]
fn a_writer_that_did_not_finish_leaves_no_valid_archive() {
    let mut bytes = Vec::new();
    {
        let mut writer = ArchiveWriter::new(&mut bytes, 1).unwrap();
        writer.append("resources/pods/cluster/a.json", b"{}").unwrap();
        writer.flush().unwrap();
        std::mem::forget(writer);
    }
    assert!(matches!(refusal(&bytes), Error::Damaged(_)));
}

#[test]
fn what_is_not_a_backup_is_named() {
    assert!(matches!(refusal(b"PK\x03\x04 a zip file"), Error::NotGzip));
    assert!(matches!(refusal(&gzip(&[])), Error::Foreign { .. }));
    assert!(matches!(refusal(&gzip(&b"just text, no tarball ".repeat(100))), Error::Damaged(_)));
    assert!(matches!(refusal(&raw(&[("src/main.rs", FILE, b"fn")])), Error::Foreign { .. }));
    let future = raw(&[("metadata/version", FILE, b"2.0.0\n")]);
    assert!(matches!(refusal(&future), Error::UnsupportedVersion { .. }));
}

#[test]
fn an_error_of_the_visitor_ends_the_reading() {
    let mut visited = 0;
    let result = ArchiveReader::new(sample(5).as_slice()).for_each::<Error, _>(|_| {
        visited += 1;
        Err(Error::NotGzip)
    });
    assert!(result.is_err());
    assert_eq!(visited, 1);
}

//! Archives made to make a reader run out of memory. Each source counts what was taken of it: a reader that stops early
//! cannot have kept more.

use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::ArchiveWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

const MEBIBYTE: usize = 1 << 20;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn header(path: &str, kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_cksum();
    header
}

fn entry(path: &str, kind: tar::EntryType, body: &[u8]) -> Vec<u8> {
    let mut bytes = header(path, kind, body.len() as u64).as_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// A beginning and then one gzip member again and again, for ever.
struct Endless {
    beginning: io::Cursor<Vec<u8>>,
    member: Vec<u8>,
    place: usize,
    taken: Rc<Cell<usize>>,
}

impl Endless {
    fn new(beginning: &[u8], member: &[u8]) -> (Self, Rc<Cell<usize>>) {
        let taken = Rc::new(Cell::new(0));
        let beginning = io::Cursor::new(gzip(beginning));
        (Self { beginning, member: gzip(member), place: 0, taken: Rc::clone(&taken) }, taken)
    }
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = self.beginning.read(buffer)?;
        if count == 0 {
            count = buffer.len().min(self.member.len() - self.place);
            buffer[..count].copy_from_slice(&self.member[self.place..self.place + count]);
            self.place = (self.place + count) % self.member.len();
        }
        self.taken.set(self.taken.get() + count);
        Ok(count)
    }
}

fn refusal(input: impl Read, limits: Limits) -> Error {
    let read = ArchiveReader::new(input).with_limits(limits).for_each(|_| Ok::<(), Error>(()));
    read.expect_err("the archive must be refused")
}

#[test]
fn a_header_of_a_gibibyte_is_refused_before_it_is_read() {
    for kind in [
        tar::EntryType::GNULongName,
        tar::EntryType::GNULongLink,
        tar::EntryType::XHeader,
        tar::EntryType::XGlobalHeader,
    ] {
        let bomb = header("././@LongLink", kind, 1 << 30);
        let (input, taken) = Endless::new(bomb.as_bytes(), &vec![b'a'; MEBIBYTE]);
        let error = refusal(input, Limits::default());
        assert!(matches!(error, Error::HeaderTooLarge { size: 1_073_741_824, .. }), "{kind:?}: {error}");
        assert!(taken.get() <= INPUT_BUFFER + 1024, "{kind:?}: {} bytes were read", taken.get());
    }
}

#[test]
fn headers_without_end_are_refused_at_the_total_size() {
    let (input, _) =
        Endless::new(&[], &entry("././@LongLink", tar::EntryType::XGlobalHeader, &[b'a'; 4096]).repeat(256));
    let limits = Limits { total_size: 32 << 20, ..Limits::default() };
    assert!(matches!(refusal(input, limits), Error::TooLarge { .. }));
}

#[test]
fn data_without_end_is_refused_whatever_it_expands_to() {
    let begun = entry("resources/pods/cluster/a.json", tar::EntryType::Regular, b"{}");
    let (zeros, _) = Endless::new(&begun, &vec![0; MEBIBYTE]);
    let limits = Limits { total_size: 32 << 20, compressed_size: 1 << 20, ..Limits::default() };
    assert!(matches!(refusal(zeros, limits), Error::TooLarge { limit: 33_554_432 }));
    // Members that expand to nothing never make a reader return.
    let (nothing, taken) = Endless::new(&begun, &[]);
    assert!(matches!(refusal(nothing, limits), Error::CompressedTooLarge { limit: 1_048_576 }));
    assert!(taken.get() <= MEBIBYTE + INPUT_BUFFER);
}

#[test]
fn millions_of_tiny_entries_are_refused_at_the_limit() {
    let mut tarball = Vec::new();
    for index in 0..20_000 {
        tarball.extend(entry(&format!("resources/pods/cluster/{index}.json"), tar::EntryType::Regular, b""));
    }
    let limits = Limits { entries: 10_000, ..Limits::default() };
    let mut visited = 0;
    let read = ArchiveReader::new(gzip(&tarball).as_slice()).with_limits(limits).for_each(|_| {
        visited += 1;
        Ok::<(), Error>(())
    });
    assert!(matches!(read, Err(Error::TooManyEntries { limit: 10_000 })));
    assert_eq!(visited, 10_000);
    // Folders are entries too, though nobody sees them.
    let folder = entry("resources/pods/", tar::EntryType::Directory, b"");
    let (input, _) = Endless::new(&[], &folder.repeat(2000));
    assert!(matches!(refusal(input, limits), Error::TooManyEntries { .. }));
}

#[test]
fn long_paths_are_refused_one_by_one_and_all_together() {
    let long = |index: usize, length: usize| {
        let path = format!("resources/pods/cluster/{index:0>length$}.json");
        let mut bytes = entry("././@LongLink", tar::EntryType::GNULongName, path.as_bytes());
        bytes.extend(entry("resources/cut", tar::EntryType::Regular, b"{}"));
        bytes
    };
    let error = refusal(gzip(&long(1, 5000)).as_slice(), Limits::default());
    assert!(matches!(error, Error::PathTooLong { limit: 4096, .. }), "{error}");
    assert!(error.to_string().len() < 300, "the error keeps the path short");
    let many: Vec<u8> = (0..100).flat_map(|index| long(index, 4000)).collect();
    let limits = Limits { paths_size: 200_000, ..Limits::default() };
    assert!(matches!(refusal(gzip(&many).as_slice(), limits), Error::PathsTooLarge { limit: 200_000 }));
}

#[test]
fn headers_that_readers_could_take_in_two_ways_are_refused() {
    use tar::EntryType::{GNULongName, Regular, XHeader};
    let name = |path: &str| entry("././@LongLink", GNULongName, path.as_bytes());
    let pax = |key: &str, value: &str| {
        let rest = format!(" {key}={value}\n");
        let length = (1..).find(|length| format!("{length}{rest}").len() == *length).unwrap();
        entry("PaxHeaders/a", XHeader, format!("{length}{rest}").as_bytes())
    };
    let file = || entry("resources/pods/cluster/a.json", Regular, b"{}");
    for (parts, problem) in [
        (vec![name("resources/a"), name("resources/b"), file()], "two long paths"),
        (vec![name("resources/a"), pax("path", "resources/b"), file()], "two long paths"),
        (vec![pax("size", "1024"), file()], "two sizes"),
        (vec![pax("size", "many"), file()], "no number"),
        (vec![file(), name("resources/a")], "missing"),
        (vec![entry("PaxHeaders/a", XHeader, b"no record"), file()], "malformed"),
    ] {
        let error = refusal(gzip(&parts.concat()).as_slice(), Limits::default());
        assert!(matches!(error, Error::BadHeader { reason } if reason.contains(problem)), "{problem}: {error}");
    }
    let good = [pax("path", "resources/pods/cluster/\u{e9}.json"), file(), pax("size", "2"), file()].concat();
    let mut paths = Vec::new();
    let read = ArchiveReader::new(gzip(&good).as_slice()).for_each::<Error, _>(|entry| {
        paths.push(entry.path.to_owned());
        Ok(())
    });
    read.unwrap();
    assert_eq!(paths, ["resources/pods/cluster/\u{e9}.json", "resources/pods/cluster/a.json"]);
}

/// Writes ten files with the given limits.
fn written(limits: Limits) -> Result<Vec<u8>> {
    let mut writer = ArchiveWriter::with_limits(Vec::new(), 1, limits)?;
    for index in 0..10 {
        writer.append(&format!("resources/pods/cluster/{index}.json"), b"{\"kind\":\"Pod\"}")?;
    }
    writer.finish()
}

#[test]
fn what_is_written_can_be_read_and_what_could_not_be_read_is_not_written() {
    let whole = written(Limits::default()).unwrap();
    let summary = ArchiveReader::new(whole.as_slice()).for_each(|_| Ok::<(), Error>(())).unwrap();
    let paths = VERSION_PATH.len() as u64 + 10 * "resources/pods/cluster/0.json".len() as u64;
    let exact = Limits {
        entries: 11,
        entry_size: 14,
        total_size: summary.size,
        compressed_size: whole.len() as u64,
        path_length: 29,
        paths_size: paths,
    };
    let bytes = written(exact).unwrap();
    ArchiveReader::new(bytes.as_slice()).with_limits(exact).for_each(|_| Ok::<(), Error>(())).unwrap();
    for smaller in [
        Limits { entries: 10, ..exact },
        Limits { entry_size: 13, ..exact },
        Limits { total_size: exact.total_size - 1, ..exact },
        Limits { compressed_size: exact.compressed_size - 1, ..exact },
        Limits { path_length: 28, ..exact },
        Limits { paths_size: paths - 1, ..exact },
    ] {
        let error = written(smaller).expect_err("more than the limits allow was written");
        assert!(!matches!(error, Error::Write(_)), "{error}");
        let refused = refusal(whole.as_slice(), smaller);
        assert_eq!(std::mem::discriminant(&error), std::mem::discriminant(&refused), "{error} / {refused}");
    }
}

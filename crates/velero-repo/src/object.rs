//! Objects: one content, or the contents a list names, list by list.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use bytes::{Buf as _, Bytes};
use serde::{Deserialize, Serialize};

use crate::content_id::ContentId;
use crate::json_stream;
use crate::{Error, Result};

/// How deep lists of lists may go: four levels hold more than any file system.
const MOST_LEVELS: u8 = 8;
/// How many pieces a list may itself be cut into.
const MOST_LIST_PIECES: usize = 1 << 20;

/// The id of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// How many levels of lists lie between the id and the data.
    pub indirection: u8,
    /// Compressed as an object; only in old repositories, not supported.
    pub compressed: bool,
    /// The content: data, or a list of the first level.
    pub content: ContentId,
}

impl ObjectId {
    /// An object of one content.
    pub const fn direct(content: ContentId) -> Self {
        Self { indirection: 0, compressed: false, content }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.indirection).try_for_each(|_| formatter.write_str("I"))?;
        formatter.write_str(if self.compressed { "Z" } else { "" })?;
        self.content.fmt(formatter)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for ObjectId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let rest = text.trim_start_matches('I');
        let levels = text.len() - rest.len();
        let indirection = u8::try_from(levels).ok().filter(|levels| *levels <= MOST_LEVELS);
        let indirection =
            indirection.ok_or_else(|| Error::malformed(format!("object id {text:?}"), "too many levels"))?;
        let (compressed, rest) = rest.strip_prefix('Z').map_or((false, rest), |rest| (true, rest));
        let content = rest.strip_prefix('D').unwrap_or(rest).parse()?;
        if compressed && indirection > 0 {
            return Err(Error::malformed(format!("object id {text:?}"), "it is both a list and compressed"));
        }
        Ok(Self { indirection, compressed, content })
    }
}

impl Serialize for ObjectId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where contents come from.
pub trait ContentSource {
    /// The plain bytes of a content, checked against its hash.
    fn content(&self, id: ContentId) -> Result<Bytes>;
}

/// A piece of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where in the object it begins.
    pub start: u64,
    /// How long the list says it is; `None` when no list names it.
    pub length: Option<u64>,
    /// Its bytes.
    pub content: ContentId,
}

/// A row of an indirect list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListEntry {
    /// Where it begins.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub start: u64,
    /// How long it is.
    #[serde(rename = "l", default, skip_serializing_if = "is_zero")]
    pub length: u64,
    /// The object.
    #[serde(rename = "o")]
    pub object: ObjectId,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Shows all pieces of an object in order; lists are read as they are needed.
pub fn for_each_piece(
    source: &dyn ContentSource,
    object: ObjectId,
    visit: &mut dyn FnMut(Piece) -> Result<()>,
) -> Result<()> {
    if object.compressed {
        return Err(Error::Unsupported(format!(
            "object {object} is compressed as a whole, as only old repositories do"
        )));
    }
    let Some(indirection) = object.indirection.checked_sub(1) else {
        return visit(Piece { start: 0, length: None, content: object.content });
    };
    let list = ObjectReader::open(source, ObjectId { indirection, ..object })?;
    let what = format!("object {object}");
    let mut position = 0;
    json_stream::read(list, &what, "kopia:indirect", |entry: ListEntry| {
        if entry.start != position {
            return Err(Error::malformed(
                &what,
                format!("a piece begins at {} and the one before ends at {position}", entry.start),
            ));
        }
        let end = position.checked_add(entry.length);
        position = end.ok_or_else(|| Error::malformed(&what, "its pieces are longer than anything"))?;
        if entry.object.indirection >= object.indirection {
            return Err(Error::malformed(&what, "a list names lists of its own level"));
        }
        for_each_part(source, &entry, &what, visit)
    })
}

/// The pieces of one row: as a rule one.
fn for_each_part(
    source: &dyn ContentSource,
    entry: &ListEntry,
    what: &str,
    visit: &mut dyn FnMut(Piece) -> Result<()>,
) -> Result<()> {
    if entry.object.indirection == 0 && !entry.object.compressed {
        return visit(Piece { start: entry.start, length: Some(entry.length), content: entry.object.content });
    }
    let longer = || Error::malformed(what, "a row tells another length than its list has");
    let mut end = 0;
    for_each_piece(source, entry.object, &mut |piece| {
        // What a list tells of its pieces may be anything; its row has said how long they are together.
        end =
            piece.start.checked_add(piece.length.unwrap_or(0)).filter(|end| *end <= entry.length).ok_or_else(longer)?;
        visit(Piece { start: entry.start + piece.start, ..piece })
    })?;
    if end == entry.length { Ok(()) } else { Err(longer()) }
}

/// An object as a stream; one content at a time is in memory.
pub struct ObjectReader<'a> {
    source: &'a dyn ContentSource,
    pieces: std::vec::IntoIter<Piece>,
    current: Bytes,
    failure: Option<Error>,
}

impl<'a> ObjectReader<'a> {
    /// Reads the lists of an object.
    pub fn open(source: &'a dyn ContentSource, object: ObjectId) -> Result<Self> {
        let mut pieces = Vec::new();
        for_each_piece(source, object, &mut |piece| {
            pieces.push(piece);
            if pieces.len() > MOST_LIST_PIECES {
                return Err(Error::malformed(
                    format!("object {object}"),
                    "it has more pieces than anything we read as a stream",
                ));
            }
            Ok(())
        })?;
        Ok(Self { source, pieces: pieces.into_iter(), current: Bytes::new(), failure: None })
    }

    /// The next piece; `None` at the end.
    pub fn next_piece(&mut self) -> Result<Option<Bytes>> {
        let Some(piece) = self.pieces.next() else { return Ok(None) };
        let content = self.source.content(piece.content)?;
        if piece.length.is_some_and(|length| length != content.len() as u64) {
            return Err(Error::malformed(format!("content {}", piece.content), "it is not as long as its list says"));
        }
        Ok(Some(content))
    }

    /// The error behind the last failed read.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// The whole object, if it has at most `limit` bytes.
    pub fn read_all(mut self, limit: usize) -> Result<Bytes> {
        let mut all = Vec::new();
        while let Some(piece) = self.next_piece()? {
            if all.len() + piece.len() > limit {
                return Err(Error::malformed("an object", format!("it is longer than the {limit} bytes expected")));
            }
            if all.is_empty() && self.pieces.as_slice().is_empty() {
                return Ok(piece);
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.into())
    }
}

impl Read for ObjectReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.next_piece() {
                Ok(Some(piece)) => self.current = piece,
                Ok(None) => return Ok(0),
                Err(error) => {
                    let text = error.to_string();
                    self.failure = Some(error);
                    return Err(io::Error::other(text));
                }
            }
        }
        let count = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::sealer;

    /// The bytes of an indirect list, as kopia writes them.
    fn write_list(entries: &[ListEntry]) -> Vec<u8> {
        #[derive(Serialize)]
        struct List<'a> {
            stream: &'a str,
            entries: &'a [ListEntry],
        }
        let mut bytes = serde_json::to_vec(&List { stream: "kopia:indirect", entries }).unwrap();
        bytes.push(b'\n');
        bytes
    }

    #[derive(Default)]
    struct Contents(HashMap<ContentId, Bytes>);

    impl Contents {
        fn put(&mut self, prefix: Option<char>, bytes: &[u8]) -> ContentId {
            let hash = sealer().hash(bytes);
            let id = prefix.map_or(ContentId::data(hash), |letter| ContentId::with_prefix(letter, hash).unwrap());
            self.0.insert(id, Bytes::copy_from_slice(bytes));
            id
        }

        fn list(&mut self, rows: &[(u64, u64, ObjectId)]) -> ObjectId {
            let rows: Vec<_> =
                rows.iter().map(|&(start, length, object)| ListEntry { start, length, object }).collect();
            let content = self.put(Some('x'), &write_list(&rows));
            let indirection = rows.iter().map(|row| row.object.indirection).max().unwrap_or(0) + 1;
            ObjectId { indirection, compressed: false, content }
        }

        fn read(&self, object: ObjectId) -> Result<Bytes> {
            ObjectReader::open(self, object)?.read_all(1000)
        }
    }

    impl ContentSource for Contents {
        fn content(&self, id: ContentId) -> Result<Bytes> {
            self.0.get(&id).cloned().ok_or_else(|| Error::ContentNotFound { content: id.to_string() })
        }
    }

    #[test]
    fn ids_are_read_and_written() {
        for text in [
            "f5386b932a82749f91057cabb1f8ec1f",
            "IIxf5386b932a82749f91057cabb1f8ec1f",
            "Zf5386b932a82749f91057cabb1f8ec1f",
        ] {
            assert_eq!(text.parse::<ObjectId>().unwrap().to_string(), text);
        }
        assert_eq!("Df5386b932a82749f91057cabb1f8ec1f".parse::<ObjectId>().unwrap().to_string().len(), 32);
        for wrong in ["", "I", "IZf5386b932a82749f91057cabb1f8ec1f", "IIIIIIIIIIf5386b932a82749f91057cabb1f8ec1f"] {
            assert!(wrong.parse::<ObjectId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_that_tell_of_more_than_there_can_be_are_refused() {
        let mut contents = Contents::default();
        let piece = ObjectId::direct(contents.put(None, b"x"));
        let long = contents.list(&[(0, u64::MAX - 1, piece), (u64::MAX - 1, 1, piece)]);
        let row = |start, length, object| ListEntry { start, length, object };
        let rows = write_list(&[row(0, 1, piece), row(1, 1, long)]);
        let stored = ObjectId::direct(contents.put(Some('x'), &rows));
        let list = ObjectId { indirection: 2, ..contents.list(&[(0, rows.len() as u64, stored)]) };
        let mut seen = 0;
        let outcome = for_each_piece(&contents, list, &mut |_| {
            seen += 1;
            Ok(())
        });
        let refusal = outcome.unwrap_err().to_string();
        assert!(refusal.contains("another length than its list"), "{refusal}");
        assert_eq!(seen, 1);
    }

    #[test]
    fn lists_are_written_as_kopia_writes_them_and_followed() {
        let mut contents = Contents::default();
        let (one, two) = (contents.put(None, b"hello "), contents.put(None, b"world"));
        let rows = [(0, 6, ObjectId::direct(one)), (6, 5, ObjectId::direct(two))];
        let list = contents.list(&rows);
        let text = String::from_utf8(contents.0[&list.content].to_vec()).unwrap();
        assert_eq!(
            text,
            format!(
                "{{\"stream\":\"kopia:indirect\",\"entries\":[{{\"l\":6,\"o\":\"{one}\"}},{{\"s\":6,\"l\":5,\"o\":\"{two}\"}}]}}\n"
            )
        );
        assert_eq!(contents.read(list).unwrap(), "hello world");
        let nested = contents.list(&[(0, 11, list), (11, 5, ObjectId::direct(two))]);
        assert_eq!(nested.to_string().matches('I').count(), 2);
    }

    #[test]
    fn a_list_in_several_pieces_is_a_list_of_lists() {
        let mut contents = Contents::default();
        let one = contents.put(None, b"abc");
        let rows: Vec<_> =
            (0..4).map(|row| ListEntry { start: row * 3, length: 3, object: ObjectId::direct(one) }).collect();
        let bytes = write_list(&rows);
        let (first, second) = bytes.split_at(50);
        let pieces = [contents.put(Some('x'), first), contents.put(Some('x'), second)];
        let list = contents
            .list(&[(0, 50, ObjectId::direct(pieces[0])), (50, second.len() as u64, ObjectId::direct(pieces[1]))]);
        let object = ObjectId { indirection: 2, ..list };
        assert_eq!(contents.read(object).unwrap(), "abcabcabcabc");
    }

    #[test]
    fn lists_that_lie_are_refused() {
        let mut contents = Contents::default();
        let one = ObjectId::direct(contents.put(None, b"abc"));
        for rows in [
            vec![(1, 3, one)],
            vec![(0, 3, one), (2, 3, one)],
            vec![(0, 4, one)],
            vec![(0, u64::MAX, one), (u64::MAX, 9, one)],
        ] {
            let list = contents.list(&rows);
            assert!(contents.read(list).is_err(), "{rows:?}");
        }
        for text in [
            "",
            "{}",
            "[]",
            "{\"stream\":\"kopia:directory\",\"entries\":[]}",
            "{\"stream\":\"kopia:indirect\",\"entries\":[{\"l\":3}]}",
        ] {
            let content = contents.put(Some('x'), text.as_bytes());
            assert!(contents.read(ObjectId { indirection: 1, compressed: false, content }).is_err(), "{text}");
        }
        let missing = ObjectId { indirection: 1, ..ObjectId::direct(ContentId::data([9; 16])) };
        assert!(matches!(contents.read(missing), Err(Error::ContentNotFound { .. })));
    }
}

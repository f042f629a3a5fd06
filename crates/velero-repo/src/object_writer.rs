//! Writes objects: a stream becomes pieces, and several pieces a list, which is a stream again.

use crate::object::{ListEntry, ObjectId};
use crate::splitter::Splitter;
use crate::writer::ContentWriter;
use crate::{Result, go_json};

/// The prefix letter of lists of objects that have none themselves.
const LIST_PREFIX: char = 'x';

/// The pieces of one object, in order. One piece is the object itself; from two on there is a list.
#[derive(Clone)]
pub(crate) struct PieceList {
    prefix: Option<char>,
    splitter: Splitter,
    first: Option<ListEntry>,
    end: u64,
    list: Option<Box<StreamWriter>>,
}

impl PieceList {
    pub(crate) fn new(prefix: Option<char>, splitter: Splitter) -> Self {
        Self { prefix, splitter, first: None, end: 0, list: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Appends a piece.
    pub(crate) fn push(&mut self, writer: &ContentWriter<'_>, object: ObjectId, length: u64) -> Result<()> {
        let entry = ListEntry { start: self.end, length, object };
        self.end += length;
        let Some(first) = &self.first else {
            self.first = Some(entry);
            return Ok(());
        };
        let list = match &mut self.list {
            Some(list) => list,
            none => {
                let mut list = StreamWriter::new(Some(self.prefix.unwrap_or(LIST_PREFIX)), self.splitter, true);
                list.write(writer, b"{\"stream\":\"kopia:indirect\",\"entries\":[")?;
                list.write(writer, &go_json::to_vec(first).unwrap_or_default())?;
                none.insert(Box::new(list))
            }
        };
        list.write(writer, b",")?;
        list.write(writer, &go_json::to_vec(&entry).unwrap_or_default())
    }

    /// The object; at least one piece must have been pushed.
    pub(crate) fn finish(self, writer: &ContentWriter<'_>) -> Result<ObjectId> {
        match (self.list, self.first) {
            (Some(mut list), _) => {
                list.write(writer, b"]}\n")?;
                let list = list.finish(writer)?;
                Ok(ObjectId { indirection: list.indirection + 1, ..list })
            }
            (None, Some(only)) => Ok(only.object),
            (None, None) => Ok(ObjectId::direct(writer.write(self.prefix, b"", false)?)),
        }
    }
}

/// A stream that becomes an object while it is written. A copy of it can be finished without touching it.
#[derive(Clone)]
pub(crate) struct StreamWriter {
    prefix: Option<char>,
    splitter: Splitter,
    compress: bool,
    buffer: Vec<u8>,
    pieces: PieceList,
}

impl StreamWriter {
    pub(crate) fn new(prefix: Option<char>, splitter: Splitter, compress: bool) -> Self {
        Self { prefix, splitter, compress, buffer: Vec::new(), pieces: PieceList::new(prefix, splitter) }
    }

    pub(crate) fn write(&mut self, writer: &ContentWriter<'_>, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        while self.buffer.len() >= self.splitter.longest() {
            let cut = self.splitter.next(&self.buffer).unwrap_or(self.splitter.longest());
            self.emit(writer, cut)?;
        }
        Ok(())
    }

    fn emit(&mut self, writer: &ContentWriter<'_>, length: usize) -> Result<()> {
        let id = writer.write_in_place(self.prefix, &mut self.buffer[..length], self.compress)?;
        self.buffer.drain(..length);
        self.pieces.push(writer, ObjectId::direct(id), length as u64)
    }

    pub(crate) fn finish(mut self, writer: &ContentWriter<'_>) -> Result<ObjectId> {
        while !self.buffer.is_empty() || self.pieces.is_empty() {
            let cut = self.splitter.next(&self.buffer).unwrap_or(self.buffer.len());
            self.emit(writer, cut)?;
        }
        self.pieces.finish(writer)
    }
}

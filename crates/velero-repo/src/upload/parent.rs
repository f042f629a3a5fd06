//! A folder of the snapshot before: what did not change since is taken over unread.

use std::io::{BufRead, BufReader, Read as _};

use crate::directory::{DirectoryEntry, EntryKind};
use crate::object::{ObjectId, ObjectReader};
use crate::{Repository, Result};

/// How a directory begins, whoever wrote it.
const BEGINNING: &[u8] = b"{\"stream\":\"kopia:directory\",\"entries\":";

/// The entries of a folder, read as the names of the folder on disk go by in the same order.
pub(super) struct ParentFolder<'a> {
    bytes: BufReader<ObjectReader<'a>>,
    next: Option<DirectoryEntry>,
}

impl<'a> ParentFolder<'a> {
    /// Opens a folder; one that cannot be read is no help, and no harm either.
    pub(super) fn open(repository: &'a Repository, object: ObjectId) -> Option<Self> {
        let opened = (|| -> Result<Option<Self>> {
            let mut bytes = BufReader::with_capacity(16 << 10, ObjectReader::open(repository, object)?);
            let mut beginning = [0; BEGINNING.len() + 1];
            let whole = bytes.read_exact(&mut beginning).is_ok();
            if !whole || !beginning.starts_with(BEGINNING) || beginning.last() != Some(&b'[') {
                return Ok(None);
            }
            let mut parent = Self { bytes, next: None };
            parent.advance();
            Ok(Some(parent))
        })();
        opened.unwrap_or_else(|error| {
            tracing::warn!(%error, "a directory of the snapshot before cannot be read; its files are read again");
            None
        })
    }

    /// The entry of a name. Must be asked in order: folders first, each by their bytes.
    pub(super) fn find(&mut self, is_folder: bool, name: &str) -> Option<DirectoryEntry> {
        let key = (!is_folder, name.as_bytes());
        let place = |entry: &DirectoryEntry| (entry.kind != EntryKind::Directory, entry.name.as_bytes()).cmp(&key);
        while self.next.as_ref().is_some_and(|next| place(next).is_lt()) {
            self.advance();
        }
        self.next.take_if(|next| place(next).is_eq()).inspect(|_| self.advance())
    }

    fn advance(&mut self) {
        self.next = self.read_entry().and_then(|text| serde_json::from_slice(&text).ok());
    }

    /// The text of the next entry; `None` at the end of the list or of what can be read.
    fn read_entry(&mut self) -> Option<Vec<u8>> {
        let (mut text, mut depth, mut in_string, mut escaped) = (Vec::new(), 0_u32, false, false);
        loop {
            let held = self.bytes.fill_buf().ok().filter(|held| !held.is_empty())?;
            for (index, byte) in held.iter().enumerate() {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    _ if in_string => {}
                    b'{' => depth += 1,
                    b'}' => depth = depth.checked_sub(1)?,
                    b']' if depth == 0 => return None,
                    _ => {}
                }
                if depth == 0 && *byte == b'}' && !in_string {
                    text.extend_from_slice(&held[..=index]);
                    self.bytes.consume(index + 1);
                    let start = text.iter().position(|byte| *byte == b'{')?;
                    text.drain(..start);
                    return Some(text);
                }
            }
            text.extend_from_slice(held);
            let count = held.len();
            self.bytes.consume(count);
        }
    }
}

/// Whether something is as it was: then its object is, too.
pub(super) fn is_unchanged(before: &DirectoryEntry, now: &DirectoryEntry) -> bool {
    let key = |entry: &DirectoryEntry| (entry.kind, entry.mtime, entry.mode.0, entry.uid, entry.gid, entry.size);
    key(before) == key(now)
}

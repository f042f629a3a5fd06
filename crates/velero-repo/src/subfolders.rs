//! What is kept of one directory while it is walked through; it may have millions of entries.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead as _, BufReader, BufWriter, Lines, Seek as _, Write as _};

use crate::directory::DirectoryEntry;
use crate::{Error, Result};

/// How many are kept in memory.
const HELD: usize = 1024;

/// The names of a directory, each by a hash nobody can foresee.
#[derive(Default)]
pub(crate) struct SeenNames {
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl SeenNames {
    /// Whether a name comes for the first time.
    pub(crate) fn insert(&mut self, name: &str) -> bool {
        self.seen.insert(self.hasher.hash_one(name))
    }
}

/// The directories in a directory that wait to be walked through, in order: a few in memory, the rest in a file without a
/// name. All are pushed before the first is taken.
#[derive(Default)]
pub(crate) struct Subfolders {
    held: VecDeque<DirectoryEntry>,
    written: Option<BufWriter<File>>,
    read: Option<Lines<BufReader<File>>>,
}

fn failed(error: io::Error) -> Error {
    Error::file("use", "a temporary file for the names of folders", error)
}

impl Subfolders {
    /// Appends a directory. What it says of all below it is not kept.
    pub(crate) fn push(&mut self, entry: DirectoryEntry) -> Result<()> {
        let entry = DirectoryEntry { summary: None, ..entry };
        if self.held.len() < HELD {
            self.held.push_back(entry);
            return Ok(());
        }
        let file = match &mut self.written {
            Some(file) => file,
            none => none.insert(BufWriter::new(tempfile::tempfile().map_err(failed)?)),
        };
        serde_json::to_writer(&mut *file, &entry).map_err(|error| failed(error.into()))?;
        file.write_all(b"\n").map_err(failed)
    }

    /// Takes the next directory.
    pub(crate) fn next(&mut self) -> Result<Option<DirectoryEntry>> {
        if let Some(entry) = self.held.pop_front() {
            return Ok(Some(entry));
        }
        if let Some(written) = self.written.take() {
            let mut file = written.into_inner().map_err(|error| failed(error.into_error()))?;
            file.rewind().map_err(failed)?;
            self.read = Some(BufReader::new(file).lines());
        }
        let Some(line) = self.read.as_mut().and_then(Iterator::next) else { return Ok(None) };
        let line = line.map_err(failed)?;
        serde_json::from_str(&line).map(Some).map_err(|error| failed(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{EntryKind, Mode};
    use crate::{ContentId, ObjectId};

    #[test]
    fn directories_come_out_as_they_went_in_however_many_there_are() {
        let entry = |number: usize| DirectoryEntry {
            name: format!("folder \"{number}\"\n"),
            kind: EntryKind::Directory,
            mode: Mode(0o1755),
            size: 0,
            mtime: jiff::Timestamp::new(number as i64 - 7, 123_456_789).unwrap(),
            uid: 1,
            gid: 2,
            object: ObjectId::direct(ContentId::data([number as u8; 16])),
            summary: None,
        };
        for count in [0, 1, HELD, HELD + 1, 3 * HELD] {
            let mut folders = Subfolders::default();
            (0..count).for_each(|number| folders.push(entry(number)).unwrap());
            for number in 0..count {
                assert_eq!(folders.next().unwrap(), Some(entry(number)), "{number} of {count}");
            }
            assert_eq!(folders.next().unwrap(), None);
        }
    }

    #[test]
    fn a_name_is_new_once() {
        let mut names = SeenNames::default();
        assert!(names.insert("a") && names.insert("b") && !names.insert("a"));
    }
}

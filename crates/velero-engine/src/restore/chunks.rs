//! The compressed chunks of an archive: in memory while they are few; in a file of the scratch folder once they are many.
//!
//! The file has no name, so it goes away with the process whatever becomes of it, and it is sealed with a key that never
//! leaves the process: an archive holds Secrets.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;

use crate::lock;

/// How many compressed bytes stay in memory.
pub(super) const MOST_IN_MEMORY: u64 = 32 << 20;

const KEY_LENGTH: usize = 32;

/// Why an archive cannot be kept while it is restored.
#[derive(Debug, thiserror::Error)]
#[error(
    "more than {bound} MiB of it are kept in the scratch folder {folder:?} while it is restored, and that failed: {source}; \
     see that the folder can be written to and has room for the whole archive, or name another by VELERO_SCRATCH_DIR"
)]
pub struct ScratchError {
    bound: u64,
    folder: PathBuf,
    source: io::Error,
}

/// The chunks, by number.
pub(super) struct Chunks {
    folder: PathBuf,
    most_in_memory: u64,
    /// The size of all chunks.
    size: u64,
    kept: Kept,
}

enum Kept {
    InMemory(Vec<Box<[u8]>>),
    Sealed(SealedFile),
}

impl Chunks {
    /// No chunks yet; once they are more than so many bytes they go to a file in the folder.
    pub(super) fn new(folder: &Path, most_in_memory: u64) -> Self {
        Self { folder: folder.to_owned(), most_in_memory, size: 0, kept: Kept::InMemory(Vec::new()) }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match &self.kept {
            Kept::InMemory(chunks) => chunks.len(),
            Kept::Sealed(file) => file.ends.len(),
        }
    }

    /// The size of all of them.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Adds a chunk behind the others.
    pub(super) fn push(&mut self, chunk: Vec<u8>) -> Result<(), ScratchError> {
        self.size += chunk.len() as u64;
        let added = match &mut self.kept {
            Kept::InMemory(chunks) => {
                chunks.push(chunk.into_boxed_slice());
                if self.size <= self.most_in_memory { Ok(()) } else { self.seal() }
            }
            Kept::Sealed(file) => file.push(chunk),
        };
        added.map_err(|source| ScratchError { bound: self.most_in_memory >> 20, folder: self.folder.clone(), source })
    }

    /// Moves all chunks into a file.
    fn seal(&mut self) -> io::Result<()> {
        let mut file = SealedFile::new(&self.folder)?;
        if let Kept::InMemory(chunks) = &mut self.kept {
            std::mem::take(chunks).into_iter().try_for_each(|chunk| file.push(chunk.into_vec()))?;
        }
        self.kept = Kept::Sealed(file);
        Ok(())
    }

    /// A chunk; `None` when there is none of that number.
    pub(super) fn get(&self, number: u32) -> io::Result<Option<Cow<'_, [u8]>>> {
        match &self.kept {
            Kept::InMemory(chunks) => Ok(chunks.get(number as usize).map(|chunk| Cow::Borrowed(&**chunk))),
            Kept::Sealed(file) => Ok(file.get(number)?.map(Cow::Owned)),
        }
    }
}

/// A file without a name, each chunk in it sealed by itself.
struct SealedFile {
    file: Mutex<File>,
    key: LessSafeKey,
    /// Where each chunk ends.
    ends: Vec<u64>,
}

impl SealedFile {
    fn new(folder: &Path) -> io::Result<Self> {
        let mut key = [0; KEY_LENGTH];
        rand::fill(&mut key).map_err(|_| io::Error::other("there is no randomness for a key"))?;
        let key = UnboundKey::new(&AES_256_GCM, &key).map_err(|_| io::Error::other("the key cannot be used"))?;
        Ok(Self { file: Mutex::new(tempfile::tempfile_in(folder)?), key: LessSafeKey::new(key), ends: Vec::new() })
    }

    fn push(&mut self, mut chunk: Vec<u8>) -> io::Result<()> {
        let sealed = self.key.seal_in_place_append_tag(nonce(self.ends.len()), Aad::empty(), &mut chunk);
        sealed.map_err(|_| io::Error::other("a chunk cannot be sealed"))?;
        let start = self.start_of(self.ends.len());
        self.at(start)?.write_all(&chunk)?;
        self.ends.push(start + chunk.len() as u64);
        Ok(())
    }

    fn get(&self, number: u32) -> io::Result<Option<Vec<u8>>> {
        let number = number as usize;
        let Some(end) = self.ends.get(number) else { return Ok(None) };
        let start = self.start_of(number);
        let length = usize::try_from(end - start).map_err(io::Error::other)?;
        let mut chunk = vec![0; length];
        self.at(start)?.read_exact(&mut chunk)?;
        let opened = self.key.open_in_place(nonce(number), Aad::empty(), &mut chunk);
        let length = opened.map_err(|_| io::Error::other("what was kept in the scratch folder was changed"))?.len();
        chunk.truncate(length);
        Ok(Some(chunk))
    }

    /// The file at a place, for one at a time.
    fn at(&self, place: u64) -> io::Result<MutexGuard<'_, File>> {
        let mut file = lock(&self.file);
        file.seek(SeekFrom::Start(place))?;
        Ok(file)
    }

    fn start_of(&self, number: usize) -> u64 {
        number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default()
    }
}

/// A key is used for one file and a chunk written once, so its number never comes twice.
fn nonce(number: usize) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..size_of::<u64>()].copy_from_slice(&(number as u64).to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(number: usize) -> Vec<u8> {
        format!("password {number}").repeat(number).into_bytes()
    }

    fn filled(folder: &Path, most_in_memory: u64) -> Chunks {
        let mut chunks = Chunks::new(folder, most_in_memory);
        (0..50).for_each(|number| chunks.push(chunk(number)).unwrap());
        chunks
    }

    #[test]
    fn chunks_come_back_from_memory_and_from_the_scratch_folder() {
        let folder = tempfile::tempdir().unwrap();
        for bound in [u64::MAX, 5_000, 0] {
            let chunks = filled(folder.path(), bound);
            assert_eq!(matches!(chunks.kept, Kept::Sealed(_)), bound < u64::MAX);
            assert_eq!(chunks.len(), 50);
            for number in [0, 49, 7, 7, 30] {
                assert_eq!(*chunks.get(number as u32).unwrap().unwrap(), chunk(number));
            }
            assert!(chunks.get(50).unwrap().is_none());
        }
    }

    #[test]
    fn what_is_in_the_scratch_folder_has_no_name_and_cannot_be_read_or_changed() {
        let folder = tempfile::tempdir().unwrap();
        let chunks = filled(folder.path(), 0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let Kept::Sealed(sealed) = &chunks.kept else { panic!("it is in memory") };
        let mut written = vec![0; usize::try_from(*sealed.ends.last().unwrap()).unwrap()];
        sealed.at(0).unwrap().read_exact(&mut written).unwrap();
        assert!(!written.windows(8).any(|window| window == b"password"));
        let place = sealed.start_of(20) + 3;
        sealed.at(place).unwrap().write_all(&[written[usize::try_from(place).unwrap()] ^ 1]).unwrap();
        assert!(chunks.get(20).unwrap_err().to_string().contains("was changed"));
        assert!(chunks.get(21).is_ok());
    }

    #[test]
    fn a_scratch_folder_that_cannot_be_used_is_named_with_the_remedy() {
        let mut chunks = Chunks::new(Path::new("/nowhere/at/all"), 3 << 20);
        chunks.push(vec![0; 3 << 20]).unwrap();
        let error = chunks.push(vec![0]).unwrap_err().to_string();
        for expected in ["more than 3 MiB", "/nowhere/at/all", "No such file", "VELERO_SCRATCH_DIR"] {
            assert!(error.contains(expected), "{error}");
        }
    }
}

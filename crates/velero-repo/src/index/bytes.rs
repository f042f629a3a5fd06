//! The bytes of an index: small ones in memory, others in a file without a name.

use std::fs::File;
use std::io;

use ::bytes::Bytes;

/// The plain bytes of an index. Cheap to share.
#[derive(Debug)]
pub enum IndexBytes {
    /// In memory.
    Memory(Bytes),
    /// In a temporary file: pages come and go as they are searched.
    File {
        /// The file.
        file: File,
        /// How many bytes it has.
        length: u64,
    },
}

impl IndexBytes {
    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills a buffer from an offset.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).map_err(io::Error::other)?;
                let found = start.checked_add(buffer.len()).and_then(|end| bytes.get(start..end));
                buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            Self::File { file, .. } => read_exact_at(file, buffer, offset),
        }
    }

    /// A part, in memory.
    pub(crate) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if offset.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut buffer = vec![0; length];
        self.read_at(offset, &mut buffer)?;
        Ok(buffer)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                buffer = &mut buffer[read..];
                offset += read as u64;
            }
        }
    }
    Ok(())
}

//! Large files past the page cache: what a repository holds is written once and seldom read, and copying it through
//! memory that others could use costs more time than the disk takes.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use bytes::Bytes;
use rustix::fs::OFlags;

/// Smaller blobs go through the page cache.
const WORTHWHILE: usize = 1 << 20;
/// Addresses, positions and lengths are multiples of this; no disk asks for more.
const ALIGNMENT: usize = 4096;
/// How much is handed to the disk in one go.
const STEP: usize = 1 << 20;

/// A new file with this content, on the disk when this returns.
pub(super) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut written = 0;
    if content.len() >= WORTHWHILE && go_direct(&file, true) {
        let whole = content.len() - content.len() % ALIGNMENT;
        written = match write_direct(&file, &content[..whole]) {
            Ok(()) => whole,
            // A file system that wants it otherwise gets it all through the cache.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => 0,
            Err(error) => return Err(error),
        };
        if !go_direct(&file, false) {
            return Err(io::Error::other("cannot write the end of the file through the page cache"));
        }
    }
    file.write_all_at(&content[written..], written as u64)?;
    file.sync_data()
}

/// A part of a file; fewer bytes only where the file ends.
pub(super) fn read(path: &Path, offset: u64, length: usize) -> io::Result<Bytes> {
    let file = File::open(path)?;
    if length >= WORTHWHILE && go_direct(&file, true) {
        match read_direct(&file, offset, length) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => drop(go_direct(&file, false)),
            outcome => return outcome,
        }
    }
    let there = file.metadata()?.len().saturating_sub(offset).min(length as u64);
    let mut content = vec![0; usize::try_from(there).map_err(io::Error::other)?];
    file.read_exact_at(&mut content, offset)?;
    Ok(Bytes::from(content))
}

/// Past the page cache from now on, or through it again; false where the file system cannot. Not asked for while
/// opening: some file systems make the file first and refuse then.
fn go_direct(file: &File, direct: bool) -> bool {
    rustix::fs::fcntl_getfl(file)
        .map(|flags| if direct { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT })
        .and_then(|flags| rustix::fs::fcntl_setfl(file, flags))
        .is_ok()
}

/// Writes through a small buffer that lies as the disk wants it.
fn write_direct(mut file: &File, content: &[u8]) -> io::Result<()> {
    let mut buffer = vec![0; STEP + ALIGNMENT];
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    for piece in content.chunks(STEP) {
        let aligned = &mut buffer[start..start + piece.len()];
        aligned.copy_from_slice(piece);
        file.write_all(aligned)?;
    }
    Ok(())
}

/// Reads from the boundary before the first byte to the one after the last, and gives what was asked for.
fn read_direct(file: &File, offset: u64, length: usize) -> io::Result<Bytes> {
    let before = usize::try_from(offset % ALIGNMENT as u64).map_err(io::Error::other)?;
    let wanted = (before + length).next_multiple_of(ALIGNMENT);
    let mut buffer = vec![0; wanted + ALIGNMENT];
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    let mut end = start;
    while end < start + wanted {
        let position = offset - before as u64 + (end - start) as u64;
        match file.read_at(&mut buffer[end..start + wanted], position)? {
            0 => break,
            read => end += read,
        }
        // Only the end of the file leaves a rest.
        if !(end - start).is_multiple_of(ALIGNMENT) {
            break;
        }
    }
    let first = (start + before).min(end);
    Ok(Bytes::from(buffer).slice(first..end.min(first + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_every_length_around_a_boundary_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let lengths = [0, 1, STEP - 1, STEP, STEP + 1, 2 * STEP - ALIGNMENT, 2 * STEP + ALIGNMENT + 7];
        for (number, length) in lengths.into_iter().enumerate() {
            let content: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let path = folder.path().join(number.to_string());
            write_new(&path, &content).unwrap();
            assert!(write_new(&path, &content).is_err(), "a file that is there is not written over");
            assert!(std::fs::read(&path).unwrap() == content, "{length}");
            for offset in [0, 1, ALIGNMENT - 1, ALIGNMENT, length.saturating_sub(STEP), length, length + 9] {
                for wanted in [STEP, STEP + 1, length, length + 9] {
                    let end = (offset + wanted).min(length);
                    let expected = content.get(offset..end).unwrap_or_default();
                    assert!(read(&path, offset as u64, wanted).unwrap() == expected, "{length} {offset} {wanted}");
                }
            }
        }
    }
}

//! Large files past the page cache: what a repository holds is written once and seldom read, and so is a volume that comes
//! back. Copying it through memory that others could use costs more time than the disk takes.

use std::fs::File;
use std::io;
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
/// What several write at once goes past the cache in blocks of this size only. No page of any machine is larger, so nobody
/// goes past the cache where another goes through it.
const BLOCK: u64 = 64 << 10;

/// A small buffer that lies as the disk wants it, made when it is first needed.
#[derive(Default)]
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    /// Writes from a position on, both multiples of [`ALIGNMENT`], into a file that goes past the cache.
    fn write(&mut self, file: &File, content: &[u8], mut position: u64) -> io::Result<()> {
        if self.0.is_empty() {
            self.0 = vec![0; STEP + ALIGNMENT];
        }
        let start = self.0.as_ptr().align_offset(ALIGNMENT);
        for piece in content.chunks(STEP) {
            let aligned = &mut self.0[start..start + piece.len()];
            aligned.copy_from_slice(piece);
            file.write_all_at(aligned, position)?;
            position += piece.len() as u64;
        }
        Ok(())
    }
}

/// Writes a part of a file that others write other parts of: whole blocks of a large part through `direct`, which gives the
/// same file past the cache if that can be had, and the rest through the cache.
pub(crate) fn write_at<'f>(
    file: &File,
    direct: impl FnOnce() -> Option<&'f File>,
    content: &[u8],
    start: u64,
    buffer: &mut Buffer,
) -> io::Result<()> {
    if content.len() < WORTHWHILE {
        return file.write_all_at(content, start);
    }
    // More than a block is left of a mebibyte, whatever is cut off at its ends.
    let first = (start.next_multiple_of(BLOCK) - start) as usize;
    let end = content.len() - ((start + content.len() as u64) % BLOCK) as usize;
    file.write_all_at(&content[end..], start + end as u64)?;
    file.write_all_at(&content[..first], start)?;
    let position = start + first as u64;
    if let Some(direct) = direct() {
        match buffer.write(direct, &content[first..end], position) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => drop(go_direct(file, false)),
            outcome => return outcome,
        }
    }
    file.write_all_at(&content[first..end], position)
}

/// A new file with this content, on the disk when this returns.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut written = 0;
    if content.len() >= WORTHWHILE && go_direct(&file, true) {
        let whole = content.len() - content.len() % ALIGNMENT;
        written = match Buffer::default().write(&file, &content[..whole], 0) {
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
pub(crate) fn read(path: &Path, offset: u64, length: usize) -> io::Result<Bytes> {
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
pub(crate) fn go_direct(file: &File, direct: bool) -> bool {
    rustix::fs::fcntl_getfl(file)
        .map(|flags| if direct { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT })
        .and_then(|flags| rustix::fs::fcntl_setfl(file, flags))
        .is_ok()
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

    #[test]
    fn parts_that_many_write_at_once_make_the_whole_file() {
        let content: Vec<u8> = (0..17_u64 << 20).map(|index| ((index * 2_654_435_761) >> 13) as u8).collect();
        let lengths = [WORTHWHILE, WORTHWHILE - 1, 3 * WORTHWHILE + 1, 5, BLOCK as usize, 2 * WORTHWHILE + 4095];
        let mut parts = Vec::new();
        let mut start = 0;
        for length in lengths.into_iter().cycle() {
            let end = (start + length).min(content.len());
            parts.push(start..end);
            start = end;
            if end == content.len() {
                break;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create(&path).unwrap().set_len(content.len() as u64).unwrap();
        std::thread::scope(|scope| {
            for hand in 0..4 {
                let (parts, path, content) = (&parts, &path, &content);
                scope.spawn(move || {
                    let mut buffer = Buffer::default();
                    for part in parts.iter().skip(hand).step_by(4) {
                        let file = File::options().write(true).open(path).unwrap();
                        let turned = || go_direct(&file, true).then_some(&file);
                        write_at(&file, turned, &content[part.clone()], part.start as u64, &mut buffer).unwrap();
                    }
                });
            }
        });
        assert!(std::fs::read(&path).unwrap() == content);
    }
}

//! Files of a repository where the page cache cannot be gone past: as `direct.rs`, through it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use bytes::Bytes;

/// A new file with this content, on the disk when this returns.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    file.sync_data()
}

/// A part of a file; fewer bytes only where the file ends.
pub(crate) fn read(path: &Path, offset: u64, length: usize) -> io::Result<Bytes> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut content = Vec::new();
    file.take(length as u64).read_to_end(&mut content)?;
    Ok(Bytes::from(content))
}

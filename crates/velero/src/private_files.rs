//! Files for this user's eyes only. Windows has no modes; there, who may read a file is up to the folder it is in.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// How to open a file to write to; one that is made is for this user alone.
pub(crate) fn to_write() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder for this user alone, and those above it where needed.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

//! The bytes of a backup at rest: object keys, the tarball and the compressed JSON files.
//!
//! Nothing here talks to a network or a clock. The store crate decides where the bytes go, the engine decides what
//! they say; this crate alone decides how they are laid out, and refuses what does not follow the layout.

mod error;
mod extensions;
pub mod go_json;
pub mod gzjson;
pub mod keys;
pub mod layout;
mod limits;
pub mod reader;
pub mod rewrite;
pub mod writer;

pub use error::{Error, Result};
pub use keys::{BackupFile, ObjectKeys, RestoreFile};
pub use layout::{ItemPath, VersionDirectory};
pub use limits::Limits;
pub use reader::{ArchiveReader, Entry, Summary};
pub use rewrite::rewrite;
pub use writer::ArchiveWriter;

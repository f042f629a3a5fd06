//! What the whole-system tests share. Each story is a file beside this folder.

pub mod backups;
pub mod difference;
pub mod fixture;
pub mod host;

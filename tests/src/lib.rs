//! What the whole-system tests share. Each story is a file beside this folder.

pub mod difference;
pub mod host;

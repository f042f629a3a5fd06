//! `velero repo …`: what lies in repositories of volume data, with a cluster or without one.
//!
//! `place` finds the repository and its password, `opened` opens it and explains what goes wrong; the rest is a verb a file.

mod cat;
mod get;
mod in_cluster;
mod list;
mod maintain;
mod opened;
mod place;
mod progress;
#[cfg(target_os = "linux")]
mod restore;
#[cfg(not(target_os = "linux"))]
#[path = "restore_elsewhere.rs"]
mod restore;
mod stats;
mod verify;

pub(super) use cat::cat;
pub(super) use get::get;
pub(super) use list::list;
pub(super) use maintain::maintain;
pub(super) use restore::restore;
pub(super) use stats::stats;
pub(super) use verify::verify;

/// A number of bytes for people.
fn bytes(count: u64) -> String {
    indicatif::BinaryBytes(count).to_string()
}

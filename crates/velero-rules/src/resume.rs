//! A restore that goes on with one that was interrupted or ended with errors: whether that can be done, what it asks for, and
//! what becomes of what the earlier one left half done.
//!
//! ```text
//! family ── which restores belong together: those that resume each other
//! obstacle ── why one cannot be resumed
//! wish ── the restore that resumes another, and its name
//! left ── pods and claims that an earlier restore made, and whether their data came
//! ```

mod family;
mod left;
mod obstacle;
mod wish;

pub use family::{Relative, family};
pub use left::{Download, LeftClaim, LeftPod, Snapshot, awaited_snapshot, left_claim, left_pod, waits_for_download};
pub use obstacle::{Resumed, backup_obstacle, restore_obstacle};
pub use wish::{resume_name, resuming};

#[cfg(test)]
mod tests;

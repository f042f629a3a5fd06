//! Deletes a backup with its snapshots, files and restores.
//!
//! ```text
//! reconciler ── carries out a request: `velero_rules::deletion` says what comes next
//!   inspect ── what the backup owns, and whether all of it can be removed
//!   removal ── the steps of the removal
//!   snapshots ── which snapshots in repositories it owns, and forgetting them
//!   transfers ── the objects that moved data for it
//! requests ── the requests themselves
//! ```

pub(crate) mod inspect;
pub(crate) mod reconciler;
mod removal;
pub(crate) mod requests;
mod snapshots;
mod transfers;

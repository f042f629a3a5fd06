//! Restores, from the moment one is asked for until its files are gone.
//!
//! ```text
//! reconciler ── hands each restore to the module of its phase
//!   run ── facts, resumption, prepare, transfer, report: restores; settle: waits for what is left, as awaited notes;
//!     interruption: what ends it before that
//!   following ── what becomes of it while its operations are followed (lifecycle::follow)
//!   cancellation ── ends it where somebody asked for that and nobody works on it
//!   finalizer, ending ── end one that an earlier server left unfinished, and tell of it
//!   debts ── cleans up what an interrupted run left
//!   deletion, kept_files ── remove its files before it goes
//!   dry_run ── says what it would do, if that is all it asks
//! store, of_backup ── where its files are, and which restores a backup has
//! ```

mod awaited;
mod cancellation;
pub(crate) mod debts;
mod deletion;
mod dry_run;
pub(crate) mod ending;
mod error;
mod facts;
mod finalizer;
mod following;
mod interruption;
pub(crate) mod kept_files;
pub(crate) mod of_backup;
mod prepare;
pub(crate) mod reconciler;
mod report;
mod resumption;
mod run;
mod settle;
mod store;
mod transfer;

pub use dry_run::DryRunReport;
pub(crate) use facts::default_modifiers;
pub use prepare::{PreparedRestore, prepare_restore};

//! Backups, from the moment one is asked for until nothing is left of it.
//!
//! ```text
//! reconciler ── hands each backup to the module of its phase
//!   queue ── lets it wait for its turn; places: who has one among those that run
//!   run ── facts, prepare, reservation, transfer, report: makes it and stores it; owed_hooks are run on every way out
//!   following ── what becomes of it while its operations are followed (lifecycle::follow)
//!   finalizer ── archive_update, ending: stores again what operations changed, and ends it
//!   cancellation ── ends it where somebody asked for that and nobody works on it
//!   again ── takes it again where its server was interrupted
//!   debts ── cleans up what an interrupted run left
//!   garbage_collection ── asks for its deletion when its time is over
//! volumes ── what it has saved of volumes, after its run
//! deletion/ ── deletes it with all it owns
//! sync, orphans ── bring backups of the bucket into the cluster, report what is none
//! ```

pub(crate) mod again;
mod archive_update;
mod cancellation;
pub(crate) mod debts;
pub(crate) mod deletion;
pub(crate) mod ending;
mod facts;
mod failure;
mod finalizer;
mod following;
mod garbage_collection;
mod orphans;
pub(crate) mod owed_hooks;
mod places;
mod prepare;
mod queue;
pub(crate) mod reconciler;
mod report;
mod reservation;
mod run;
pub(crate) mod sync;
mod transfer;
mod unreadable;
mod volumes;
